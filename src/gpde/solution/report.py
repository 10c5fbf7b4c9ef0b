"""What a run was and how good it is: as a dict for machines, as a table for people."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from gpde.kernels.text import kernels_text
from gpde.machine import memory
from gpde.solution.errors import Predictions, error_points, errors
from gpde.solution.solution import Solution

# Points up to which standard deviations take seconds.
_MOST_ESTIMATED = 10_000
# What a command does, in the order of its clock.
_PHASES = {
    "start": "Python and its packages, the problem",
    "compile": "of the solve",
    "run": "points, steps, a look at what came out",
    "prediction": "at the test grid and the points, and what the picture needs",
    "files": "solution.npz",
    "picture": "figure.png",
}


def report(solution: Solution, predictions: Predictions | None = None) -> dict[str, Any]:
    r"""Everything a run is judged by, as strict JSON.

    Errors are $\max|u - u^*|$ and $\sqrt{\mathrm{mean}\,|u - u^*|^2}$, over all fields: on the problem's test grid and at
    the points of the solve. They are None where the problem has no reference solution; there is an estimate then, unless the
    method's pieces need not fit together, the run did not end well or has so many points that it takes long. `seconds` are
    those of the solve.
    `predictions` are those of this solution, for a figure to share.
    """
    problem, result = solution.problem, solution.result
    if problem is None:
        raise ValueError("`report`: the solution was loaded without its problem; pass `problem=` to `gpde.load`.")
    predictions = Predictions(solution) if predictions is None else predictions
    grid, points = error_points(problem), np.concatenate(list(solution.points.values()))
    if problem.reference is not None:
        predictions.together(grid, points)
    counts = {part: len(points) for part, points in solution.points.items()}
    data = {
        "problem": problem.name,
        "method": result.method,
        "num_points": sum(counts.values()),
        "num_interior": counts.get("interior", 0),
        "seed": solution.settings.get("seed"),
        "result": result.outcome.name.lower(),
        "errors": errors(predictions, grid),
        "errors_at_points": errors(predictions, points),
        "error_estimate": _estimate(solution),
        "residual_at_points": result.at_points,
        "residual_between_points": result.between_points,
        "parameters": {name: estimate._asdict() for name, estimate in solution.parameters.items()},
        "seconds": dataclasses.asdict(solution.seconds),
        "peak_memory_mb": memory.peak_mb(),
        "settings": {
            **solution.settings,
            "kernel": kernels_text(solution.kernels),
            "num_boundary": sum(num for part, num in counts.items() if part in problem.domain.parts)
            - counts.get("interior", 0),
        },
        "history": {
            "num_steps": result.num_steps,
            "nugget": result.nugget,
            "notes": list(result.notes),
            "sentence": str(result),
            "learning": None if solution.learning is None else solution.learning.tried,
        },
    }
    return strict(data)


def _estimate(solution: Solution) -> float | None:
    if solution.problem is None or solution.problem.reference is not None:
        return None
    if not solution.result.successful or sum(map(len, solution.points.values())) > _MOST_ESTIMATED:
        return None
    try:
        return solution.error_estimate()
    except ValueError:  # there is none
        return None


def strict(data: Any) -> Any:
    """JSON has no NaN and no infinity: None stands for them; what is no JSON at all is put in words."""
    match data:
        case None | bool() | int() | str():
            return data
        case np.generic():
            return strict(data.item())
        case float():
            return data if math.isfinite(data) else None
        case Mapping():
            return {str(key): strict(value) for key, value in data.items()}
        case list() | tuple():
            return [strict(item) for item in data]
        case np.ndarray():
            return strict(data.tolist())
    return str(data)


def table(solution: Solution, data: Mapping[str, Any]) -> Table:
    """The report for a person."""
    result, seconds = solution.result, data["seconds"]
    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    colour = "green" if result.successful else "red" if result.failed else "yellow"
    grid.add_row("result", f"[{colour}]{escape(str(result))}[/]")
    grid.add_row("method", data["method"])
    grid.add_row("points", f"{solution.points_text}   [dim]{data['settings'].get('sampling')}, seed {data['seed']}[/]")
    grid.add_row("kernel", data["settings"]["kernel"])
    for name, (value, std) in solution.parameters.items():
        grid.add_row(name, f"{value:.6g} ± {std:.2g}")
    grid.add_row("nugget", "none" if result.nugget is None else f"{result.nugget:g}")
    for label, key, where in (("error", "errors", "on the test grid"), ("", "errors_at_points", "at the points")):
        if data[key]["linf"] is not None:
            numbers = f"Linf [bold]{data[key]['linf']:.2e}[/]   L2 [bold]{data[key]['l2']:.2e}[/]"
            grid.add_row(label, f"{numbers}   [dim]{where}[/]")
    if data["error_estimate"] is not None:
        grid.add_row("error", f"about [bold]{data['error_estimate']:.0e}[/]   [dim]estimated, root mean square[/]")
    if result.between_points:
        numbers = "   ".join(f"{part} [bold]{number:.1e}[/]" for part, number in result.between_points.items())
        grid.add_row("misfit", f"{numbers}   [dim]between the points, in units of the equations' terms[/]")
    total = seconds.get("total", seconds["compile"] + seconds["run"])
    grid.add_row("time", f"[bold]{total:.2f} s[/]")
    for name, text in _PHASES.items():
        if name in seconds:
            grid.add_row("", f"{seconds[name]:{len(f'{total:.2f}')}.2f} s   {name:<10}   [dim]{text}[/]")
    grid.add_row("memory", f"{data['peak_memory_mb']:.0f} MB")
    return grid
