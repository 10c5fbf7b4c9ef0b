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

    Sides: `"left"`, `"right"` (axis 0), `"bottom"`, `"top"` (axis 1), `"back"`, `"front"` (axis 2), then `"lower3"`,
    `"upper3"` and so on. `"boundary"` is all of them. Coordinates are x, y, z, or as `coordinates` names them.
    """

    def __init__(self, lower: Corner, upper: Corner, coordinates: Sequence[str] | None = None):
        self._lower, self._upper = vector(lower, "Box", "lower"), vector(upper, "Box", "upper")
        if self._lower.shape != self._upper.shape:
            sizes = f"{len(self._lower)} and {len(self._upper)}"
            raise ValueError(f"`Box`: `lower` and `upper` have one number per coordinate each; got {sizes}.")
        if not np.all(self._lower < self._upper):
            raise ValueError(f"`Box`: `lower` is below `upper` in every coordinate; got {lower} and {upper}.")
        self._coordinates = coordinate_names(self.dim, coordinates, "Box")
        names = [_SIDES[axis] if axis < len(_SIDES) else (f"lower{axis}", f"upper{axis}") for axis in range(self.dim)]
        self._sides = {
            name: (axis, corner)
            for axis, pair in enumerate(names)
            for name, corner in zip(pair, (self._lower, self._upper), strict=True)
        }

    def __repr__(self) -> str:
        names = "" if self.coordinates == coordinate_names(self.dim, None, "Box") else f", {self.coordinates}"
        return f"Box({point_text(self.lower)}, {point_text(self.upper)}{names})"

    @property
    def lower(self) -> Float[np.ndarray, " dim"]:
        return self._lower

    @property
    def upper(self) -> Float[np.ndarray, " dim"]:
        return self._upper

    @property
    def coordinates(self) -> tuple[str, ...]:
        return self._coordinates

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *self._sides)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {"boundary": tuple(self._sides)}

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        return self.extent  # coordinates may be metres and volts

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
        return np.all((checked >= self.lower - slack) & (checked <= self.upper + slack), axis=1)

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        inside, slack = self.contains(points, tolerance), tolerance * self.extent
        if atom == "interior":
            return inside & np.all((points > self.lower + slack) & (points < self.upper - slack), axis=1)
        axis, corner = self._sides[atom]
        return inside & (np.abs(points[:, axis] - corner[axis]) <= slack[axis])

    def atom_normal(self, atom: str, points: Points) -> Points:
        axis, corner = self._sides[atom]
        normals = np.zeros_like(points)
        normals[:, axis] = 1.0 if corner is self._upper else -1.0
        return normals

    def _free(self, atom: str) -> list[int]:
        """The axes along which the atom extends."""
        return [axis for axis in range(self.dim) if atom == "interior" or axis != self._sides[atom][0]]
