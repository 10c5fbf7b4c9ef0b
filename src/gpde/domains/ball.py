"""Balls and ellipsoids: an interval, a disk, a ball, in any number of dimensions."""

import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names, is_finite_number, point_text, vector
from gpde.domains.box import Corner
from gpde.domains.sampling import between, gauss_points, unit_points

# Beyond this dimension a ball fills too little of the box around it: 31 % in four dimensions, 0.2 % in ten.
_LARGEST_BOX = 4


class AbstractEllipsoid(AbstractDomain):
    r"""$|A^{-1}(x - c)| \le 1$ with $A$ the diagonal of the semi-axes. Its boundary is `"circle"` or, beyond two dimensions,
    `"sphere"`; that of an interval `"left"` and `"right"`."""

    centre: Float[np.ndarray, " dim"]
    semi_axes: Float[np.ndarray, " dim"]

    def _set(self, centre: Corner, semi_axes: Float[np.ndarray, " dim"], coordinates: Sequence[str] | None) -> None:
        self.centre, self.semi_axes = vector(centre, type(self).__name__, "centre"), semi_axes
        self.lower, self.upper = self.centre - self.semi_axes, self.centre + self.semi_axes
        self.coordinates = coordinate_names(len(self.centre), coordinates, type(self).__name__)

    def __repr__(self) -> str:
        size = f"{self.radius:g}" if isinstance(self, Ball) else point_text(self.semi_axes)
        default = self.coordinates == coordinate_names(self.dim, None, "")
        return f"{type(self).__name__}({point_text(self.centre)}, {size}{'' if default else f', {self.coordinates}'})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *(("left", "right") if self.dim == 1 else ("circle",) if self.dim == 2 else ("sphere",)))

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {"boundary": self.atoms[1:]}

    def has_chart(self, atom: str) -> bool:
        return self.dim <= _LARGEST_BOX if atom == "interior" else self.dim <= 3 and self._is_ball

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        if atom == "interior":
            return self.extent if self.dim <= _LARGEST_BOX else np.ones(self.dim + 1)
        mean = float(np.prod(self.semi_axes)) ** (1 / self.dim)
        if self.dim <= 3:
            around = np.array([2 * math.pi, 2.0][: self.dim - 1]) * mean
        else:
            around = np.ones(self.dim)
        return around if self._is_ball else np.append(around, mean)

    def atom_measure(self, atom: str) -> float:
        d = self.dim
        ball = math.exp(d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1))
        if atom == "interior":
            return ball * float(np.prod(self.semi_axes))
        if d == 1:
            return 1.0
        if self._is_ball:
            return d * ball * float(self.semi_axes[0]) ** (d - 1)
        if d == 2:
            from scipy.special import ellipe

            short, long = sorted(self.semi_axes.tolist())
            return 4 * long * float(ellipe(1 - (short / long) ** 2))
        unit = unit_points(2**14, np.ones(2 if d == 3 else d), sampling="sobol", rng=np.random.default_rng(0))
        directions = _directions(unit, d)
        stretched = np.linalg.norm(directions / self.semi_axes, axis=1).mean()
        return d * ball * float(np.prod(self.semi_axes) * stretched)

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        if atom == "interior":
            if self.dim <= _LARGEST_BOX:
                return self.place_in_box(unit)
            radius = between(np.zeros(1), np.ones(1), unit[:, -1:]) ** (1 / self.dim)
            return self.centre + self.semi_axes * radius * _directions(unit[:, :-1], self.dim)
        if self.dim == 1:
            return np.full((len(unit), 1), self.lower if atom == "left" else self.upper)
        if self._is_ball:
            return self.centre + self.semi_axes * _directions(unit, self.dim)
        # An area of the sphere is stretched by det A |A⁻¹ s|: as much of it is kept.
        directions = _directions(unit[:, :-1], self.dim)
        points = self.centre + self.semi_axes * directions
        stretched = np.linalg.norm(directions / self.semi_axes, axis=1) * self.semi_axes.min()
        points[unit[:, -1] > stretched] = np.nan
        return points

    def atom_quadrature(self, atom: str, num: int) -> tuple[Points, Float[np.ndarray, " points"]]:
        if atom != "interior" or self.dim != 2:
            return super().atom_quadrature(atom, num)
        # In r² the area is uniform; equal steps are Gauss' rule of a circle.
        num_radii = max(2, round(math.sqrt(num / 4)))
        radii, weights = gauss_points(num_radii, np.ones(1))
        angles = 2 * math.pi * np.arange(4 * num_radii) / (4 * num_radii)
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        points = (np.sqrt(radii)[:, None] * rays[None]).reshape(-1, 2)
        return self.centre + self.semi_axes * points, np.repeat(weights, len(angles)) / len(angles)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        slack = 2 * (self.tolerance if tolerance is None else tolerance)
        return self._radius(self.check_points(points, "contains")) <= 1 + slack

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        gap = self._radius(points) - 1
        if atom == "interior":
            return gap < -2 * tolerance
        near = np.abs(gap) <= 2 * tolerance
        return near if self.dim > 1 else near & ((points[:, 0] < self.centre[0]) == (atom == "left"))

    def atom_normal(self, atom: str, points: Points) -> Points:
        normals = (points - self.centre) / self.semi_axes**2
        return normals / np.linalg.norm(normals, axis=1, keepdims=True)

    def _radius(self, points: Points) -> Float[np.ndarray, " points"]:
        return np.linalg.norm((points - self.centre) / self.semi_axes, axis=1)

    @property
    def _is_ball(self) -> bool:
        return bool(np.all(self.semi_axes == self.semi_axes[0]))


