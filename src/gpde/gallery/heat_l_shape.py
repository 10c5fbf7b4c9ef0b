r"""$u_t - \Delta u = f$ on an L for $t \in [0, 1]$, with $u = g$ on its boundary."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Polygon, SpaceTime
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem

ELL = ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (0.0, 2.0))


def exact(x: Float[Array, "3"]) -> Float[Array, ""]:
    r"""$u = e^{-t} \sin 2x \cos y + \tfrac12 \cos(x + y + t)$: smooth, also in the corner that looks in."""
    return jnp.exp(-x[0]) * jnp.sin(2 * x[1]) * jnp.cos(x[2]) + 0.5 * jnp.cos(x[1] + x[2] + x[0])


def left_side(u: Field, x: Array) -> Array:
    r"""$u_t - \Delta u$."""
    return partial(u, 0)(x) - partial(u, 1, 1)(x) - partial(u, 2, 2)(x)


def equation(u: Field, x: Array) -> Array:
    r"""$u_t - \Delta u - f$ with $f$ that of the solution."""
    return left_side(u, x) - left_side(exact, x)


def prescribed(u: Field, x: Array) -> Array:
    r"""$u = g$, at the start and on the boundary."""
    return u(x) - exact(x)


def build() -> Problem:
    """The problem; it has no parameters."""
    return Problem(
        domain=SpaceTime(Polygon(ELL), 0.0, 1.0),
        equations={"interior": equation, "initial": prescribed, "boundary": prescribed},
        reference=exact,
        name="heat-l-shape",
        defaults=Defaults(kernel=Gaussian((1.0, 0.8, 0.8)), num_interior=900, num_boundary=700, nugget=1e-13, grid=(8, 24, 24)),
    )
