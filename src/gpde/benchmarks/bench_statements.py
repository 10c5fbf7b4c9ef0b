"""What comes of a statement alone: `gpde.solve(problem)` on equations as people bring them, with no kernel, method, number of
points or start; how each run ends, how far from the truth it is, and what it says of that."""

from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce
from gpde.benchmarks.statements import STATEMENTS
from gpde.methods import Consensus, FullBatch
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values
from gpde.solution.solution import Solution

# With the kernel that the first draw of points learned: other draws of fewer points, for error bars and estimates.
_NUM_DRAWS, _FEW = 20, {1: (200, 2), 2: (160, 80), 3: (250, 150), 4: (300, 250)}
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
    """Prints two tables."""
    names = _QUICK if quick else tuple(STATEMENTS)
    first = Table("equation", "outcome", "error", "estimate / error", "covered", "learning, s", "seconds", title="statements")
    methods = (FullBatch(),) if quick else (FullBatch(), Consensus())
    draws = [Table(*_DRAWN, title=f"{method.name}, draws of fewer points") for method in methods]
    totals = np.zeros((len(methods), 3), dtype=int)
    for name in names:
        announce(name)
        problem = STATEMENTS[name]()
        dim = problem.domain.dim
        sizes: dict[str, Any] = dict(zip(("num_interior", "num_boundary"), (40, 2), strict=True)) if quick else {}
        solution = solve(problem, **sizes)
        found = looked_at(problem, solution)
        assert solution.learning is not None
        row = (
            name, _outcome(solution), " ".join(f"{e:.0e}" for e in found.errors), _number(found.ratio), _share(found.covered),
            f"{solution.learning.seconds:.1f}", f"{solution.seconds.compile + solution.seconds.run:.0f}",
        )  # fmt: skip
        first.add_row(*row)
        announce("  " + "  ".join(row))
        num_interior, num_boundary = (40, 2) if quick else _FEW[dim]
        sizes = {"num_interior": num_interior, "num_boundary": num_boundary}
        for place, method in enumerate(methods):
            runs = [
                solve(problem, solution.learning.kernel, method=method, seed=seed, **sizes)
                for seed in range(2 if quick else _NUM_DRAWS)
            ]
            each = [looked_at(problem, run) for run in runs if run.result.successful]
            ratios = np.array([one.ratio for one in each if one.ratio is not None])
            shares = np.array([one.covered for one in each if one.covered is not None])
            within = (int(np.sum((ratios > 0.2) & (ratios < 5))), int(np.sum((shares >= 0.9) & (shares <= 0.99))), len(ratios))
            totals[place] += within
            row = (
                name, f"{len(each)} of {len(runs)}", f"{np.median([max(one.errors) for one in each]):.0e}" if each else "",
                _range(ratios), f"{within[0]} of {len(ratios)}", _range(shares), f"{within[1]} of {len(shares)}",
            )  # fmt: skip
            draws[place].add_row(*row)
            announce(f"  {method.name}: " + "  ".join(row[1:]))
    console = Console(width=150)
    console.print(first)
    for table, (estimates, bands, num) in zip(draws, totals, strict=True):
        table.add_row("all", "", "", "", f"{estimates} of {num}", "", f"{bands} of {num}")
        console.print(table)


_DRAWN = ("equation", "converged", "error", "estimate / error", "within 5 times", "covered", "90 to 99 %")


def _outcome(solution: Solution) -> str:
    return solution.result.outcome.name.lower().replace("_", " ")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _range(values: np.ndarray) -> str:
    return f"{values.min():.2g} … {values.max():.2g}" if len(values) else ""
