r"""$-\nabla\cdot(e^a \nabla u) = 1$ on the unit square with $a$ unknown: the permeability from noisy measurements of $u$.

Chen, Hosseini, Owhadi and Stuart (2021), Sec. 4.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.gallery.references.darcy import pressure
from gpde.kernels import Gaussian, Offset
from gpde.operators import Field, gradient, laplacian
from gpde.problem.observations import Observations
from gpde.problem.problem import Defaults, Problem

_NUM_DATA, _NOISE = 60, 1e-3


def build(*, draw: float | int = 0.0) -> Problem:
    r"""The problem with $u = 0$ on the boundary and 60 values of $u$ with noise $10^{-3}$; `draw` is the seed of their places
    and of the noise.

    In truth $a = \log(e^s + e^{-s})$ with $s = \sin 2\pi x + \sin 2\pi y$; the reference of $u$ is a spectral method on
    Chebyshev points.
    """
    if draw < 0 or draw != int(draw):
        raise ValueError(f"`darcy-inverse`: `draw` is a whole number, zero or more; got {draw}.")

    def equation(u: Field, a: Field, x: Array) -> Array:
        # Divided by exp(a), so that Δu has a constant coefficient and the equation can be solved for it.
        return laplacian(u)(x) + gradient(a)(x) @ gradient(u)(x) + jnp.exp(-a(x))

    def boundary(u: Field, a: Field, x: Array) -> Array:
        del a
        return u(x)

    rng = np.random.default_rng(int(draw))
    places = rng.uniform(size=(_NUM_DATA, 2))
    values = np.asarray(jax.vmap(_pressure())(jnp.asarray(places))) + _NOISE * rng.normal(size=_NUM_DATA)
    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        fields=("u", "a"),
        observations=Observations(places, values, noise=_NOISE),
        reference=lambda x: (_pressure()(x), log_permeability(x[0], x[1], jnp)),
        name="darcy-inverse",
        # Data as noisy as these need no equation to nine digits, and with a nugget of 1e-9 Gauss-Newton creeps.
        defaults=Defaults(
            kernel={"u": Gaussian(0.2, amplitude=0.05), "a": Gaussian(0.2) + Offset()},
            num_interior=350,
            num_boundary=100,
            nugget=1e-6,
            grid=(40, 40),
        ),
    )


def log_permeability(x: Any, y: Any, xp: Any) -> Any:
    r"""$a = \log(e^s + e^{-s})$, for arrays of `xp`: numpy or jax."""
    s = xp.sin(2 * xp.pi * x) + xp.sin(2 * xp.pi * y)
    return xp.logaddexp(s, -s)


@functools.cache
def _pressure() -> Callable[[Float[Array, "2"]], Array]:
    return pressure(lambda x, y: log_permeability(x, y, np))