@final
class Ball(AbstractEllipsoid):
    r"""$|x - c| \le r$, in any number of dimensions: `Ball((0, 0), 1)` is the unit disk.

    Its boundary is `"circle"` in the plane, `"sphere"` in space, `"left"` and `"right"` on a line; always `"boundary"` too.
    """

    def __init__(self, centre: Corner, radius: float | int, coordinates: Sequence[str] | None = None):
        if not is_finite_number(radius) or radius <= 0:
            raise ValueError(f"`Ball`: `radius` is a finite number above zero; got {radius!r}.")
        self.radius = float(radius)
        self._set(centre, np.full(np.size(centre), self.radius), coordinates)


@final
class Ellipsoid(AbstractEllipsoid):
    r"""$\sum_a ((x_a - c_a) / s_a)^2 \le 1$ with the semi-axes $s$ along the coordinates: `Ellipsoid((0, 0), (2, 1))`.

    Its boundary is named as that of a `Ball`.
    """

    def __init__(self, centre: Corner, semi_axes: Corner, coordinates: Sequence[str] | None = None):
        axes = vector(semi_axes, "Ellipsoid", "semi_axes")
        if axes.size != np.size(centre) or np.any(axes <= 0):
            raise ValueError(
                f"`Ellipsoid`: `semi_axes` is a length above zero for each of {np.size(centre)} coordinates; got {semi_axes}."
            )
        self._set(centre, axes, coordinates)


def _directions(unit: Float[np.ndarray, "points axes"], dim: int) -> Points:
    """Points of the unit sphere, uniform where those of the unit cube are: by angle and height, beyond space by normals."""
    if dim > 3:
        from scipy.special import ndtri

        normals = ndtri(np.clip(unit, 1e-15, 1 - 1e-15))
        return normals / np.linalg.norm(normals, axis=1, keepdims=True)
    angle = 2 * math.pi * unit[:, 0]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if dim == 2:
        return circle
    height = between(np.full(1, -1.0), np.ones(1), unit[:, 1:2])
    return np.hstack([circle * np.sqrt(1 - height**2), height])
