r"""$u_{tt} = c^2 u_{xx}$ for $t \in [0, 1]$ and $x \in [0, 1]$: a string, of second order in time."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box, SpaceTime
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem


def build(*, speed: float | int = 1.0) -> Problem:
    r"""The problem with $u(0, x) = \sin\pi x + \tfrac12 \sin 3\pi x$, $u_t(0, x) = 0$ and fixed ends; `speed` is $c$.

    $u = \cos(\pi c t) \sin\pi x + \tfrac12 \cos(3\pi c t) \sin 3\pi x$.
    """
    if not (math.isfinite(speed) and speed > 0):
        raise ValueError(f"`wave`: `speed` is finite and above zero; got {speed}.")

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        modes = [w * jnp.cos(n * jnp.pi * speed * x[0]) * jnp.sin(n * jnp.pi * x[1]) for n, w in ((1, 1.0), (3, 0.5))]
        return modes[0] + modes[1]

    def equation(u: Field, x: Array) -> Array:
        return partial(u, 0, 0)(x) - speed**2 * partial(u, 1, 1)(x)

    def shape(u: Field, x: Array) -> Array:
        return u(x) - jnp.sin(jnp.pi * x[1]) - 0.5 * jnp.sin(3 * jnp.pi * x[1])

    def at_rest(u: Field, x: Array) -> Array:
        return partial(u, 0)(x)

    def boundary(u: Field, x: Array) -> Array:
        return u(x)

    return Problem(
        domain=SpaceTime(Box(0.0, 1.0), 0.0, 1.0),
        equations={"interior": equation, "initial": [shape, at_rest], "boundary": boundary},
        reference=exact,
        name="wave",
        defaults=Defaults(
            kernel=Gaussian((0.25 / speed, 0.25)), num_interior=900, num_boundary=240, nugget=1e-13, grid=(60, 60)
        ),
    )
