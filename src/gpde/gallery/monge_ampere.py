r"""$\det D^2 u = f$ on the unit square with $u = g$ on its boundary, for convex $u$: fully nonlinear."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem


def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
    r"""$u = e^{|x|^2/2}$."""
    return jnp.exp(jnp.sum(x**2) / 2)


def equation(u: Field, x: Array) -> Array:
    r"""$\Delta u = \sqrt{(u_{xx} - u_{yy})^2 + 4 u_{xy}^2 + 4f}$ with $f = (1 + |x|^2) e^{|x|^2}$.

    That is $u_{xx} u_{yy} - u_{xy}^2 = f$ with $\Delta u > 0$: of the two solutions the convex one, and an equation that has a
    slope where $u = 0$, from where a solver starts.
    """
    f = (1 + jnp.sum(x**2)) * jnp.exp(jnp.sum(x**2))
    xx, yy, xy = partial(u, 0, 0)(x), partial(u, 1, 1)(x), partial(u, 0, 1)(x)
    return xx + yy - jnp.sqrt((xx - yy) ** 2 + 4 * xy**2 + 4 * f)


def boundary(u: Field, x: Array) -> Array:
    r"""$u = g$."""
    return u(x) - exact(x)


def build() -> Problem:
    """The problem; it has no parameters."""
    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="monge-ampere",
        defaults=Defaults(kernel=Gaussian(0.6), num_interior=400, num_boundary=160, nugget=1e-12, grid=(50, 50)),
    )
