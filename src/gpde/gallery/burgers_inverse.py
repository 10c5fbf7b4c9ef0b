r"""$u_t + u u_x - \nu u_{xx} = 0$ with $\nu$ unknown: the viscosity from noisy measurements of $u$."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gpde.domains import Box, SpaceTime
from gpde.gallery.burgers import cole_hopf
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.observations import Observations
from gpde.problem.parameters import Parameter
from gpde.problem.problem import Defaults, Problem

_NUM_DATA, _NOISE = 100, 0.01


def build(*, viscosity: float | int = 0.1, draw: float | int = 0.0) -> Problem:
    r"""The problem with $u(0, x) = -\sin\pi x$, $u(t, \pm 1) = 0$ and 100 values of $u$ with noise 0.01.

    `viscosity` is the $\nu$ to be found, which only the data know; the estimate starts from 0.3. `draw` is the seed
    of the places of the data and of their noise.
    """
    if not (math.isfinite(viscosity) and viscosity >= 0.05):
        raise ValueError(f"`burgers-inverse`: `viscosity` is finite and at least 0.05; got {viscosity}.")
    if draw < 0 or draw != int(draw):
        raise ValueError(f"`burgers-inverse`: `draw` is a whole number, zero or more; got {draw}.")

    def equation(u: Field, x: Array, nu: Array) -> Array:
        return partial(u, 0)(x) + u(x) * partial(u, 1)(x) - nu * partial(u, 1, 1)(x)

    def initial(u: Field, x: Array) -> Array:
        return u(x) + jnp.sin(jnp.pi * x[1])

    def boundary(u: Field, x: Array) -> Array:
        return u(x)

    exact = cole_hopf(viscosity)
    rng = np.random.default_rng(int(draw))
    places = np.column_stack([rng.uniform(0, 1, _NUM_DATA), rng.uniform(-1, 1, _NUM_DATA)])
    values = np.asarray(jax.vmap(exact)(jnp.asarray(places))) + _NOISE * rng.normal(size=_NUM_DATA)
    return Problem(
        domain=SpaceTime(Box(-1.0, 1.0), 0.0, 1.0),
        equations={"interior": equation, "initial": initial, "boundary": boundary},
        observations=Observations(places, values, noise=_NOISE),
        parameters={"nu": Parameter(initial=0.3, lower=0.0)},
        reference=exact,
        name="burgers-inverse",
        # Amplitudes 1, 5 and 20 give ν within half a percent of each other, and all follow the data. What does not says so.
        defaults=Defaults(
            kernel=Gaussian((0.3, 0.15), amplitude=5.0), num_interior=500, num_boundary=120, nugget=1e-10, grid=(31, 81)
        ),
    )
