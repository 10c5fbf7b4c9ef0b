"""What learning a kernel costs and brings: its time against that of a solve with the kernel it found, and the error against the
best over a scan of lengthscales, for several draws of the points."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce
from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.learning.learned import Learned
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import Predictions, error_points, errors
from gpde.solution.solution import Solution

# Problems with their parameters, points inside and on the boundary, and lengthscales to start from.
CASES = [
    ("elliptic", {}, 900, 300, (0.6, 0.05)),
    ("burgers", {"viscosity": 0.02}, 2000, 400, (0.2,)),
    ("burgers", {"viscosity": 0.2}, 2000, 400, (0.2,)),
]
QUICK = [("elliptic", {}, 60, 20, (0.6,))]
# The lengthscales of the gallery's kernel are multiplied by these; Burgers' are two, in one proportion that is known to suit.
SCAN, NUM_SEEDS = (0.5, 0.7, 1.0, 1.4, 2.0), 5


def main(quick: bool = False) -> None:
    """Prints the table. Programs are compiled by a first run that is not counted."""
    columns = (
        "problem",
        "seed",
        "start",
        "learned",
        "learning, s",
        "solve, s",
        "ratio",
        "best of a scan",
        "L2 learned",
        "over it",
    )
    table = Table(*columns, title="learning")
    for name, parameters, num_interior, num_boundary, starts in QUICK if quick else CASES:
        problem = get(name).build(**parameters)
        points: dict[str, Any] = {"num_interior": num_interior, "num_boundary": num_boundary}
        known = problem.defaults.kernel
        assert isinstance(known, Gaussian)
        lengthscales = np.asarray(known.lengthscales(problem.domain.dim))
        solve(problem, Learned(Gaussian(starts[0])), **points)
        for seed in range(1 if quick else NUM_SEEDS):
            scan = (1.0,) if quick else SCAN
            best = min(_l2(problem, solve(problem, Gaussian(f * lengthscales), seed=seed, **points)) for f in scan)
            for lengthscale in starts:
                learned = solve(problem, Learned(Gaussian(lengthscale)), seed=seed, **points)
                assert learned.learning is not None
                again = solve(problem, learned.learning.kernel, seed=seed, **points)
                found, l2 = learned.learning.kernels[0], _l2(problem, learned)
                seconds = learned.learning.seconds, again.seconds.run
                row = (
                    " ".join([name, *(f"{value:g}" for value in parameters.values())]), str(seed), f"{lengthscale:g}",
                    ", ".join(f"{each:.3g}" for each in np.asarray(found.lengthscales(problem.domain.dim))),
                    *(f"{s:.2f}" for s in seconds), f"{seconds[0] / seconds[1]:.1f}",
                    f"{best:.1e}", f"{l2:.1e}", f"{l2 / best:.2g}",
                )  # fmt: skip
                table.add_row(*row)
                announce("  ".join(row))
    Console(width=150).print(table)


def _l2(problem: Problem, solution: Solution) -> float:
    value = errors(Predictions(solution), error_points(problem))["l2"]
    assert value is not None  # the problems here have a reference
    return value
