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

    def sparse(self) -> sp.csc_matrix:
        """The assembled matrix; a `Pattern` assembles several of one structure faster."""
        return Pattern.of(self).assemble(self)


class Pattern(eqx.Module):
    r"""Where the entries of $H$ lie, and where each entry of a block is added: the same for every sum over the same rows."""

    indptr: Int[np.ndarray, " size_and_one"]
    indices: Int[np.ndarray, " entries"]
    target: Int[np.ndarray, " block_entries"]
    size: int = eqx.field(static=True)

    @staticmethod
    def of(matrix: BlockSum) -> "Pattern":
        rows, size = matrix.rows.astype(np.int64), matrix.size
        keys = rows[:, :, None] * size + rows[:, None, :]
        dropped = rows == size
        keys[dropped[:, :, None] | dropped[:, None, :]] = size**2  # one past all others
        entries, target = np.unique(keys.reshape(-1), return_inverse=True)
        row, column = np.divmod(entries[: np.searchsorted(entries, size**2)], size)
        indptr = np.searchsorted(row, np.arange(size + 1))
        return Pattern(indptr.astype(np.int32), column.astype(np.int32), target.astype(np.int32), size)

    def assemble(self, matrix: BlockSum) -> sp.csc_matrix:
        """The sum, by rows or by columns: it is symmetric."""
        count = len(self.indices)
        data = np.bincount(self.target, weights=matrix.blocks.reshape(-1), minlength=count)[:count]
        return sp.csc_matrix((data, self.indices, self.indptr), shape=(self.size, self.size))


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
        """What the solver needs of the matrix; `coordinates` say where each unknown lies, `component` which field it belongs
        to. `previous` is an earlier result for a matrix of the same structure, which may be used again."""

    @abstractmethod
    def solve(self, matrix: BlockSum, prepared: Any, rhs: Float[np.ndarray, " size"], tolerance: float) -> Solved:
        """Solves to a relative residual of `tolerance`, or as near as rounding allows."""
