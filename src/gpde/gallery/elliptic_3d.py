r"""$-\Delta u + u^3 = f$ on the unit cube."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, laplacian
from gpde.problem.problem import Defaults, Problem


def exact(x: Float[Array, "3"]) -> Float[Array, ""]:
    r"""$u = \sin\pi x \sin\pi y \sin\pi z$."""
    return jnp.prod(jnp.sin(jnp.pi * x))


def left_side(u: Field, x: Array) -> Array:
    r"""$-\Delta u + u^3$."""
    return -laplacian(u)(x) + u(x) ** 3


def equation(u: Field, x: Array) -> Array:
    r"""$-\Delta u + u^3 - f$ with $f$ that of the solution."""
    return left_side(u, x) - left_side(exact, x)


def boundary(u: Field, x: Array) -> Array:
    r"""$u = 0$."""
    return u(x)


def build() -> Problem:
    """The problem; it has no parameters."""
    return Problem(
        domain=Box((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="elliptic-3d",
        defaults=Defaults(kernel=Gaussian(0.6), num_interior=1000, num_boundary=600, nugget=1e-13, grid=(16, 16, 16)),
    )
