"""The inverse problems of the gallery for five draws of their data: what is found, and whether error bars hold the truth."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce
from gpde.gallery import GALLERY
from gpde.methods import Consensus, FullBatch
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values

_VISCOSITY = 0.1


def main(quick: bool = False) -> None:
    """Prints two tables: of the viscosity its error and that in standard deviations, of the permeability its relative error in
    root mean square over the test grid and the share of the grid that its 95 % band covers; and what a run says of its data."""
    draws = range(1 if quick else 5)
    scalar = Table(title="burgers-inverse: ν = 0.1 from 100 values of u ± 0.01")
    for column in ("draw", "method", "outcome", "ν", "error", "in std", "says"):
        scalar.add_column(column, justify="left" if column in ("method", "outcome", "says") else "right")
    for draw in draws:
        for method in (FullBatch(),) if quick else (FullBatch(), Consensus()):
            announce(f"burgers-inverse, draw {draw}, {method.name}")
            sizes: dict[str, Any] = {"num_interior": 60, "num_boundary": 20} if quick else {}
            solution = solve(GALLERY["burgers-inverse"].build(draw=draw), method=method, **sizes)
            found = solution.parameters["nu"]
            off = found.value - _VISCOSITY
            scalar.add_row(
                str(draw),
                method.name,
                solution.result.outcome.name.lower(),
                f"{found.value:.5f} ± {found.std:.5f}",
                f"{off / _VISCOSITY:+.2%}",
                f"{off / found.std:+.2f}",
                "misses the data" if any("misses" in note for note in solution.result.notes) else "",
            )
    Console(width=120).print(scalar)
    field = Table(title="darcy-inverse: a from 60 values of u ± 0.001, full batch")
    for column in ("draw", "outcome", "error of a", "covered", "error of u", "says"):
        field.add_column(column, justify="left" if column in ("outcome", "says") else "right")
    for draw in draws:
        announce(f"darcy-inverse, draw {draw}")
        problem = GALLERY["darcy-inverse"].build(draw=draw)
        sizes = {"num_interior": 40, "num_boundary": 20} if quick else {}
        solution = solve(problem, method=FullBatch(), **sizes)
        places = error_points(problem)
        truth, values, std = reference_values(problem, places), solution(places), solution.std(places)
        assert truth is not None  # as every problem of the gallery has
        relative = np.sqrt(np.mean((values - truth) ** 2, axis=0) / np.mean(truth**2, axis=0))
        covered = np.mean(np.abs(values - truth)[:, 1] <= 1.96 * std[:, 1])
        field.add_row(
            str(draw),
            solution.result.outcome.name.lower(),
            f"{relative[1]:.1%}",
            f"{covered:.1%}",
            f"{relative[0]:.1%}",
            "misses the data" if any("misses" in note for note in solution.result.notes) else "",
        )
    Console(width=120).print(field)
