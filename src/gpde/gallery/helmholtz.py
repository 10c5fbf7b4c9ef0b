r"""$\Delta u + k^2 u = 0$ on the unit square with the values of two plane waves on its boundary."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, laplacian
from gpde.problem.problem import Defaults, Problem


def build(*, wavenumber: float | int = 12.0) -> Problem:
    r"""The problem with solution $u = \cos(k\, d_1 \cdot x) + \tfrac12 \sin(k\, d_2 \cdot x)$; `wavenumber` is $k$.

    It has no other solution unless $k^2/\pi^2$ is a sum of two squares of whole numbers, where a standing wave could be added.
    """
    if not (math.isfinite(wavenumber) and wavenumber > 0):
        raise ValueError(f"`helmholtz`: `wavenumber` is finite and above zero; got {wavenumber}.")

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        first, second = 0.6 * x[0] + 0.8 * x[1], 0.8 * x[0] - 0.6 * x[1]
        return jnp.cos(wavenumber * first) + 0.5 * jnp.sin(wavenumber * second)

    def equation(u: Field, x: Array) -> Array:
        return laplacian(u)(x) + wavenumber**2 * u(x)

    def boundary(u: Field, x: Array) -> Array:
        return u(x) - exact(x)

    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="helmholtz",
        defaults=Defaults(kernel=Gaussian(0.25), num_interior=900, num_boundary=240, nugget=1e-13, grid=(60, 60)),
    )
