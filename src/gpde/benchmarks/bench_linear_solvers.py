"""Consensus's linear system: the direct solver and the preconditioned iteration beside sparse factorisations of libraries.

SuperLU comes with SciPy. PARDISO and CHOLMOD are measured where the packages pypardiso and cvxopt are installed.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from rich.console import Console
from rich.table import Table

from gpde.collocation.collocation import collocate
from gpde.gallery import get
from gpde.linalg import AbstractLinearSolver, BlockSum, Direct, Schwarz
from gpde.methods import Consensus
from gpde.methods.base import Setup
from gpde.methods.consensus.linearization import linearized
from gpde.methods.consensus.system import reduce_patches

TOLERANCE = 1e-8
System = tuple[BlockSum, np.ndarray, np.ndarray]


def system(name: str, num_interior: int, num_boundary: int, batch_size: int) -> System:
    """H of the first Gauss-Newton step, where its unknowns lie and which field each belongs to."""
    problem = get(name).build()
    collocation = collocate(problem, problem.sample(num_interior, num_boundary))
    kernel: Any = problem.defaults.kernel
    kernels = (kernel,)
    method = Consensus(batch_size=batch_size, linear_solver="direct")
    work = method.prepare(Setup(collocation, kernels, 1e-12))
    state = method.init(work, None, 0)
    equations, _ = linearized(work.table, state.latent_table, kernels)
    reduced, _ = reduce_patches(equations, kernels, work.cover.members, state.values, state.nuggets, state.stretch, 5)
    return work.open_values.matrix(reduced.precision), *work.open_values.located(work.coordinates)


def scaled(matrix: BlockSum) -> sp.csc_matrix:
    """The assembled matrix with unit diagonal."""
    scale = sp.diags(1 / np.sqrt(matrix.diagonal()))
    return sp.csc_matrix(scale @ matrix.sparse() @ scale)


def superlu(matrix: sp.csc_matrix, rhs: np.ndarray) -> np.ndarray:
    options = {"SymmetricMode": True}
    return scipy.sparse.linalg.splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).solve(rhs)


def pardiso(matrix: sp.csc_matrix, rhs: np.ndarray) -> np.ndarray:
    from pypardiso import PyPardisoSolver  # pyright: ignore[reportMissingImports] - where it is installed

    solver, upper = PyPardisoSolver(mtype=-2), sp.csr_matrix(sp.triu(matrix))
    solver.factorize(upper)
    solution = solver.solve(upper, rhs)
    solver.free_memory(everything=True)
    return solution


def cholmod(matrix: sp.csc_matrix, rhs: np.ndarray) -> np.ndarray:
    from cvxopt import cholmod as library  # pyright: ignore[reportMissingImports] - where it is installed
    from cvxopt import matrix as dense  # pyright: ignore[reportMissingImports]
    from cvxopt import spmatrix  # pyright: ignore[reportMissingImports]

    lower = sp.tril(matrix).tocoo()
    solution = dense(rhs)
    library.linsolve(spmatrix(lower.data, lower.row, lower.col, lower.shape), solution)
    return np.asarray(solution)[:, 0]


LIBRARIES: dict[str, tuple[str, Callable[[sp.csc_matrix, np.ndarray], np.ndarray]]] = {
    "SuperLU": ("scipy", superlu),
    "PARDISO": ("pypardiso", pardiso),
    "CHOLMOD": ("cvxopt", cholmod),
}


def of_library(found: System, solve: Callable[[sp.csc_matrix, np.ndarray], np.ndarray]) -> str:
    """Seconds to order, factor and solve; the matrix lies there assembled, which is not counted."""
    matrix = scaled(found[0])
    start = time.perf_counter()
    solve(matrix, np.ones(found[0].size))
    return f"{time.perf_counter() - start:.2f}"


def of_ours(found: System, solver: AbstractLinearSolver) -> str:
    """Seconds to prepare (for Direct: order, add up, factor) and to solve, and what it reached where that is not enough."""
    matrix, coordinates, component = found
    rhs = np.sqrt(matrix.diagonal())  # ones, once the matrix has unit diagonal
    start = time.perf_counter()
    prepared = solver.compute(matrix, coordinates, component)
    middle = time.perf_counter()
    solved = solver.solve(matrix, prepared, rhs, TOLERANCE)
    end = time.perf_counter()
    missed = "" if solved.residual <= TOLERANCE else f" (residual {solved.residual:.0e})"
    return f"{middle - start:.2f} + {end - middle:.2f}{missed}"


def main(quick: bool = False) -> None:
    """Prints one row for each matrix."""
    problems = [("elliptic", 300, 60, 32)]
    if not quick:
        problems = [
            ("burgers", 2000, 400, 75),
            ("elliptic", 9000, 600, 64),
            ("burgers", 20_000, 1200, 75),
            ("elliptic", 25_000, 1000, 64),
            ("elliptic", 100_000, 4000, 64),
        ]
    table = Table(title=f"seconds to solve with one H, the libraries' without assembling it; residual {TOLERANCE:g}")
    libraries = {name: solve for name, (package, solve) in LIBRARIES.items() if importlib.util.find_spec(package)}
    for column in ("H of", "unknowns", *libraries, "Direct", "Schwarz"):
        table.add_column(column, justify="right")
    for name, *arguments in problems:
        found = system(name, *arguments)
        of_ours(found, Schwarz())  # compiles
        cells = [of_ours(found, Direct()), of_ours(found, Schwarz())]
        table.add_row(name, str(found[0].size), *(of_library(found, solve) for solve in libraries.values()), *cells)
    Console().print(table)
