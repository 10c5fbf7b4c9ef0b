"""Sparse direct solution, by PARDISO where it is installed and by SuperLU elsewhere, with iterative refinement."""

import functools
import importlib
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from jaxtyping import Float, Int

from gpde.linear_solvers.base import AbstractLinearSolver, BlockSum, Pattern, Solved

LIBRARIES = ("superlu", "pardiso")


class Factored(NamedTuple):
    """The matrix scaled to unit diagonal, its scale, what solves with it; the pattern serves the next matrix."""

    pattern: Pattern
    scaled: sp.csc_matrix
    scale: Float[np.ndarray, " size"]
    apply_inverse: Callable[[np.ndarray], np.ndarray]


class Direct(AbstractLinearSolver):
    """A factorisation of the assembled matrix, scaled to unit diagonal, with iterative refinement.

    - `library`: `"superlu"`, which comes with SciPy; `"pardiso"`, which uses all cores and needs `pip install gpde[pardiso]`;
      None: PARDISO if it is installed.

    Fill grows like $N^{1.5}$ in two dimensions and faster in three: SuperLU serves some ten thousand unknowns, PARDISO some
    hundred thousand.
    """

    name: ClassVar[str] = "direct"
    library: str | None = None
    max_refinements: int = 5

    def __check_init__(self) -> None:
        if self.library not in (*LIBRARIES, None):
            raise ValueError(f"`Direct`: `library` must be one of {LIBRARIES} or None; came {self.library!r}.")
        self._check_installed()

    def _check_installed(self) -> None:
        if self.library == "pardiso" and not has_pardiso():
            raise ValueError('`Direct`: `library="pardiso"` needs the package pypardiso: `pip install gpde[pardiso]`.')

    def compute(
        self,
        matrix: BlockSum,
        coordinates: Float[np.ndarray, "size dim"],
        component: Int[np.ndarray, " size"],
        previous: Any = None,
    ) -> Any:
        self._check_installed()  # again: a file may come from elsewhere
        del coordinates, component
        pattern = previous.pattern if isinstance(previous, Factored) else Pattern.of(matrix)
        scaled = pattern.assemble(matrix)
        # Precisions differ by many orders of magnitude between points; unit diagonal keeps rounding errors even.
        scale = 1.0 / np.sqrt(scaled.diagonal())
        scaled.data *= scale[scaled.indices] * np.repeat(scale, np.diff(scaled.indptr))
        library = self.library or ("pardiso" if has_pardiso() else "superlu")
        return Factored(pattern, scaled, scale, _pardiso(scaled) if library == "pardiso" else _superlu(scaled))

    def solve(self, matrix: BlockSum, prepared: Any, rhs: Float[np.ndarray, " size"], tolerance: float) -> Solved:
        _, scaled, scale, apply_inverse = prepared
        b = scale * rhs
        norm = np.linalg.norm(b)
        if norm == 0:
            return Solved(np.zeros_like(rhs), 0.0, 0)
        best = apply_inverse(b)
        reached, count = np.linalg.norm(b - scaled @ best) / norm, 0
        for _ in range(self.max_refinements):
            if reached <= tolerance:
                break
            x = best + apply_inverse(b - scaled @ best)
            residual = np.linalg.norm(b - scaled @ x) / norm
            if not residual < 0.5 * reached:
                break
            best, reached, count = x, residual, count + 1
        return Solved(scale * best, float(reached), count)


@functools.cache
def has_pardiso() -> bool:
    """Whether PARDISO can be used: its package may be there, and the library it loads not."""
    try:
        importlib.import_module("pypardiso")
    except (ImportError, OSError):
        return False
    return True


def _none(rhs: np.ndarray) -> np.ndarray:
    """In place of a factor that there is none of: what it gives is not finite, and the method says so."""
    return np.full(len(rhs), np.nan)


def _superlu(matrix: sp.csc_matrix) -> Callable[[np.ndarray], np.ndarray]:
    try:
        return scipy.sparse.linalg.splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        ).solve
    except RuntimeError:  # singular
        return _none


def _pardiso(matrix: sp.csc_matrix) -> Callable[[np.ndarray], np.ndarray]:
    from pypardiso import PyPardisoError, PyPardisoSolver  # pyright: ignore[reportMissingImports] - optional

    # Symmetric indefinite: rounding can make a matrix that is positive definite on paper slightly indefinite.
    solver = PyPardisoSolver(mtype=-2)
    upper = sp.csr_matrix(sp.triu(matrix, format="csr"))
    try:
        solver.factorize(upper)
    except PyPardisoError:
        return _none

    def apply_inverse(rhs: np.ndarray) -> np.ndarray:
        return solver.solve(upper, rhs)

    weakref.finalize(apply_inverse, solver.free_memory, everything=True)  # which Python does not see
    return apply_inverse
