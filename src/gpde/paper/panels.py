"""Panels of the experiments' figures: contours on a grid or at scattered points, and curves."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gpde.domains.base import AbstractDomain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "mathtext.fontset": "cm",
}
_COLOURS = ("#d1603d", "#2c5d8a", "#4c9f70", "#7f5aa8")
# From the largest error down: room for the full GP beside the paper's weight.
_DECADES = 9
_DPI = 110


@contextlib.contextmanager
def figure(num_rows: int, num_columns: int) -> Iterator[tuple["Figure", list["Axes"]]]:
    """A figure and its panels, row by row."""
    # The object interface: pyplot would keep every figure alive, and choose a window system for it.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        drawn = Figure(figsize=(3.1 * num_columns, 2.6 * num_rows), dpi=_DPI, layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, list(drawn.subplots(num_rows, num_columns, squeeze=False).ravel())


class Map:
    """Functions on a plane domain, given at points that are a grid or scattered."""

    def __init__(self, domain: AbstractDomain, points: Float[np.ndarray, "points dim"]) -> None:
        from matplotlib.tri import Triangulation

        self.names = domain.coordinates
        self.num_points = len(points)
        self.triangles = Triangulation(points[:, 0], points[:, 1])
        # They fill the convex hull of the points, which may reach beyond the domain.
        self.triangles.set_mask(~domain.contains(points[self.triangles.triangles].mean(axis=1)))

    def values(self, axes: "Axes", values: np.ndarray, title: str, levels: np.ndarray) -> None:
        """Filled contours."""
        colours = axes.tricontourf(self.triangles, values, levels=levels, cmap="viridis", extend="both")
        self._bar(axes, colours, levels[::2])
        self._frame(axes, title)

    def errors(self, axes: "Axes", error: np.ndarray, title: str, levels: np.ndarray) -> None:
        """Filled contours on a logarithmic scale."""
        from matplotlib.colors import LogNorm

        clipped = np.clip(error, levels[0], levels[-1])
        colours = axes.tricontourf(self.triangles, clipped, levels=levels, cmap="magma", norm=LogNorm(levels[0], levels[-1]))
        self._bar(
            axes,
            colours,
            [level for level in levels if math.isclose(math.log10(level), round(math.log10(level)), abs_tol=1e-9)],
        )
        self._frame(axes, title)

    def points(self, axes: "Axes", values: np.ndarray, points: Mapping[str, np.ndarray], levels: np.ndarray) -> None:
        """Sample points over contours of the truth."""
        axes.tricontour(self.triangles, values, levels=levels, cmap="viridis", linewidths=0.7)
        for colour, (part, where) in zip(("#555555", *_COLOURS), points.items(), strict=False):
            axes.plot(where[:, 0], where[:, 1], "o", ms=1.8, mew=0, color=colour, label=part, clip_on=False, zorder=3)
        self._frame(axes, f"{sum(map(len, points.values()))} points, contours of $u^*$")

    def _bar(self, axes: "Axes", colours: Any, ticks: Sequence[float] | np.ndarray) -> None:
        bar = axes.figure.colorbar(colours, ax=axes, shrink=0.9, aspect=18, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_ticks(list(ticks))
        bar.ax.minorticks_off()
        bar.ax.tick_params(labelsize=7, width=0.5)

    def _frame(self, axes: "Axes", title: str) -> None:
        axes.set_title(title)
        axes.set_xlabel(self.names[0], style="italic")
        axes.set_ylabel(self.names[1], style="italic", rotation=0)


def value_levels(values: np.ndarray) -> np.ndarray:
    """Contours at round numbers from the lowest to the highest value."""
    from matplotlib.ticker import MaxNLocator

    return np.asarray(MaxNLocator(14).tick_values(values.min(), values.max()))


def error_levels(errors: Sequence[np.ndarray]) -> np.ndarray:
    """Contours at equal ratios, the same for all errors, so that panels can be compared; more of them where decades are few."""
    highest = math.ceil(math.log10(max(error.max() for error in errors)))
    lowest = math.floor(math.log10(max(min(np.median(error) for error in errors), 10.0 ** (highest - _DECADES))))
    lowest = min(lowest, highest - 2)
    per_decade = 2 if highest - lowest > 4 else 6
    return np.logspace(lowest, highest, per_decade * (highest - lowest) + 1)


# Of the largest value of a curve: the least that is drawn.
_SHOWN = 1e-9


def curves(axes: "Axes", lines: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str, xlabel: str = "step") -> None:
    """Positive quantities on logarithmic scales: most happens in the first steps of a run."""
    for colour, (label, (x, y)) in zip(_COLOURS, lines.items(), strict=False):
        axes.loglog(x, y, color=colour, label=label)
    # A batch in which all is zero has no loss: what matters lies within some digits of the largest.
    largest = max((float(np.nanmax(y)) for _, y in lines.values() if len(y)), default=0.0)
    if largest > 0:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], _SHOWN * largest))
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.legend()
