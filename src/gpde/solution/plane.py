"""The plane of a picture: where it is looked at, and how values there are drawn."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from gpde.domains.base import AbstractDomain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORANGE, _BLUE, _GREY = "#d1603d", "#2c5d8a", "#555555"
_PART_COLOURS = (_GREY, _ORANGE, _BLUE, "#4c9f70", "#7f5aa8")
# The edge is looked for between the points of a grid so many times as fine: corners are cut off by no more than that.
_FINER = 3

Where = Callable[[Float[np.ndarray, "points dim"]], Bool[np.ndarray, " points"]]


def round_colours(num: int) -> list[Any]:
    """Of points that were added, darker from round to round."""
    from matplotlib import colormaps

    return list(colormaps["RdPu"](np.linspace(0.5, 0.9, num)))


class Plane:
    """A grid on two coordinates, and how things look on it: in the plane all of it, with time to the right; in space on the
    first two, through the middle of the others; in a plane in time, and beyond, on that plane at the end.

    `inside` says which points belong to what is drawn. `points` are those of the grid that do, `num_grid` of them, and then
    points of the edge, so that a picture ends there and not in steps; values are given at these alone.
    """

    def __init__(self, domain: AbstractDomain, shape: tuple[int, ...], inside: Where) -> None:
        self.names = domain.coordinates
        self.middle = (domain.lower + domain.upper) / 2
        self.axes = [0, 1]
        if self.names[0] == "t" and domain.dim > 2:
            self.axes, self.middle[0] = [1, 2], domain.upper[0]
        self.rest = [axis for axis in range(domain.dim) if axis not in self.axes]
        self.lower, self.upper = domain.lower[self.axes], domain.upper[self.axes]
        self.x, self.y = self._grid(shape)
        here = inside(self._through(self.x, self.y))
        if not here.any():  # the middle of the box lies outside, as that of a shell
            some = domain.sample("interior", 256, sampling="sobol")
            some = some[inside(some)]
            self.middle = some[np.argmin(np.sum(((some - self.middle) / domain.extent)[:, self.rest] ** 2, axis=1))]
            here = inside(self._through(self.x, self.y))
        if not here.any():
            raise ValueError(f"`plot`: no point of the grid {shape} lies in {domain}; give a finer one, as `grid=(400, 400)`.")
        self.points, self.num_grid = self._through(self.x, self.y)[here], int(here.sum())
        self._triangles: Any = None
        if not here.all():
            self.points = np.concatenate([self.points, self._edge(shape, inside)])
            self._triangles = self._triangulation(inside)
        width, height = self.upper - self.lower
        lengths = self.names[self.axes[0]] != "t"
        self.aspect: Literal["equal", "auto"] = "equal" if lengths and 0.5 <= width / height <= 2 else "auto"

    def _grid(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        axes = [np.linspace(*ends) for ends in zip(self.lower, self.upper, shape[:2], strict=True)]
        x, y = np.meshgrid(*axes, indexing="ij")
        return x, y

    def _through(self, x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "points dim"]:
        """Points of the plane, with all their coordinates."""
        points = np.tile(self.middle, (x.size, 1))
        points[:, self.axes] = np.stack([x.ravel(), y.ravel()], axis=1)
        return points

    def _edge(self, shape: tuple[int, ...], inside: Where) -> Float[np.ndarray, "points dim"]:
        """Where lines of a finer grid leave what is drawn, by bisection; the last points that are inside."""
        fine = tuple(_FINER * (num - 1) + 1 for num in shape[:2])
        points = self._through(*self._grid(fine)).reshape(*fine, -1)
        here = inside(points.reshape(-1, points.shape[-1])).reshape(fine)
        pairs = [(points[:-1], points[1:], here[:-1], here[1:]), (points[:, :-1], points[:, 1:], here[:, :-1], here[:, 1:])]
        ends = [(a[one != two], b[one != two], one[one != two]) for a, b, one, two in pairs]
        first, second, first_in = (np.concatenate(columns) for columns in zip(*ends, strict=True))
        low, high = np.where(first_in[:, None], first, second), np.where(first_in[:, None], second, first)
        for _ in range(24):
            middle = (low + high) / 2
            still = inside(middle)[:, None]
            low, high = np.where(still, middle, low), np.where(still, high, middle)
        cell = (self.upper - self.lower) / (np.array(fine) - 1)
        _, once = np.unique(np.round(low[:, self.axes] / cell, 2), axis=0, return_index=True)
        return low[once]

    def _triangulation(self, inside: Where) -> Any:
        """Delaunay's, in units of the picture, without the triangles that lie outside."""
        from matplotlib.tri import Triangulation

        places = self.points[:, self.axes]
        triangles = Triangulation(*((places - self.lower) / (self.upper - self.lower)).T).triangles
        centres = self.points[triangles].mean(axis=1)
        return Triangulation(places[:, 0], places[:, 1], triangles, mask=~inside(centres))

    def image(self, axes: "Axes", values: np.ndarray, title: str, *, log: bool = False, **scale: float) -> None:
        """Values at `points`, with what the colours stand for."""
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import NullFormatter

        shown = np.ma.masked_invalid(values)  # a truth may be singular somewhere
        # Between one and four decades: fewer have no tick, more show only the dips between two signs.
        lowest = np.clip(shown.min(), 1e-4 * shown.max(), 0.1 * shown.max())
        norm: Any = {"norm": LogNorm(lowest, shown.max())} if log else scale
        colours = self.colours(axes, shown, cmap="magma" if log else "viridis", **norm)
        bar = axes.figure.colorbar(colours, ax=axes, shrink=0.9, aspect=18, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7, width=0.5)
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        self._frame(axes, title)

    def colours(self, axes: "Axes", values: np.ndarray, **how: Any) -> Any:
        """Values at `points` as colours, without frame and scale."""
        if self._triangles is None:
            return axes.pcolormesh(self.x, self.y, values.reshape(self.x.shape), shading="gouraud", rasterized=True, **how)
        return axes.tripcolor(self._triangles, values, shading="gouraud", rasterized=True, **how)

    def scatter(self, axes: "Axes", values: np.ndarray, points: Any, added: Any) -> None:
        """The points over contours of the solution, over them those that were `added` in rounds."""
        if values.max() > values.min():
            how: Any = {"levels": 9, "cmap": "viridis", "linewidths": 0.7, "alpha": 0.8}
            if self._triangles is None:
                axes.contour(self.x, self.y, values.reshape(self.x.shape), **how)
            else:
                axes.tricontour(self._triangles, values, **how)
        parts = [(_PART_COLOURS[index % 5], *item) for index, item in enumerate(points.items())]
        rounds = [(colour, *item) for colour, item in zip(round_colours(len(added)), added.items(), strict=True)]
        for colour, name, where in parts + rounds:
            size = float(np.clip(1500 / len(where), 1.2, 6))
            axes.scatter(*where[:, self.axes].T, s=size, color=colour, lw=0, label=name, clip_on=False, zorder=3)
        self._frame(axes, f"{sum(map(len, points.values()))} points")
        axes.legend(
            fontsize=6.5, markerscale=2, loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=5, ncols=3, handletextpad=0
        )

    def _frame(self, axes: "Axes", title: str) -> None:
        axes.set_aspect(self.aspect)
        axes.set_title(title + self._where())
        axes.set_xlabel(self.names[self.axes[0]], style="italic")
        axes.set_ylabel(self.names[self.axes[1]], style="italic", rotation=0)
        axes.set_xlim(self.lower[0], self.upper[0])
        axes.set_ylim(self.lower[1], self.upper[1])

    def _where(self) -> str:
        fixed = [f"{self.names[axis]} = {self.middle[axis]:.3g}" for axis in self.rest]
        return f"   at {', '.join(fixed)}" if fixed else ""
