"""Whether error bars hold: estimates and 95 % bands beside true errors, on the forward problems of the gallery by every method
that claims them, over draws of fewer points than their defaults, so that there are errors to see; all of them where fewer do
not converge."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.bench_statements import looked_at
from gpde.benchmarks.commands import announce
from gpde.gallery import GALLERY, Entry
from gpde.methods import AbstractMethod, Consensus, FullBatch, MiniBatch
from gpde.solution._solve import solve

# Of the points that a problem takes by default, and how many at the most: a companion has twice as many.
_SHARE, _MOST_POINTS = 0.5, 700
_NUM_DRAWS = 20
_COLUMNS = ("problem", "converged", "error", "estimate / error", "within 5 times", "covered", "mean", "90 to 99 %")


def main(quick: bool = False) -> None:
    """Prints a table for each method. Only runs that say they have converged are looked at."""
    methods: tuple[AbstractMethod, ...] = (FullBatch(),) if quick else (FullBatch(), Consensus(), MiniBatch())
    tables = [Table(*_COLUMNS, title=method.name) for method in methods]
    totals = np.zeros((len(methods), 3), dtype=int)
    for entry in [GALLERY["poisson"]] if quick else [entry for entry in GALLERY.values() if entry.accuracy is not None]:
        announce(entry.name)
        for place, method in enumerate(methods):
            if method.name in entry.methods:
                row, counts = _looked_at(entry, method, 2 if quick else _NUM_DRAWS)
                totals[place] += counts
                tables[place].add_row(*row)
                announce(f"  {method.name}: " + "  ".join(row[1:]))
    for table, (estimates, bands, num) in zip(tables, totals, strict=True):
        table.add_row("all", "", "", "", f"{estimates} of {num}", "", "", f"{bands} of {num}")
        Console(width=150).print(table)


def _looked_at(entry: Entry, method: AbstractMethod, num_draws: int) -> tuple[tuple[str, ...], tuple[int, int, int]]:
    """A row of the table; how many estimates are within a factor of five, how many bands hold, and of how many."""
    problem = entry.build()
    default = np.array([problem.defaults.num_interior, problem.defaults.num_boundary])
    few = np.maximum(2, default * min(_SHARE, _MOST_POINTS / default.sum())).astype(int)
    sizes: dict[str, Any] = {"num_interior": int(few[0]), "num_boundary": int(few[1])}
    if not solve(problem, method=method, **sizes).result.successful:
        sizes = {}  # a problem that needs all of its points
    runs = [solve(problem, method=method, seed=seed, **sizes) for seed in range(num_draws)]
    each = [looked_at(problem, run) for run in runs if run.result.successful]
    ratios = np.array([one.ratio for one in each if one.ratio is not None])
    shares = np.array([one.covered for one in each if one.covered is not None])
    good, held = (ratios > 0.2) & (ratios < 5), (shares >= 0.9) & (shares <= 0.99)
    row = (
        entry.name, f"{len(each)} of {len(runs)}", f"{np.median([max(one.errors) for one in each]):.0e}" if each else "",
        _range(ratios), f"{good.sum()} of {len(ratios)}", _range(shares), f"{shares.mean():.3f}" if len(shares) else "",
        f"{held.sum()} of {len(shares)}",
    )  # fmt: skip
    return row, (int(good.sum()), int(held.sum()), len(ratios))


def _range(values: np.ndarray) -> str:
    return f"{values.min():.2g} … {values.max():.2g}" if len(values) else ""
