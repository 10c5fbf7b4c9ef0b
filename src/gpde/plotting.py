"""Figures of solutions: truth, solution, error, points and history."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpde.problem import Problem

if TYPE_CHECKING:
    pass

# Points of a picture where the problem does not say: a fine line, a square of about 60 by 60.
_NUM_GRID_POINTS = {1: 400, 2: 3600}


def reference_values(problem: Problem, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points fields"] | None:
    """The exact solution at points, one column per field; None where it is not known."""
    if problem.reference is None:
        return None

    def at(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.asarray(value).reshape(()) for value in _as_tuple(problem.reference(x))])

    return np.asarray(jax.jit(jax.vmap(at))(jnp.asarray(points)))


def _as_tuple(values: Any) -> tuple[Any, ...]:
    if isinstance(values, tuple | list):
        return tuple(values)
    return tuple(jnp.atleast_1d(values))


def grid_shape(problem: Problem) -> tuple[int, ...]:
    """The shape of the test grid: the problem's own, or about 4000 points."""
    if problem.defaults.grid is not None:
        return problem.defaults.grid
    dim = problem.domain.dim
    return (max(2, round(_NUM_GRID_POINTS.get(dim, 4000) ** (1 / dim))),) * dim
