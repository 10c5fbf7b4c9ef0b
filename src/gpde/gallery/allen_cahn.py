r"""$u_t = \nu u_{xx} + 5 (u - u^3)$ on a circle: phases that part."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import Box, SpaceTime
from gpde.gallery.references.periodic import evolved
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem


def build(*, diffusion: float | int = 0.02) -> Problem:
    r"""The problem for $t \in [0, 1]$, $x \in [-1, 1]$ periodic, $u(0, x) = -\tfrac12 \cos\pi x + \tfrac14 \sin 2\pi x$.

    `diffusion` is $\nu$; fronts are about $\sqrt{2\nu/5}$ wide. The reference has Fourier modes in space.
    """
    if not (math.isfinite(diffusion) and diffusion >= 1e-3):
        raise ValueError(f"`allen-cahn`: `diffusion` is finite and at least 0.001; got {diffusion}.")

    def equation(u: Field, x: Array) -> Array:
        return partial(u, 0)(x) - diffusion * partial(u, 1, 1)(x) - 5 * (u(x) - u(x) ** 3)

    def initial(u: Field, x: Array) -> Array:
        return u(x) + 0.5 * jnp.cos(jnp.pi * x[1]) - 0.25 * jnp.sin(2 * jnp.pi * x[1])

    return Problem(
        domain=SpaceTime(Box(-1.0, 1.0, periodic=("x",)), 0.0, 1.0),
        equations={"interior": equation, "initial": initial},
        reference=lambda x: _reference(float(diffusion))(x)[0],
        name="allen-cahn",
        defaults=Defaults(kernel=Gaussian((0.3, 0.16)), num_interior=1100, num_boundary=120, nugget=1e-12, grid=(30, 80)),
    )


@functools.cache
def _reference(diffusion: float) -> Callable[[Float[Array, "2"]], tuple[Array, ...]]:
    return evolved(
        lambda u, derivative: diffusion * derivative(u, 2) + 5 * (u - u**3),
        lambda x: (-0.5 * np.cos(np.pi * x) + 0.25 * np.sin(2 * np.pi * x))[None],
        lower=-1.0, length=2.0, duration=1.0,
    )  # fmt: skip
