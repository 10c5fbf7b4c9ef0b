"""Polygons, with holes: shapely says what lies inside."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import lazy_loader
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names, floats
from gpde.domains.sampling import between, gauss_points

if TYPE_CHECKING:
    import shapely
else:
    shapely = lazy_loader.load("shapely")  # on first use: most problems have no polygon

Ring = Float[np.ndarray, "vertices 2"]
Vertices = np.ndarray | Sequence[Sequence[float | int] | np.ndarray]


@final
class Polygon(AbstractDomain):
    """A polygon by its vertices in order, either way round: `Polygon([(0, 0), (1, 0), (0, 1)])`.

    Its sides are `"side0"` (from the first vertex to the second), `"side1"`, and so on. `holes` are polygons cut out, a list
    (`"hole0"`, `"hole1"`, ...) or a mapping from names; `"outer"` are then the sides without the holes, `"boundary"` is all.
    """

    def __init__(
        self,
        vertices: Vertices,
        holes: Sequence[Vertices] | Mapping[str, Vertices] = (),
        coordinates: Sequence[str] | None = None,
    ):
        self.vertices = _ring(vertices, "`vertices`")
        first: Any = None if isinstance(holes, Mapping) or not len(holes) else holes[0]
        if first is not None and np.ndim(first) == 1:
            raise ValueError("`Polygon`: `holes` is a list of polygons, also for one: `holes=[[(x, y), (x, y), (x, y)]]`.")
        named = holes if isinstance(holes, Mapping) else {f"hole{i}": hole for i, hole in enumerate(holes)}
        self.holes = {name: _ring(hole, f"the hole {name!r}") for name, hole in named.items()}
        self.lower, self.upper = self.vertices.min(axis=0), self.vertices.max(axis=0)
        self.coordinates = coordinate_names(2, coordinates, "Polygon")
        self._sides = [f"side{i}" for i in range(len(self.vertices))]
        for name in self.holes:
            if name in ("interior", "boundary", "outer", *self._sides) or not isinstance(name, str):
                raise ValueError(f"`Polygon`: a hole is called {name!r}, which is a part already; choose another name.")
        outer = shapely.Polygon(self.vertices)
        for name, hole in self.holes.items():
            if not shapely.contains_properly(outer, shapely.Polygon(hole)):
                raise ValueError(f"`Polygon`: the hole {name!r} does not lie inside the polygon; holes leave its sides alone.")
        self._shape = shapely.Polygon(self.vertices, list(self.holes.values()))
        if not self._shape.is_valid:
            raise ValueError(f"`Polygon`: the holes touch or overlap ({shapely.is_valid_reason(self._shape)}); make them one.")
        shapely.prepare(self._shape)
        # Every atom of the boundary as segments: begin, direction, length, and the way out.
        rings = {name: (self.vertices[i : i + 1], self.vertices[(i + 1) % len(self.vertices)][None], _turn(self.vertices))
                 for i, name in enumerate(self._sides)}  # fmt: skip
        rings |= {name: (hole, np.roll(hole, -1, axis=0), -_turn(hole)) for name, hole in self.holes.items()}
        self._segments = {name: _Segments(*ring) for name, ring in rings.items()}

    def __repr__(self) -> str:
        corners = ", ".join(f"({x:g}, {y:g})" for x, y in self.vertices[:8])
        more = ", ..." if len(self.vertices) > 8 else ""
        holes = f", holes: {', '.join(self.holes)}" if self.holes else ""
        return f"Polygon([{corners}{more}]{holes})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *self._segments)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        outer = {"outer": tuple(self._sides)} if self.holes else {}
        return {"boundary": tuple(self._segments), **outer}

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent if atom == "interior" else np.array([self.atom_measure(atom)])

    def atom_measure(self, atom: str) -> float:
        return float(self._shape.area) if atom == "interior" else float(self._segments[atom].ends[-1])

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        return self.place_in_box(unit) if atom == "interior" else self._segments[atom].at(unit[:, 0])

    def atom_quadrature(self, atom: str, num: int) -> tuple[Points, Float[np.ndarray, " points"]]:
        if atom != "interior":
            return super().atom_quadrature(atom, num)
        triangles: Any = shapely.constrained_delaunay_triangles(self._shape)
        corners = np.array([np.array(triangle.exterior.coords)[:3] for triangle in triangles.geoms])
        # Gauss' rule of the square, folded to a triangle: (s, t) goes to a + s (b - a) + s t (c - b), of area 2 s.
        unit, weights = gauss_points(max(4, num // len(corners)), np.ones(2))
        s, t = unit[None, :, :1], unit[None, :, 1:]
        a, b, c = (corners[:, k, None, :] for k in range(3))
        areas = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 2
        own = areas[:, None] * (2 * unit[:, 0] * weights)[None]
        return (a + s * (b - a) + s * t * (c - b)).reshape(-1, 2), (own / own.sum()).reshape(-1)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        slack = (self.tolerance if tolerance is None else tolerance) * self.extent.max()
        inside = shapely.contains_xy(self._shape, checked)
        inside[~inside] = shapely.distance(self._shape, shapely.points(checked[~inside])) <= slack
        return inside

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        slack = tolerance * self.extent.max()
        if atom != "interior":
            return self._segments[atom].distances(points).min(axis=0) <= slack
        inside = shapely.contains_xy(self._shape, points)
        inside[inside] = shapely.distance(self._shape.boundary, shapely.points(points[inside])) > slack
        return inside

    def atom_normal(self, atom: str, points: Points) -> Points:
        return self._segments[atom].normal(points)


class _Segments:
    """A chain of segments, by its arc length."""

    def __init__(self, begin: Ring, end: Ring, turn: float):
        self.begin, along = begin, end - begin
        lengths = np.linalg.norm(along, axis=1)
        self.lengths, self.direction = lengths, along / lengths[:, None]
        self.ends = np.cumsum(lengths)
        self.normals = turn * np.stack([self.direction[:, 1], -self.direction[:, 0]], axis=1)
        self.lines: Any = shapely.linestrings(np.stack([begin, end], axis=1))

    def at(self, unit: Float[np.ndarray, " points"]) -> Points:
        """The points at these shares of the length, off the corners."""
        place = self.ends[-1] * unit
        index = np.minimum(np.searchsorted(self.ends, place, side="right"), len(self.ends) - 1)
        share = (place - (self.ends[index] - self.lengths[index])) / self.lengths[index]
        share = between(np.zeros(1), np.ones(1), share[:, None])
        return self.begin[index] + share * (self.lengths[index, None] * self.direction[index])

    def distances(self, points: Points) -> Float[np.ndarray, "segments points"]:
        places: Any = shapely.points(points)
        return shapely.distance(self.lines[:, None], places[None])

    def normal(self, points: Points) -> Points:
        """That of the nearest segment."""
        return self.normals[np.argmin(self.distances(points), axis=0)]


def _ring(given: Any, what: str) -> Ring:
    try:
        ring = floats(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`Polygon`: {what} are three or more points (x, y) of numbers; got {reprlib.repr(given)}.") from error
    if ring.ndim == 2 and len(ring) > 1 and np.array_equal(ring[0], ring[-1]):
        ring = ring[:-1]
    if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3:
        raise ValueError(f"`Polygon`: {what} are three or more points (x, y); got an array of shape {np.shape(ring)}.")
    if not np.isfinite(ring).all():
        raise ValueError(f"`Polygon`: {what} hold {np.sum(~np.isfinite(ring))} values that are not finite.")
    if np.any(np.all(ring == np.roll(ring, 1, axis=0), axis=1)):
        raise ValueError(f"`Polygon`: {what} hold the same point twice in a row; leave one out.")
    if _on_a_line(ring):
        raise ValueError(f"`Polygon`: {what} lie on a line, so that the polygon has no area. Check their coordinates.")
    shape = shapely.Polygon(ring)
    if not shape.is_valid:
        raise ValueError(
            f"`Polygon`: {what} go round a polygon that crosses or touches itself ({shapely.is_valid_reason(shape)}). "
            "Check the order of the vertices."
        )
    ring.setflags(write=False)
    return ring


def _on_a_line(ring: Ring) -> bool:
    """Up to rounding, whatever the units of the coordinates. An area would not tell: that of an eight is zero too."""
    span = np.ptp(ring, axis=0)
    if not span.all():
        return True
    long, across = np.linalg.svd((ring - ring[0]) / span, compute_uv=False)
    rounding = 8 * np.finfo(np.float64).eps * np.max(np.abs(ring) / span)
    return bool(across <= max(1e-14, rounding) * long)


def _turn(ring: Ring) -> float:
    """1 if the ring goes round against the clock, so that its right-hand side is outside; else -1."""
    return 1.0 if shapely.LinearRing(ring).is_ccw else -1.0
