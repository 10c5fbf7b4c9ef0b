r"""$-\Delta u + u^3 = f$ on the unit square (paper, Sec. 4.1)."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, laplacian
from gpde.problem.problem import Defaults, Problem


def build(*, amplitude: float | int = 4.0) -> Problem:
    r"""The problem with solution $u = \sin\pi x \sin\pi y + a \sin 4\pi x \sin 4\pi y$; `amplitude` is $a$."""
    if not math.isfinite(amplitude):
        raise ValueError(f"`elliptic`: `amplitude` is finite; got {amplitude}.")

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        slow, fast = jnp.sin(jnp.pi * x), jnp.sin(4 * jnp.pi * x)
        return slow[0] * slow[1] + amplitude * fast[0] * fast[1]

    def left_side(u: Field, x: Array) -> Array:
        return -laplacian(u)(x) + u(x) ** 3

    def equation(u: Field, x: Array) -> Array:
        return left_side(u, x) - left_side(exact, x)

    def boundary(u: Field, x: Array) -> Array:
        return u(x)

    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="elliptic",
        defaults=Defaults(kernel=Gaussian(0.2), num_interior=900, num_boundary=300, nugget=1e-13, grid=(100, 100)),
    )
