"""What a run was and how good it is: as a dict for machines, as a table for people."""

import dataclasses
import math
import resource
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.markup import escape
from rich.table import Table

from gpde.kernels import AbstractKernel
from gpde.plotting import grid_shape, reference_values
from gpde.solution import Solution


def report(solution: Solution) -> dict[str, Any]:
    r"""Everything a run is judged by, as strict JSON.

    Errors are $\max|u - u^*|$ and $\sqrt{\mathrm{mean}\,|u - u^*|^2}$, over all fields: on the problem's test grid and at
    the points of the solve. They are None where the problem has no reference solution.
    """
    problem, result = solution.problem, solution.result
    if problem is None:
        raise ValueError("`report`: the solution was loaded without its problem; pass `problem=` to `gpde.load`.")
    counts = {part: len(points) for part, points in solution.points.items()}
    data = {
        "problem": problem.name,
        "method": result.method,
        "num_points": sum(counts.values()),
        "num_interior": counts.get("interior", 0),
        "seed": solution.settings.get("seed"),
        "result": result.outcome.name.lower(),
        "errors": errors(solution, problem.domain.grid(grid_shape(problem))),
        "errors_at_points": errors(solution, np.concatenate(list(solution.points.values()))),
        "residual_at_points": result.at_points,
        "residual_between_points": result.between_points,
        "seconds": dataclasses.asdict(solution.seconds),
        "peak_memory_mb": peak_memory_mb(),
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
        },
    }
    return strict(data)


def errors(solution: Solution, points: Float[np.ndarray, "points dim"]) -> dict[str, float | None]:
    """The largest and the root mean square error at points."""
    truth = None if solution.problem is None else reference_values(solution.problem, points)
    if truth is None:
        return {"linf": None, "l2": None}
    difference = np.abs(solution(points).reshape(truth.shape) - truth)
    return {"linf": float(difference.max()), "l2": float(np.sqrt(np.mean(difference**2)))}


def peak_memory_mb() -> float:
    """The most memory this process has held."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


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


def kernels_text(kernels: Mapping[str, AbstractKernel]) -> str:
    """`Gaussian(lengthscale=0.2)`; one for each field where they differ."""
    texts = {field: kernel_text(kernel) for field, kernel in kernels.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{field}: {text}" for field, text in texts.items())


def kernel_text(kernel: AbstractKernel) -> str:
    """A kernel as it is written, without what is as by default."""
    pieces = []
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, AbstractKernel):
            pieces.append(kernel_text(value))
        elif callable(value):
            pieces.append(getattr(getattr(value, "func", value), "__name__", "function"))
        elif value is not None and np.size(value) and not (field.name == "amplitude" and value == 1.0):
            text = ", ".join(f"{number:.6g}" for number in np.ravel(value))
            pieces.append(f"{field.name}={text if np.size(value) == 1 else f'({text})'}")
    return f"{type(kernel).__name__}({', '.join(pieces)})"


def table(solution: Solution, data: Mapping[str, Any]) -> Table:
    """The report for a person."""
    result, seconds = solution.result, data["seconds"]
    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    colour = "green" if result.successful else "red" if result.failed else "yellow"
    grid.add_row("result", f"[{colour}]{escape(str(result))}[/]")
    grid.add_row("method", data["method"])
    grid.add_row("points", f"{points_text(solution)}   [dim]{data['settings'].get('sampling')}, seed {data['seed']}[/]")
    grid.add_row("kernel", data["settings"]["kernel"])
    grid.add_row("nugget", "none" if result.nugget is None else f"{result.nugget:g}")
    for label, key, where in (("error", "errors", "on the test grid"), ("", "errors_at_points", "at the points")):
        if data[key]["linf"] is not None:
            numbers = f"Linf [bold]{data[key]['linf']:.2e}[/]   L2 [bold]{data[key]['l2']:.2e}[/]"
            grid.add_row(label, f"{numbers}   [dim]{where}[/]")
    if result.between_points:
        numbers = "   ".join(f"{part} [bold]{number:.1e}[/]" for part, number in result.between_points.items())
        grid.add_row("misfit", f"{numbers}   [dim]between the points, in units of the equations' terms[/]")
    grid.add_row("time", f"{seconds['run']:.2f} s   [dim]and {seconds['compile']:.2f} s to compile[/]")
    grid.add_row("memory", f"{data['peak_memory_mb']:.0f} MB")
    return grid


def points_text(solution: Solution) -> str:
    """`900 interior + 300 boundary`."""
    return " + ".join(f"{len(points)} {part}" for part, points in solution.points.items())
