"""Points added where the equations are off, against as many drawn at once: with a front in a smooth field, and without."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.bench_hard_equations import LINE, SQUARE, manufactured
from gpde.benchmarks.commands import announce
from gpde.kernels import Gaussian
from gpde.methods import AbstractMethod, Consensus, FullBatch
from gpde.operators import laplacian
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import reference_values
from gpde.solution.refine import solve_adaptively


def front(width: float, *, plane: bool = False) -> Problem:
    """-w²Δu + u³ = f for tanh of the distance to a line, in widths, and a sine."""

    def exact(x: Any) -> Any:
        along = (x[0] + x[1] - 0.8) / jnp.sqrt(2.0) if plane else x[0] - 0.4
        return jnp.tanh(along / width) + jnp.sin(3 * x[0])

    return manufactured(lambda u, x: -(width**2) * laplacian(u)(x) + u(x) ** 3, exact, SQUARE if plane else LINE)


def smooth() -> Problem:
    """-u'' + u³ = f for a sine."""
    return manufactured(lambda u, x: -laplacian(u)(x) + u(x) ** 3, lambda x: jnp.sin(4 * x[0]), LINE)


def error(problem: Problem, solution: Any) -> float:
    """In root mean square on a fine grid."""
    grid = problem.domain.test_points((2000,) if problem.domain.dim == 1 else (100, 100))
    truth = reference_values(problem, grid)
    assert truth is not None
    return float(np.sqrt(np.mean((solution(grid) - truth[:, 0]) ** 2)))


def main(quick: bool = False) -> None:
    """Prints the table."""
    patches = Consensus(batch_size=16, local_lengthscales=True)
    name, line = "front of width 0.02", front(0.02)
    cases: list[tuple[str, Problem, AbstractMethod, int, int]] = [(name, line, FullBatch(), 40, 2)]
    if not quick:
        plane = Consensus(local_lengthscales=True)
        cases = [
            (name, line, patches, 120, 2),
            ("smooth", smooth(), patches, 120, 2),
            ("smooth", smooth(), FullBatch(), 120, 2),
            ("front of width 0.05 in the plane", front(0.05, plane=True), plane, 1200, 200),
        ]
    table = Table("problem", "method", "points", "seed", "L2, drawn at once", "L2, added in rounds", title="adaptive points")
    for name, problem, method, num, num_boundary in cases:
        both = []
        rounds = 4 if problem.domain.dim == 1 else 2
        for seed in (0,) if quick else range(5):
            arguments: dict[str, Any] = {"method": method, "num_interior": num, "num_boundary": num_boundary, "seed": seed}
            found = [
                error(problem, solve(problem, Gaussian(0.1), **arguments)),
                error(problem, solve_adaptively(problem, Gaussian(0.1), rounds=1 if quick else rounds, **arguments)),
            ]
            both.append(found)
            row = name, method.name, str(num), str(seed), *(f"{each:.1e}" for each in found)
            table.add_row(*row)
            announce("  ".join(row))
        table.add_row(name, method.name, str(num), "median", *(f"{each:.1e}" for each in np.median(both, axis=0)))
    Console().print(table)
