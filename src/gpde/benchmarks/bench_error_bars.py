"""Whether error bars hold: estimates and 95 % bands beside true errors, over equations and draws of their points, on few points
with the kernel that the first draw learned."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.bench_statements import looked_at
from gpde.benchmarks.commands import announce
from gpde.benchmarks.statements import STATEMENTS
from gpde.methods import AbstractMethod, Consensus, FullBatch
from gpde.solution._solve import solve

# Points inside and on the boundary by the number of coordinates.
_NUM_DRAWS, _FEW = 20, {1: (200, 2), 2: (160, 80), 3: (250, 150), 4: (300, 250)}
_COLUMNS = ("equation", "converged", "error", "estimate / error", "within 5 times", "covered", "90 to 99 %")


def main(quick: bool = False) -> None:
    """Prints a table for each method. Only runs that say they have converged are looked at."""
    methods: tuple[AbstractMethod, ...] = (FullBatch(),) if quick else (FullBatch(), Consensus())
    tables = [Table(*_COLUMNS, title=method.name) for method in methods]
    totals = np.zeros((len(methods), 3), dtype=int)
    for name in ("Δu = 0",) if quick else tuple(STATEMENTS):
        announce(name)
        problem = STATEMENTS[name]()
        num_interior, num_boundary = (40, 20) if quick else _FEW[problem.domain.dim]
        learning = solve(problem, num_interior=num_interior, num_boundary=num_boundary).learning
        assert learning is not None  # a statement names no kernel
        for place, method in enumerate(methods):
            sizes: dict[str, Any] = {"num_interior": num_interior, "num_boundary": num_boundary}
            runs = [
                solve(problem, learning.kernel, method=method, seed=seed, **sizes) for seed in range(2 if quick else _NUM_DRAWS)
            ]
            each = [looked_at(problem, run) for run in runs if run.result.successful]
            ratios = np.array([one.ratio for one in each if one.ratio is not None])
            shares = np.array([one.covered for one in each if one.covered is not None])
            good, held = (ratios > 0.2) & (ratios < 5), (shares >= 0.9) & (shares <= 0.99)
            totals[place] += good.sum(), held.sum(), len(ratios)
            row = (
                name, f"{len(each)} of {len(runs)}", f"{np.median([max(one.errors) for one in each]):.0e}" if each else "",
                _range(ratios), f"{good.sum()} of {len(ratios)}", _range(shares), f"{held.sum()} of {len(shares)}",
            )  # fmt: skip
            tables[place].add_row(*row)
            announce(f"  {method.name}: " + "  ".join(row[1:]))
    for table, (estimates, bands, num) in zip(tables, totals, strict=True):
        table.add_row("all", "", "", "", f"{estimates} of {num}", "", f"{bands} of {num}")
        Console(width=150).print(table)


def _range(values: np.ndarray) -> str:
    return f"{values.min():.2g} … {values.max():.2g}" if len(values) else ""
