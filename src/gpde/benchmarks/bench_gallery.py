"""Every problem of the gallery with its defaults: how the run ends, how far from the truth it is, and what it says of that."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce
from gpde.gallery import GALLERY
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values

_QUICK = ("burgers-inverse",)


def main(quick: bool = False) -> None:
    """Prints the table: errors and estimates in root mean square over the test points and all fields, relative to that of
    the solution; scalars beside what their own standard deviation is; seconds with those to compile."""
    sizes: dict[str, Any] = {"num_interior": 60, "num_boundary": 20} if quick else {}
    table = Table(title="the gallery")
    for column in ("problem", "method", "outcome", "points", "error", "estimated", "scalars", "seconds"):
        table.add_column(column, justify="left" if column in ("problem", "method", "outcome", "scalars") else "right")
    for name in _QUICK if quick else GALLERY:
        announce(name)
        problem = GALLERY[name].build()
        solution = solve(problem, **sizes)
        places = error_points(problem)
        exact = reference_values(problem, places)
        assert exact is not None  # every problem of the gallery has a reference
        size = np.sqrt(np.mean(exact**2))
        error = np.sqrt(np.mean((solution(places).reshape(exact.shape) - exact) ** 2)) / size
        table.add_row(
            name,
            solution.result.method,
            solution.result.outcome.name.lower(),
            str(sum(len(points) for points in solution.points.values())),
            f"{error:.0e}",
            f"{solution.error_estimate() / size:.0e}",
            ", ".join(f"{key} = {found.value:.4g} ± {found.std:.1g}" for key, found in solution.parameters.items()),
            f"{solution.seconds.compile + solution.seconds.run:.0f}",
        )
    Console(width=140).print(table)
