"""Intervals, rectangles, cuboids, and so on."""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points
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
        self._lower, self._upper = _corner(lower, "lower"), _corner(upper, "upper")
        if self._lower.shape != self._upper.shape:
            sizes = f"{len(self._lower)} and {len(self._upper)}"
            raise ValueError(f"`Box`: `lower` and `upper` have one number per coordinate each; got {sizes}.")
        if not np.all(self._lower < self._upper):
            raise ValueError(f"`Box`: `lower` is below `upper` in every coordinate; got {lower} and {upper}.")
        self._coordinates = self._named() if coordinates is None else tuple(coordinates)
        if len({str(name).strip().casefold() for name in self._coordinates} - {""}) != self.dim:
            raise ValueError(
                f"`Box`: `coordinates` is a name for each of {self.dim} coordinates, all different; got {coordinates!r}."
            )
        names = [_SIDES[axis] if axis < len(_SIDES) else (f"lower{axis}", f"upper{axis}") for axis in range(self.dim)]
        self._sides = {
            name: (axis, corner)
            for axis, pair in enumerate(names)
            for name, corner in zip(pair, (self._lower, self._upper), strict=True)
        }

    def __repr__(self) -> str:
        names = "" if self.coordinates == self._named() else f", {self.coordinates}"
        if self.dim == 1:
            return f"Box({self.lower[0]:g}, {self.upper[0]:g}{names})"
        return f"Box({_tuple(self.lower)}, {_tuple(self.upper)}{names})"

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

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent[self._free(atom)]

    def atom_measure(self, atom: str) -> float:
        return float(np.prod(self.atom_extent(atom)))

    def atom_share(self, atom: str) -> float:
        return 1.0  # the sides of a cube: coordinates may be metres and volts

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        points, free = np.empty((len(unit), self.dim)), self._free(atom)
        points[:, free] = between(self.lower[free], self.upper[free], unit)
        if atom != "interior":
            axis, corner = self._sides[atom]
            points[:, axis] = corner[axis]
        return points

    def contains(self, points: ArrayLike, tolerance: float = 1e-9) -> Mask:
        checked, slack = self.check_points(points, "contains"), tolerance * self.extent
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

    def _named(self) -> tuple[str, ...]:
        """What coordinates are called where the user does not say."""
        return ("x", "y", "z")[: self.dim] if self.dim <= 3 else tuple(f"x{axis}" for axis in range(self.dim))

    def _free(self, atom: str) -> list[int]:
        """The axes along which the atom extends."""
        return [axis for axis in range(self.dim) if atom == "interior" or axis != self._sides[atom][0]]


def _corner(value: Corner, name: str) -> Float[np.ndarray, " dim"]:
    corner = np.atleast_1d(np.array(value, dtype=np.float64))
    if corner.ndim != 1 or corner.size == 0 or not np.all(np.isfinite(corner)):
        raise ValueError(f"`Box`: `{name}` is a finite number, or one for each coordinate; got {value}.")
    corner.setflags(write=False)
    return corner


def _tuple(corner: np.ndarray) -> str:
    return f"({', '.join(f'{value:g}' for value in corner)})"
