"""Intervals, rectangles, cuboids, and so on."""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names, point_text, vector
from gpde.domains.sampling import between

Corner = float | int | Sequence[float | int] | np.ndarray

_SIDES = (("left", "right"), ("bottom", "top"), ("back", "front"))


@final
class Box(AbstractDomain):
    r"""$\prod_a [\text{lower}_a, \text{upper}_a]$, in any number of dimensions: `Box(-1, 1)`, `Box((0, 0), (1, 1))`.

    `periodic` names coordinates (or gives their numbers) that close to a circle: `Box(0, 1, periodic=("x",))`. They have no
    sides, a kernel without a period of its own gets theirs, and any number is a place on them.

    Sides: `"left"`, `"right"` (axis 0), `"bottom"`, `"top"` (axis 1), `"back"`, `"front"` (axis 2), then `"lower3"`,
    `"upper3"` and so on. `"boundary"` is all of them. Coordinates are x, y, z, or as `coordinates` names them.
    """

    def __init__(
        self,
        lower: Corner,
        upper: Corner,
        coordinates: Sequence[str] | None = None,
        periodic: str | int | Sequence[str | int] = (),
    ):
        self.lower, self.upper = vector(lower, "Box", "lower"), vector(upper, "Box", "upper")
        if self.lower.shape != self.upper.shape:
            sizes = f"{len(self.lower)} and {len(self.upper)}"
            raise ValueError(f"`Box`: `lower` and `upper` have one number per coordinate each; got {sizes}.")
        if not np.all(self.lower < self.upper):
            raise ValueError(f"`Box`: `lower` is below `upper` in every coordinate; got {lower} and {upper}.")
        self.coordinates = coordinate_names(self.dim, coordinates, "Box")
        self.periodic = self._circles(periodic)
        self._closed = np.array([name in self.periodic for name in self.coordinates])
        names = [_SIDES[axis] if axis < len(_SIDES) else (f"lower{axis}", f"upper{axis}") for axis in range(self.dim)]
        self._sides = {
            name: (axis, corner)
            for axis, pair in enumerate(names)
            for name, corner in zip(pair, (self.lower, self.upper), strict=True)
            if not self._closed[axis]
        }

    def __repr__(self) -> str:
        names = "" if self.coordinates == coordinate_names(self.dim, None, "Box") else f", {self.coordinates}"
        circles = f", periodic={self.periodic}" if self.periodic else ""
        return f"Box({point_text(self.lower)}, {point_text(self.upper)}{names}{circles})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *self._sides)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {"boundary": tuple(self._sides)} if self._sides else {}

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        return self.extent  # coordinates may be metres and volts

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        return np.where(self._closed, self.extent, np.inf)

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent[self._free(atom)]

    def atom_measure(self, atom: str) -> float:
        return float(np.prod(self.atom_extent(atom)))

    def atom_share(self, atom: str) -> float:
        return 1.0  # the sides of a cube, in units of their own

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        points, free = np.empty((len(unit), self.dim)), self._free(atom)
        points[:, free] = between(self.lower[free], self.upper[free], unit)
        if atom != "interior":
            axis, corner = self._sides[atom]
            points[:, axis] = corner[axis]
        return points

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        slack = (self.tolerance if tolerance is None else tolerance) * self.extent
        inside = (checked >= self.lower - slack) & (checked <= self.upper + slack)
        return np.all(inside | (self._closed & np.isfinite(checked)), axis=1)

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        inside, slack = self.contains(points, tolerance), tolerance * self.extent
        if atom == "interior":
            return inside & np.all(self._closed | ((points > self.lower + slack) & (points < self.upper - slack)), axis=1)
        axis, corner = self._sides[atom]
        return inside & (np.abs(points[:, axis] - corner[axis]) <= slack[axis])

    def atom_normal(self, atom: str, points: Points) -> Points:
        axis, corner = self._sides[atom]
        normals = np.zeros_like(points)
        normals[:, axis] = 1.0 if corner is self.upper else -1.0
        return normals

    def _circles(self, given: str | int | Sequence[str | int]) -> tuple[str, ...]:
        """The names of the periodic coordinates, in order."""
        asked = [given] if isinstance(given, str | int) else list(given)
        axes = range(self.dim)
        chosen = {name: self.coordinates[name] if isinstance(name, int) and name in axes else name for name in asked}
        for name, found in chosen.items():
            if found not in self.coordinates or isinstance(name, bool):
                raise ValueError(
                    f"`Box`: `periodic` has {name!r}; it is made of the coordinates {', '.join(map(repr, self.coordinates))} "
                    f"or of their numbers, 0 to {self.dim - 1}."
                )
        return tuple(name for name in self.coordinates if name in chosen.values())

    def _free(self, atom: str) -> list[int]:
        """The axes along which the atom extends."""
        return [axis for axis in range(self.dim) if atom == "interior" or axis != self._sides[atom][0]]
