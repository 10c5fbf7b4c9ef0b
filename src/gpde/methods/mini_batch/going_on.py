"""What a mini-batch run leaves to one that goes on, and whether that solves the same problem."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.point_table import all_residuals
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.functionals import Kernels
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.proximal import ProximalProblem
from gpde.methods.mini_batch.raising import Phase

# Residuals of the same equations at the same values differ by rounding, relative to the terms of the equations.
_SAME_EQUATIONS = 1e-8


class Earlier(NamedTuple):
    """What earlier runs on these points did: their steps, and how often they visited each point."""

    num_steps: int = 0
    visits: float = 0.0


class Resume(eqx.Module):
    """Latent values by point, what they leave of the equations, and how far the run was, with weights that raise themselves in
    which phase.

    A file holds no equations, so residuals tell whether those of another run are the same.
    """

    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: Float[np.ndarray, "points dim"]
    kernels: Kernels
    values: Float[np.ndarray, "points operators"]
    residual: Float[np.ndarray, "equations points"]
    num_steps: int
    visits: float
    phase: Phase | None

    @classmethod
    def of(
        cls, problem: ProximalProblem, values: Float[Array, "points operators"], start: Earlier, phase: Phase | None
    ) -> "Resume":
        table = problem.table
        return cls(
            operators=table.operators,
            points=np.asarray(table.points),
            kernels=problem.kernels,
            values=np.asarray(values),
            residual=_residual(problem, values),
            num_steps=start.num_steps,
            visits=start.visits,
            phase=phase,
        )

    def difference(self, problem: ProximalProblem) -> str | None:
        """Why the run is not one of this problem on these points; None where it is."""
        table = problem.table
        if table.operators != self.operators or not np.array_equal(table.points, self.points):
            return (
                "it was solved on other points or with other functionals (give the same `num_interior`, `num_boundary`, "
                "`sampling` and `seed`, or none of them)"
            )
        if not eqx.tree_equal(problem.kernels, self.kernels):
            return "it has another kernel"
        values = on_device(self.values)
        tolerance = _SAME_EQUATIONS * _size_of_terms(problem, values)
        same = np.allclose(_residual(problem, values), self.residual, rtol=0.0, atol=tolerance)
        return None if same else "it solves other equations"


def _residual(problem: ProximalProblem, values: Float[Array, "points operators"]) -> Float[np.ndarray, "equations points"]:
    return np.asarray(all_residuals(problem.table, values)).T


def _size_of_terms(problem: ProximalProblem, values: Float[Array, "points operators"]) -> float:
    r"""The largest of the terms $a_i z_i$ that make up an equation."""
    points, unit = jnp.arange(problem.table.num_points), jnp.ones(values.T.shape)
    gradient, _ = eqx.filter_jit(problem.linearized)(points, values, unit)
    return float(jnp.max(jnp.abs(gradient * values.T[None])))
