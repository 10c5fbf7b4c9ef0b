"""Figures of solutions: truth, solution, error, points and the history of the run."""

import functools
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpde.solution.errors import Predictions, grid_shape
from gpde.solution.plane import Plane, round_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#2c5d8a", "#d1603d", "#555555"


def plot_solution(
    solution: Any,
    path: str | os.PathLike[str] | None = None,
    grid: Sequence[int] | None = None,
    *,
    std: bool = False,
    predictions: Predictions | None = None,
) -> "Figure":
    """A figure with one row per field; saved if a path is given.

    In one dimension the solution with its band of two standard deviations; in two the truth where it is known, the
    solution, the error and the points; in more the same on the plane of the first two coordinates of space through the middle
    of the others, at the end of time. What lies outside the domain is left white. The last panel is the history. `grid` is the
    number of points along each coordinate drawn, `std` adds a panel of the standard deviation; `predictions` are those that a
    report has made.
    """
    # The object interface: pyplot would keep every figure alive, and choose a window system for it.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if isinstance(path, str | os.PathLike):
        _check_path(Path(path), FigureCanvasAgg.get_supported_filetypes())
    with rc_context(_STYLE):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        (_draw_lines if solution.domain.dim == 1 else _draw_planes)(
            figure, solution, grid, std, Predictions(solution) if predictions is None else predictions
        )
        if path is not None:
            figure.savefig(path, dpi=160)
    return figure


def _check_path(path: Path, kinds: Collection[str]) -> None:
    """Before there is a figure, which takes a while."""
    if not path.parent.is_dir():
        raise ValueError(f"`plot`: there is no directory '{path.parent}'; make it first.")
    if path.is_dir():
        raise ValueError(f"`plot`: '{path}' is a directory; name a file in it, as '{path / 'figure.png'}'.")
    if path.suffix and path.suffix[1:].lower() not in kinds:
        raise ValueError(
            f"`plot`: '{path.name}' ends in '{path.suffix}', which is no kind of picture; kinds are {', '.join(sorted(kinds))}."
        )


_STYLE: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "mathtext.fontset": "cm",
}


def _draw_lines(figure: "Figure", solution: Any, grid: Sequence[int] | None, std: bool, predictions: Predictions) -> None:
    """One coordinate: a line per field, its band, the truth and the points; below it the error."""
    del std  # the band is always there
    problem, domain, fields = solution.problem, solution.domain, solution.fields
    x = domain.test_points(grid or grid_shape(1, problem))
    values, spread, truth = predictions.values(x), predictions.std(x), predictions.truth(x)
    num_columns = 2 + (truth is not None)
    figure.set_size_inches(3.3 * num_columns, 2.5 * len(fields))
    panels = figure.subplots(len(fields), num_columns, squeeze=False)
    points = np.concatenate(list(solution.points.values()))
    at_points, added = predictions.values(points), _added_points(solution)
    at_added = {name: predictions.values(where) for name, where in added.items()}
    for row, field in enumerate(fields):
        main, *others = panels[row]
        u, two = values[:, row], 2 * spread[:, row]
        main.fill_between(x[:, 0], u - two, u + two, color=_BLUE, alpha=0.25, lw=0, label="± 2 std")
        if truth is not None:
            main.plot(x[:, 0], truth[:, row], color=_ORANGE, lw=2.4, alpha=0.7, label="truth")
        main.plot(x[:, 0], u, color=_BLUE, label="solution")
        main.plot(points[:, 0], at_points[:, row], "o", color=_BLUE, ms=2, mew=0, label=f"{len(points)} points")
        for colour, (name, where) in zip(round_colours(len(added)), added.items(), strict=True):
            main.plot(where[:, 0], at_added[name][:, row], "o", color=colour, ms=2, mew=0, label=name)
        if row == 0 and problem is not None:
            _draw_observations(main, problem.observations)
        main.set_title(f"solution {field}")
        main.set_xlabel(domain.coordinates[0], style="italic")
        main.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, columnspacing=1)
        if truth is not None:
            error = np.abs(u - truth[:, row])
            others[0].semilogy(x[:, 0], _above_rounding(error), color=_BLUE)
            others[0].set_title(_error_title(error))
            others[0].set_xlabel(domain.coordinates[0], style="italic")
    for axes in panels[1:, -1]:
        axes.set_axis_off()
    _draw_history(panels[0, -1], solution)


def _draw_observations(axes: "Axes", observations: Any) -> None:
    """Measured values of the first field; those of an operator have no place beside it."""
    for data in observations:
        if data.operator is None:
            axes.errorbar(
                data.points[:, 0], data.values, data.noise, fmt="o", ms=3, mfc="white", color=_GREY, lw=0.8, label=data.name
            )


