r"""Direct solution by multifrontal Cholesky factorisation, with iterative refinement.

The matrix is a sum of dense blocks, and stays one while its unknowns are eliminated front by front (`dissection.py`): a front
adds up its blocks and what the fronts below left, eliminates its own unknowns by dense linear algebra, and leaves

$$F_{22} - F_{21} F_{11}^{-1} F_{12}$$

on its boundary to a front above (Duff and Reid, ACM Transactions on Mathematical Software 9, 1983). No sparse matrix is made.
"""

import itertools
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from gpde.linalg.block_sum import AbstractLinearSolver, BlockSum, Solved
from gpde.linalg.dissection import Elimination, Front, dissect

_syrk, _trsm, _trsv = get_blas_funcs(("syrk", "trsm", "trsv"), dtype=np.float64)
(_potrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)

# Entries of blocks that are added up at once, with an index for each.
_CHUNK_ENTRIES = 2**22
# Rounding can make a matrix that is positive definite on paper slightly indefinite: so much of its diagonal is added then, and
# refinement makes good for it.
_SHIFTS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)


class Eliminated(NamedTuple):
    r"""A front's part of the factor: $L_{11}$ and $L_{21}$, which is $F_{21} L_{11}^{-T}$."""

    own: Float[np.ndarray, "own own"]
    below: Float[np.ndarray, "boundary own"]


class Factored(NamedTuple):
    """The order of elimination, the factor, or None where there is none, and the diagonal of the matrix."""

    elimination: Elimination
    factor: list[Eliminated] | None
    diagonal: Float[np.ndarray, " size"]


class Direct(AbstractLinearSolver):
    r"""Multifrontal Cholesky factorisation in nested dissection order, with iterative refinement.

    For blocks of one size the factor grows like $N \log N$ in two dimensions, like $N^{4/3}$ in three.
    """

    name: ClassVar[str] = "direct"
    max_refinements: int = 5

    def compute(
        self,
        matrix: BlockSum,
        coordinates: Float[np.ndarray, "size dim"],
        component: Int[np.ndarray, " size"],
        previous: Any = None,
    ) -> Any:
        del component
        elimination = previous if isinstance(previous, Elimination) else dissect(matrix.rows, coordinates)
        diagonal = matrix.diagonal()
        return Factored(elimination, _factor(matrix, elimination, diagonal), diagonal)

    def keep(self, prepared: Any) -> Elimination:
        return prepared.elimination

    def solve(self, matrix: BlockSum, prepared: Any, rhs: Float[np.ndarray, " size"], tolerance: float) -> Solved:
        elimination, factor, diagonal = prepared
        if factor is None:
            return Solved(np.full_like(rhs, np.nan), np.nan, 0)
        # Precisions differ by many orders of magnitude between points: residuals count relative to the diagonal.
        unit = 1.0 / np.sqrt(diagonal)
        norm = np.linalg.norm(unit * rhs)
        if norm == 0:
            return Solved(np.zeros_like(rhs), 0.0, 0)

        def residual(x: np.ndarray) -> tuple[np.ndarray, float]:
            rest = rhs - matrix.times(x)
            return rest, float(np.linalg.norm(unit * rest) / norm)

        best = _apply_inverse(elimination, factor, rhs)
        rest, reached = residual(best)
        count = 0
        for _ in range(self.max_refinements):
            if reached <= tolerance:
                break
            refined = best + _apply_inverse(elimination, factor, rest)
            new_rest, new = residual(refined)
            if not new < 0.5 * reached:
                break
            best, rest, reached, count = refined, new_rest, new, count + 1
        return Solved(best, reached, count)


def _factor(matrix: BlockSum, elimination: Elimination, diagonal: Float[np.ndarray, " size"]) -> list[Eliminated] | None:
    """Front by front, the lowest first; None where rounding has left too little of a front."""
    factor: list[Eliminated] = []
    left: dict[int, np.ndarray] = {}
    for index, front in enumerate(elimination.fronts):
        full = _sum_of_blocks(matrix, elimination, front)
        for child in front.children:
            below = np.searchsorted(front.unknowns, elimination.fronts[child].boundary)
            _add_at(full, below, left.pop(child))
        num_own = front.last - front.first
        own = _cholesky(full[:num_own, :num_own], diagonal[elimination.order[front.first : front.last]])
        if own is None:
            return None
        below = full[num_own:, :num_own]
        if len(front.boundary):
            below = _trsm(1.0, own, below, side=1, lower=1, trans_a=1)
            left[index] = _syrk(-1.0, below, beta=1.0, c=full[num_own:, num_own:], lower=1)
        factor.append(Eliminated(own, below))
    return factor


def _sum_of_blocks(matrix: BlockSum, elimination: Elimination, front: Front) -> Float[np.ndarray, "unknowns unknowns"]:
    """The front's blocks, added up by columns."""
    unknowns = front.unknowns
    num = len(unknowns)
    total = np.zeros(num * num + 1)
    size = max(1, _CHUNK_ENTRIES // matrix.rows.shape[1] ** 2)
    for first in range(0, len(front.blocks), size):
        blocks = front.blocks[first : first + size]
        positions = elimination.position[matrix.rows[blocks]]
        place = np.searchsorted(unknowns, positions)
        target = num * place[:, :, None] + place[:, None, :]
        dropped = positions == matrix.size
        target[dropped[:, :, None] | dropped[:, None, :]] = num * num
        total += np.bincount(target.reshape(-1), weights=matrix.blocks[blocks].reshape(-1), minlength=num * num + 1)
    return total[:-1].reshape(num, num).T


def _add_at(
    full: Float[np.ndarray, "unknowns unknowns"], place: Int[np.ndarray, " some"], part: Float[np.ndarray, "some some"]
):
    """Adds the lower triangle of `part` to the rows and columns `place` of `full`, which ascend."""
    # By stretches of neighbours: slices are added several times as fast as single places.
    edges = np.flatnonzero(np.diff(place, prepend=-2, append=-2) != 1)
    stretches = [(slice(a, b), slice(place[a], place[a] + b - a)) for a, b in itertools.pairwise(edges)]
    for number, (columns, to_columns) in enumerate(stretches):
        for rows, to_rows in stretches[number:]:
            full[to_rows, to_columns] += part[rows, columns]


def _cholesky(matrix: Float[np.ndarray, "own own"], diagonal: Float[np.ndarray, " own"]) -> Float[np.ndarray, "own own"] | None:
    """The lower factor of a matrix, or of the nearest that has one: `diagonal` is what was there before any elimination."""
    for shift in _SHIFTS:
        lower, failed = _potrf(matrix + np.diag(shift * diagonal) if shift else matrix, lower=1, clean=0)
        if not failed:
            return lower
    return None


def _apply_inverse(elimination: Elimination, factor: list[Eliminated], rhs: Float[np.ndarray, " size"]) -> np.ndarray:
    x = rhs[elimination.order]
    for front, (own, below) in zip(elimination.fronts, factor, strict=True):
        x[front.first : front.last] = _trsv(own, x[front.first : front.last], lower=1)
        x[front.boundary] -= below @ x[front.first : front.last]
    for front, (own, below) in zip(reversed(elimination.fronts), reversed(factor), strict=True):
        rest = x[front.first : front.last] - below.T @ x[front.boundary]
        x[front.first : front.last] = _trsv(own, rest, lower=1, trans=1)
    return x[elimination.position[:-1]]
