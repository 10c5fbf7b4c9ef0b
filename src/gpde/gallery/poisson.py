r"""$-\Delta u = f$ on the unit square with $u = g$ on its boundary: linear, so one Gauss–Newton step solves it."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, laplacian
from gpde.problem.problem import Defaults, Problem


def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
    r"""$u = \sin\pi x \sin 2\pi y + x^2 - y$."""
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1]) + x[0] ** 2 - x[1]


def equation(u: Field, x: Array) -> Array:
    r"""$-\Delta u - f$ with $f = -\Delta u^*$."""
    return -laplacian(u)(x) + laplacian(exact)(x)


def boundary(u: Field, x: Array) -> Array:
    r"""$u - g$ with $g = u^*$."""
    return u(x) - exact(x)


def build() -> Problem:
    """The problem; it has no parameters."""
    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="poisson",
        defaults=Defaults(kernel=Gaussian(0.3), num_interior=400, num_boundary=120, nugget=1e-12, grid=(60, 60)),
    )