def _draw_planes(figure: "Figure", solution: Any, grid: Sequence[int] | None, std: bool, predictions: Predictions) -> None:
    """Two coordinates, or the first two with the others at their middle: a panel for each thing to see."""
    fields = solution.fields
    planes = _planes(solution, grid)
    truth_known = predictions.truth(planes[0].points) is not None
    rows, history = _panels(figure, len(fields), 2 + 2 * truth_known + std)
    for row, (field, plane, panels) in enumerate(zip(fields, planes, rows, strict=True)):
        rest = iter(panels)
        u, truth = predictions.values(plane.points)[:, row], predictions.truth(plane.points)
        both = u if truth is None else np.concatenate([u, truth[:, row]])
        scale = {"vmin": np.nanmin(both), "vmax": np.nanmax(both)}
        if truth is not None:
            plane.image(next(rest), truth[:, row], f"truth {field}*", **scale)
        plane.image(next(rest), u, f"solution {field}", **scale)
        if truth is not None:
            error = np.abs(u - truth[:, row])
            plane.image(next(rest), _above_rounding(error), _error_title(error[: plane.num_grid]), log=True)
        if std:
            spread = predictions.std(plane.points)[:, row]
            plane.image(next(rest), _above_rounding(spread), f"standard deviation of {field}", log=True)
        plane.scatter(next(rest), u, solution.points, _added_points(solution))
    _draw_history(history, solution)


def _planes(solution: Any, grid: Sequence[int] | None) -> list[Plane]:
    """The plane of each field, which ends where the field does."""
    problem, domain, fields = solution.problem, solution.domain, solution.fields
    # A picture deserves as many points as it has; the test grid of a problem in space may be coarse.
    shape = tuple(grid or (grid_shape(2, problem) if domain.dim == 2 else (60, 60)))
    unknowns = getattr(fields, "unknowns", (None,) * len(fields))
    parts = ["interior" if unknown is None or unknown.on is None else unknown.on for unknown in unknowns]
    planes = {part: Plane(domain, shape, functools.partial(domain.in_closure, part)) for part in dict.fromkeys(parts)}
    return [planes[part] for part in parts]


def _panels(figure: "Figure", num_fields: int, num_panels: int) -> tuple[list[list["Axes"]], "Axes"]:
    """A row of panels per field and one for the history; the panels of a single field take two rows of three."""
    num_columns = 3 if num_fields == 1 and num_panels > 3 else num_panels + 1
    num_rows = num_fields if num_panels < num_columns else 2
    figure.set_size_inches(3.0 * num_columns, 2.6 * num_rows)
    cells = figure.add_gridspec(num_rows, num_columns)
    places = [divmod(i, num_columns) for i in range(num_panels)] if num_fields == 1 else []
    if places:
        last_row, last_column = places[-1]
        return [[figure.add_subplot(cells[p]) for p in places]], figure.add_subplot(cells[last_row, last_column + 1 :])
    rows = [[figure.add_subplot(cells[row, column]) for column in range(num_panels)] for row in range(num_fields)]
    return rows, figure.add_subplot(cells[0, -1])


def _draw_history(axes: "Axes", solution: Any) -> None:
    """How the residual, the step, the change over a sweep or the loss and, on a scale of its own, what is minimised fell, on
    logarithmic scales."""
    # An entry may stand for many steps.
    steps = np.cumsum([info.get("num_steps", 1) for info in solution.history], dtype=int)

    def draw(panel: "Axes", name: str, colour: str) -> None:
        numbers = [(i, info[name]) for i, info in zip(steps, solution.history, strict=True) if info.get(name, 0.0) > 0]
        if numbers:
            panel.semilogy(*zip(*numbers, strict=True), "o-" if len(numbers) < 60 else "-", ms=3, color=colour, label=name)

    # The loss of weights that raise themselves contains these, and says nothing of how near a run is to its rest.
    sweeps = [sweep for info in solution.history for sweep in info.get("sweeps", ())]
    for name, colour in (("residual", _BLUE), ("step", _ORANGE), *(() if sweeps else (("loss", _BLUE),))):
        draw(axes, name, colour)
    if sweeps:
        ends = np.cumsum([sweep["num_points"] for sweep in sweeps])
        axes.semilogy(ends, [sweep["change"] for sweep in sweeps], "o-", ms=3, color=_BLUE, label="change over a sweep")
    axes.set_title(f"history ({solution.result.method})")
    axes.set_xlabel("step")
    if 0 < len(steps) < 12:
        axes.set_xticks(steps)
    lines = list(axes.lines)
    if any(info.get("objective", 0.0) > 0 for info in solution.history):
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        draw(right, "objective", _GREY)
        right.set_ylabel("objective", color=_GREY)
        lines += right.lines
    if lines:
        axes.legend(handles=lines, fontsize=7)


def _error_title(error: np.ndarray) -> str:
    return f"error: $L_\\infty$ {np.nanmax(error):.1e}, $L_2$ {np.sqrt(np.nanmean(error**2)):.1e}"


def _added_points(solution: Any) -> dict[str, np.ndarray]:
    """Those points of the interior that were added in rounds, round by round."""
    first, *batches = solution.settings.get("rounds", (0,))
    ends = np.cumsum([first, *batches])
    return {f"round {k + 1}": solution.points["interior"][ends[k] : ends[k + 1]] for k in range(len(batches))}


def _above_rounding(values: np.ndarray) -> np.ndarray:
    """Zero has no logarithm: it is drawn as rounding."""
    return np.maximum(values, 1e-6 * np.nanmax(values) or np.finfo(float).eps)
