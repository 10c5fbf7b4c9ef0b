r"""$|\nabla u|^2 = 1 + \varepsilon \Delta u$ on a polygon with a hole: the first arrival of three fronts, rounded by ε."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from gpde.domains import Polygon
from gpde.kernels import Gaussian
from gpde.operators import Field, gradient, laplacian
from gpde.problem.problem import Defaults, Problem

VERTICES = ((-1.0, -0.8), (0.8, -1.0), (1.2, 0.3), (0.2, 1.1), (-0.9, 0.7))
HOLE = ((-0.3, -0.2), (0.3, -0.3), (0.2, 0.3))
# The way each front runs, and when it passes the origin.
_ANGLES, _ARRIVALS = np.array([0.2, 2.3, 4.1]), np.array([0.0, 0.1, -0.1])


def build(*, epsilon: float | int = 0.2) -> Problem:
    r"""The problem with the values of the solution on all of the boundary; `epsilon` is $\varepsilon$.

    $v = e^{-u/\varepsilon}$ turns the equation into $\varepsilon^2 \Delta v = v$, which sums of $e^{-(\tau + d \cdot x) /
    \varepsilon}$ with $|d| = 1$ solve. So $u = -\varepsilon \log \sum_j e^{-(\tau_j + d_j \cdot x)/\varepsilon}$, and as
    ε → 0 the earliest of the arrivals $\tau_j + d_j \cdot x$.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"`eikonal-hole`: `epsilon` is finite and above zero; got {epsilon}.")
    directions = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        return -epsilon * logsumexp(-(_ARRIVALS + directions @ x) / epsilon)

    def equation(u: Field, x: Array) -> Array:
        return jnp.sum(gradient(u)(x) ** 2) - 1.0 - epsilon * laplacian(u)(x)

    def boundary(u: Field, x: Array) -> Array:
        return u(x) - exact(x)

    return Problem(
        domain=Polygon(VERTICES, holes=[HOLE]),
        equations={"interior": equation, "boundary": boundary},
        reference=exact,
        name="eikonal-hole",
        defaults=Defaults(kernel=Gaussian(0.4), num_interior=700, num_boundary=300, nugget=1e-12, grid=(60, 60)),
    )
