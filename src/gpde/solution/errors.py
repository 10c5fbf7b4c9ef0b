"""How far a solution is from the truth, at points inside the domain."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpde.problem.problem import Problem

if TYPE_CHECKING:
    from gpde.solution.solution import Solution

# Points of a test grid where the problem does not give its shape.
_NUM_GRID_POINTS = {1: 400, 2: 3600}


def grid_shape(dim: int, problem: Problem | None = None) -> tuple[int, ...]:
    """The shape of the test grid: the problem's own, or a cube of about 4000 points."""
    if problem is not None and problem.defaults.grid is not None:
        return problem.defaults.grid
    return (max(2, round(_NUM_GRID_POINTS.get(dim, 4000) ** (1 / dim))),) * dim


def error_points(problem: Problem) -> Float[np.ndarray, "points dim"]:
    """Where a solution of the problem is compared with the truth."""
    return problem.domain.test_points(grid_shape(problem.domain.dim, problem))


def reference_values(
    problem: Problem | None, points: Float[np.ndarray, "points dim"]
) -> Float[np.ndarray, "points fields"] | None:
    """The exact solution at points, one column per field; None where it is not known."""
    exact = None if problem is None else problem.reference
    if exact is None:
        return None

    def at(x: jax.Array) -> jax.Array:
        values = exact(x)
        return jnp.stack([jnp.asarray(v).reshape(()) for v in (values if isinstance(values, tuple | list) else [values])])

    return np.asarray(jax.jit(jax.vmap(at))(jnp.asarray(points)))


def errors(solution: "Solution", points: Float[np.ndarray, "points dim"]) -> dict[str, float | None]:
    r"""$\max|u - u^*|$ and $\sqrt{\mathrm{mean}\,|u - u^*|^2}$ at points, over all fields; None without a reference."""
    truth = reference_values(solution.problem, points)
    if truth is None:
        return {"linf": None, "l2": None}
    difference = np.abs(solution(points).reshape(truth.shape) - truth)
    return {"linf": float(difference.max()), "l2": float(np.sqrt(np.mean(difference**2)))}
