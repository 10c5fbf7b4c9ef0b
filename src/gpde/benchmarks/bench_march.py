"""A march through ten windows beside the reference: how the error grows with time."""

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import Drawn, announce, figure_of
from gpde.gallery import GALLERY
from gpde.solution.errors import reference_values
from gpde.solution.march import march

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WINDOWS, _LENGTH = 10, 2.0
_NUM_PLACES = 64


def main(quick: bool = False) -> Drawn:
    """Prints and draws the error of the Kuramoto-Sivashinsky equation, in root mean square over x relative to that of the
    solution, at the end of each window. The equation is chaotic: what one window leaves, the next ones enlarge."""
    windows = 2 if quick else _WINDOWS
    problem = GALLERY["kuramoto-sivashinsky"].build(duration=_LENGTH * windows)
    sizes = {"num_interior": 40, "num_boundary": 10} if quick else {"num_interior": 700, "num_boundary": 100}
    announce(f"{windows} windows of length {_LENGTH:g}")
    solution = march(problem, windows=windows, **sizes)
    times = np.linspace(0, _LENGTH * windows, 4 * windows + 1)
    space = problem.domain.lower[1] + problem.domain.extent[1] * np.arange(_NUM_PLACES) / _NUM_PLACES
    points = np.stack(np.meshgrid(times, space, indexing="ij"), axis=-1).reshape(-1, 2)
    truth = reference_values(problem, points)
    assert truth is not None  # as every problem of the gallery has
    off = (solution(points) - truth[:, 0]).reshape(len(times), -1)
    error = np.sqrt(np.mean(off**2, axis=1) / np.mean(truth**2))
    seconds = solution.seconds
    table = Table(title=f"{solution.result.outcome.name.lower()} in {seconds.run:.0f} s and {seconds.compile:.0f} s to compile")
    table.add_column("time", justify="right")
    table.add_column("relative error", justify="right")
    for at, each in zip(times[4::4], error[4::4], strict=True):
        table.add_row(f"{at:g}", f"{each:.1e}")
    Console(width=100).print(table)

    def draw(axes: "Axes") -> None:
        axes.semilogy(times, error, lw=1.4)
        axes.set(xlabel="time", ylabel="error relative to the solution", title=f"{problem.name}, {windows} windows")
        for edge in times[::4]:
            axes.axvline(edge, color="0.85", lw=0.6, zorder=0)

    return Drawn({"times": times.tolist(), "errors": error.tolist()}, figure_of(draw))
