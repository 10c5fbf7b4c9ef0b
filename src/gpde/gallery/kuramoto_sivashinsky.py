r"""$u_t + u u_x + u_{xx} + u_{xxxx} = 0$ on a circle: long waves grow, short ones die, and chaos comes late."""

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

_LENGTH = 6 * math.pi


def build(*, duration: float | int = 4.0) -> Problem:
    r"""The problem for $t \in [0, T]$, $x \in [0, 6\pi]$ periodic, $u(0, x) = \cos\tfrac x3 (1 + \sin\tfrac{2x}3)$.

    `duration` is $T$; for long times see `gpde.march`. The reference has Fourier modes in space.
    """
    if not (math.isfinite(duration) and 0 < duration <= 60):
        raise ValueError(f"`kuramoto-sivashinsky`: `duration` is above zero and at most 60; got {duration}.")

    def equation(u: Field, x: Array) -> Array:
        carried = partial(u, 0)(x) + u(x) * partial(u, 1)(x)
        return carried + partial(u, 1, 1)(x) + partial(u, 1, 1, 1, 1)(x)

    def initial(u: Field, x: Array) -> Array:
        return u(x) - jnp.cos(x[1] / 3) * (1 + jnp.sin(2 * x[1] / 3))

    return Problem(
        domain=SpaceTime(Box(0.0, _LENGTH, periodic=("x",)), 0.0, float(duration)),
        equations={"interior": equation, "initial": initial},
        reference=lambda x: _reference(float(duration))(x)[0],
        name="kuramoto-sivashinsky",
        defaults=Defaults(kernel=Gaussian((1.0, 1.3)), num_interior=1400, num_boundary=140, nugget=1e-12, grid=(30, 80)),
    )


@functools.cache
def _reference(duration: float) -> Callable[[Float[Array, "2"]], tuple[Array, ...]]:
    return evolved(
        lambda u, derivative: -u * derivative(u, 1) - derivative(u, 2) - derivative(u, 4),
        lambda x: (np.cos(x / 3) * (1 + np.sin(2 * x / 3)))[None],
        lower=0.0, length=_LENGTH, duration=duration, num_points=64,
    )  # fmt: skip
