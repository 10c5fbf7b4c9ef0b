"""How far a solution is from the truth, at points inside the domain."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpde.machine.arrays import on_device
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

    return np.asarray(jax.jit(jax.vmap(at))(on_device(points)))


class Predictions:
    """A solution and its truth at points, one column per field, each computed once: a report and a figure share them.

    `during`: entered while something is computed, so that a clock can tell.
    """

    def __init__(
        self, solution: "Solution", during: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> None:
        self.solution = solution
        self._during = during
        self._known: dict[tuple[str, bytes], Float[np.ndarray, "points fields"]] = {}

    def values(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points fields"]:
        """The fields."""
        return self._once("values", points, self.solution)

    def std(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points fields"]:
        """Their standard deviations."""
        return self._once("std", points, self.solution.std)

    def truth(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points fields"] | None:
        """The exact solution; None where it is not known."""
        problem = self.solution.problem
        if problem is None or problem.reference is None:
            return None
        return self._once("truth", points, lambda where: reference_values(problem, where))

    def together(self, *sets: Float[np.ndarray, "_ dim"]) -> None:
        """Computes values and truth at several sets of points, as one: every size of a set is a program to compile."""
        joined = np.concatenate(sets)
        ends = np.cumsum([len(points) for points in sets])[:-1]
        for name, compute in (("values", self.values), ("truth", self.truth)):
            columns = compute(joined)
            if columns is not None:
                for points, own in zip(sets, np.split(columns, ends), strict=True):
                    self._known[name, points.tobytes()] = own

    def _once(
        self, name: str, points: Float[np.ndarray, "points dim"], compute: Callable[..., np.ndarray | None]
    ) -> Float[np.ndarray, "points fields"]:
        key = name, points.tobytes()
        if key not in self._known:
            with self._during():
                self._known[key] = np.asarray(compute(points)).reshape(len(points), -1)
        return self._known[key]


def errors(predictions: Predictions, points: Float[np.ndarray, "points dim"]) -> dict[str, float | None]:
    r"""$\max|u - u^*|$ and $\sqrt{\mathrm{mean}\,|u - u^*|^2}$ at points, over all fields; None without a reference."""
    truth = predictions.truth(points)
    if truth is None:
        return {"linf": None, "l2": None}
    difference = np.abs(predictions.values(points) - truth)  # NaN where a field does not live
    return {"linf": float(np.nanmax(difference)), "l2": float(np.sqrt(np.nanmean(difference**2)))}
