r"""A sum of dense blocks as a linear operator, and what a solver for it is."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int


class BlockSum(eqx.Module):
    r"""$H = \sum_c R_c^T B_c R_c$: `rows` says where each block acts; rows equal to `size` are dropped (fixed values)."""

    blocks: Float[np.ndarray, "blocks width width"]
    rows: Int[np.ndarray, "blocks width"]
    size: int = eqx.field(static=True)

    def upper(self) -> sp.csr_matrix:
        """The assembled matrix on and above its diagonal."""
        width = self.rows.shape[1]
        # Within a block the entry (i, j) goes above the diagonal of H when row i's unknown comes first.
        row, column = np.repeat(self.rows, width, axis=1).reshape(-1), np.tile(self.rows, (1, width)).reshape(-1)
        keep = np.flatnonzero((row <= column) & (column < self.size))
        entries = (self.blocks.reshape(-1)[keep], (row[keep], column[keep]))
        del row, column, keep
        return sp.csr_matrix(entries, shape=(self.size, self.size))

    def sparse(self) -> sp.csr_matrix:
        """The assembled matrix."""
        upper = self.upper()
        return sp.csr_matrix(upper + sp.triu(upper, k=1).T)

    def diagonal(self) -> Float[np.ndarray, " size"]:
        r"""$\mathrm{diag}\,H$."""
        return self._summed(np.diagonal(self.blocks, axis1=1, axis2=2))

    def times(self, x: Float[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        r"""$Hx$ without assembling $H$."""
        return self._summed(np.matmul(self.blocks, np.append(x, 0.0)[self.rows][:, :, None])[:, :, 0])

    def _summed(self, local: Float[np.ndarray, "blocks width"]) -> Float[np.ndarray, " size"]:
        return np.bincount(self.rows.reshape(-1), weights=local.reshape(-1), minlength=self.size + 1)[: self.size]


def product(blocks: Float[Array, "blocks width width"], rows: Int[Array, "blocks width"], x: Float[Array, " size"]) -> Array:
    r"""$Hx$ without assembling $H$."""
    padded = jnp.append(x, 0.0)
    local = jnp.einsum("bij,bj->bi", blocks, padded[rows])
    return jnp.zeros(x.shape[0] + 1).at[rows].add(local)[:-1]


class Solved(NamedTuple):
    """The solution, the relative residual reached, and how many iterations it took."""

    solution: Float[np.ndarray, " size"]
    residual: float
    num_iterations: int


class AbstractLinearSolver(eqx.Module):
    """Factor once, solve often: `compute` prepares, `solve` applies."""

    name: eqx.AbstractClassVar[str]

    @abstractmethod
    def compute(
        self,
        matrix: BlockSum,
        coordinates: Float[np.ndarray, "size dim"],
        component: Int[np.ndarray, " size"],
        previous: Any = None,
    ) -> Any:
        """What the solver needs of the matrix; `coordinates` say where each unknown lies (by `Metric.coordinates`), `component`
        which field it belongs to. `previous` is what was kept of an earlier result, for a matrix of the same structure."""

    def keep(self, prepared: Any) -> Any:
        """What of a result may serve the next matrix: it stays in memory until then."""
        return prepared

    @abstractmethod
    def solve(self, matrix: BlockSum, prepared: Any, rhs: Float[np.ndarray, " size"], tolerance: float) -> Solved:
        """Solves to a relative residual of `tolerance`, or as near as rounding allows."""
