"""What comes of a statement alone: `gpde.solve(problem)` on equations as people bring them, with no kernel, method, number of
points or start; how each run ends, how far from the truth it is, and what it says of that."""

from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce
from gpde.benchmarks.statements import STATEMENTS
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values
from gpde.solution.solution import Solution

_NUM_PLACES = 400
_QUICK = ("u′ = u(1 - u)",)


class Looked(NamedTuple):
    """Of a solution: the error of each field relative to its size, its estimate over its error, and how much of the truth the
    95 % band of `std(calibrated=True)` covers; no estimate where the run refuses one."""

    errors: list[float]
    ratio: float | None
    covered: float | None


def looked_at(problem: Problem, solution: Solution) -> Looked:
    """A solution beside the truth."""
    places = error_points(problem)
    places = places[:: max(1, len(places) // _NUM_PLACES)]
    truth = reference_values(problem, places)
    assert truth is not None  # every statement has one
    off = solution(places).reshape(truth.shape) - truth
    relative = np.sqrt(np.mean(off**2, axis=0) / np.mean(truth**2, axis=0)).tolist()
    try:
        ratio = float(solution.error_estimate() / np.sqrt(np.mean(off**2)))
    except ValueError:
        return Looked(relative, None, None)
    band = 1.96 * solution.std(places, calibrated=True).reshape(off.shape)
    return Looked(relative, ratio, float(np.mean(np.abs(off) <= band)))


def main(quick: bool = False) -> None:
    """Prints the table."""
    table = Table("equation", "outcome", "error", "estimate / error", "covered", "learning, s", "seconds", title="statements")
    sizes: dict[str, Any] = {"num_interior": 40, "num_boundary": 2} if quick else {}
    for name in _QUICK if quick else tuple(STATEMENTS):
        announce(name)
        problem = STATEMENTS[name]()
        solution = solve(problem, **sizes)
        found = looked_at(problem, solution)
        assert solution.learning is not None
        outcome = solution.result.outcome.name.lower().replace("_", " ")
        row = (
            name, outcome, " ".join(f"{e:.0e}" for e in found.errors), "none" if found.ratio is None else f"{found.ratio:.2g}",
            "" if found.covered is None else f"{100 * found.covered:.0f} %",
            f"{solution.learning.seconds:.1f}", f"{solution.seconds.compile + solution.seconds.run:.0f}",
        )  # fmt: skip
        table.add_row(*row)
        announce("  " + "  ".join(row[1:]))
    Console(width=150).print(table)
