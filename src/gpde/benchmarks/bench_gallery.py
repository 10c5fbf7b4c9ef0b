"""Every problem of the gallery with its defaults, by every method that claims it: how the run ends, how far from the truth it
is, and what it says of that. The picture has the references of them all."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import Drawn, announce
from gpde.gallery import GALLERY, Entry
from gpde.methods import Consensus, FullBatch, MiniBatch
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values
from gpde.solution.plane import Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUICK = ("burgers-inverse",)
_METHODS = {method.name: method for method in (FullBatch, Consensus, MiniBatch)}
# Where the field to look at is not the first.
_SHOWN = {"darcy-inverse": "a"}
_NUM_COLUMNS = 5


def main(quick: bool = False) -> Drawn:
    """Prints the table: errors and estimates in root mean square over the test points and all fields, relative to that of
    the solution; what the entry promises; scalars and their standard deviations; seconds with those to compile."""
    from matplotlib.figure import Figure

    names = _QUICK if quick else tuple(GALLERY)
    num_rows = math.ceil(len(names) / _NUM_COLUMNS)
    figure = Figure(figsize=(1.9 * _NUM_COLUMNS, 1.75 * num_rows), layout="constrained", dpi=80)
    panels = figure.subplots(num_rows, _NUM_COLUMNS, squeeze=False).reshape(-1)
    table = Table(title="the gallery")
    for column in ("problem", "method", "outcome", "points", "error", "promised", "estimated", "scalars", "seconds"):
        table.add_column(column, justify="left" if column in ("problem", "method", "outcome", "scalars") else "right")
    numbers = []
    for panel in panels:
        panel.set_axis_off()
    for name, panel in zip(names, panels, strict=False):
        entry = GALLERY[name]
        for method in entry.methods[:1] if quick else entry.methods:
            announce(f"{name} by {method}")
            row = _run(entry, method, quick)
            numbers.append(row)
            table.add_row(*_cells(row))
            announce("  " + "  ".join(_cells(row)[2:]))
        draw_reference(panel, entry.build())
    Console(width=150).print(table)
    return Drawn({"rows": numbers}, figure)


def _run(entry: Entry, method: str, quick: bool) -> dict[str, Any]:
    sizes: dict[str, Any] = {"num_interior": 60, "num_boundary": 20} if quick else {}
    problem = entry.build()
    solution = solve(problem, method=_METHODS[method](), **sizes)
    places = error_points(problem)
    exact = reference_values(problem, places)
    assert exact is not None  # every problem of the gallery has a reference
    size = np.sqrt(np.mean(exact**2))
    error = np.sqrt(np.mean((solution(places).reshape(exact.shape) - exact) ** 2)) / size
    try:
        estimated = solution.error_estimate() / size
    except ValueError:  # there is none
        estimated = None
    return {
        "problem": entry.name,
        "method": method,
        "outcome": solution.result.outcome.name.lower(),
        "points": sum(len(points) for points in solution.points.values()),
        "error": float(error),
        "promised": entry.accuracy,
        "estimated": estimated,
        "scalars": {key: list(found) for key, found in solution.parameters.items()},
        "seconds": solution.seconds.compile + solution.seconds.run,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["problem"],
        row["method"],
        row["outcome"],
        str(row["points"]),
        f"{row['error']:.0e}",
        "" if row["promised"] is None else f"{row['promised']:.0e}",
        "" if row["estimated"] is None else f"{row['estimated']:.0e}",
        ", ".join(f"{key} = {value:.4g} ± {std:.1g}" for key, (value, std) in row["scalars"].items()),
        f"{row['seconds']:.0f}",
    ]


def draw_reference(panel: "Axes", problem: Problem) -> None:
    """What is looked for, of one field: a line, or an image on the plane that pictures of solutions show."""
    domain, row = problem.domain, problem.fields.index(_SHOWN.get(problem.name, problem.fields[0]))
    plane = None if domain.dim == 1 else Plane(domain, (90, 90), domain.contains)
    points = domain.grid((200,)) if plane is None else plane.points
    exact = reference_values(problem, points)
    assert exact is not None  # every problem of the gallery has a reference
    panel.set_axis_on()
    panel.set(xticks=[], yticks=[])
    panel.set_title(f"{problem.name}: {problem.fields[row]}({', '.join(domain.coordinates)})", fontsize=6.5, loc="left")
    panel.spines[:].set_visible(False)
    if plane is None:
        panel.plot(points[:, 0], exact[:, row], lw=1.2)
    else:
        plane.colours(panel, exact[:, row], cmap="viridis")
        panel.set_aspect(plane.aspect)
