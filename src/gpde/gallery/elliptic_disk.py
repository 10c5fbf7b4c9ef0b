r"""$-\Delta u + u^3 = f$ on the unit disk with Robin's condition $\partial_n u + \alpha u = g$ on its rim."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Ball
from gpde.kernels import Gaussian
from gpde.operators import Field, directional, laplacian
from gpde.problem.problem import Defaults, Problem


def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
    r"""$u = e^{x/2} \sin(2y + 0.3)$."""
    return jnp.exp(0.5 * x[0]) * jnp.sin(2 * x[1] + 0.3)


def left_side(u: Field, x: Array) -> Array:
    r"""$-\Delta u + u^3$."""
    return -laplacian(u)(x) + u(x) ** 3


def equation(u: Field, x: Array) -> Array:
    r"""$-\Delta u + u^3 - f$ with $f$ that of the solution."""
    return left_side(u, x) - left_side(exact, x)


def build(*, exchange: float | int = 2.0) -> Problem:
    r"""The problem; `exchange` is $\alpha$, how much the rim gives off."""
    if not (math.isfinite(exchange) and exchange >= 0):
        raise ValueError(f"`elliptic-disk`: `exchange` is finite and not below zero; got {exchange}.")

    def robin(u: Field, x: Array, n: Array) -> Array:
        return directional(u, n)(x) + exchange * u(x) - directional(exact, n)(x) - exchange * exact(x)

    return Problem(
        domain=Ball((0.0, 0.0), 1.0),
        equations={"interior": equation, "boundary": robin},
        reference=exact,
        name="elliptic-disk",
        defaults=Defaults(kernel=Gaussian(0.6), num_interior=400, num_boundary=120, nugget=1e-12, grid=(60, 60)),
    )
