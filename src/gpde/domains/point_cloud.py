"""Domains known by points alone: a scan, the nodes of another program."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, KDTree

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names, floats
from gpde.domains.sampling import generator, spread


@final
class PointCloud(AbstractDomain):
    """Points of the interior and of the boundary, with outward unit normals where they are known.

    `boundary` is an array, whose part is `"boundary"`, or a mapping from names to arrays; `normals` has the same form. Sampling
    chooses among the points, each at most once: `"uniform"` at random, else so that none are close. A place belongs to the
    domain if a point of the cloud is as near as its points are to each other; where there are normals, which say what lies
    beyond, twice that, and it is not beyond the nearest one.
    """

    def __init__(
        self,
        points: ArrayLike,
        boundary: ArrayLike | Mapping[str, ArrayLike],
        normals: ArrayLike | Mapping[str, ArrayLike] | None = None,
        coordinates: Sequence[str] | None = None,
    ):
        self.points = _table(points, "`points`", None)
        dim = self.points.shape[1]
        self.boundary = _named(boundary, "`boundary`", dim)
        self.normals = None if normals is None else _named(normals, "`normals`", dim)
        for name in self.boundary:
            if name == "interior" or not name:
                raise ValueError(f"`PointCloud`: a part of the boundary is called {name!r}; choose another name.")
        if self.normals is not None:
            self._check_normals(self.normals)
        self.coordinates = coordinate_names(dim, coordinates, "PointCloud")
        self._clouds = {"interior": self.points, **self.boundary}
        every = np.concatenate(list(self._clouds.values()))
        if len(np.unique(every, axis=0)) < len(every):
            raise ValueError(f"`PointCloud`: {len(every) - len(np.unique(every, axis=0))} points are repeated; remove them.")
        self.lower, self.upper = every.min(axis=0), every.max(axis=0)
        if not np.all(self.lower < self.upper):
            raise ValueError("`PointCloud`: all points have one coordinate in common; leave that coordinate out.")
        self._trees = {name: KDTree(cloud) for name, cloud in self._clouds.items()}
        self._all, self._rim = KDTree(every), np.concatenate(list(self.boundary.values()))
        self._rim_tree = KDTree(self._rim)
        self._spacing = float(self._all.query(every, k=min(dim + 1, len(every)))[0][:, -1].max())

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(cloud)} on {name!r}" for name, cloud in self._clouds.items())
        return f"PointCloud({counts})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return tuple(self._clouds)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {} if tuple(self.boundary) == ("boundary",) else {"boundary": tuple(self.boundary)}

    def has_chart(self, atom: str) -> bool:
        return False

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return np.ones(1)

    def atom_measure(self, atom: str) -> float:
        """The share of the points in what their convex hull measures."""
        hull = ConvexHull(self._all.data) if self.dim > 1 else None
        volume, area = (float(np.prod(self.extent)), 2.0) if hull is None else (hull.volume, hull.area)
        return volume if atom == "interior" else area * len(self._clouds[atom]) / len(self._rim)

    def sample_atom(self, atom: str, num: int, sampling: str, seed: int) -> Points:
        cloud = self._clouds[atom]
        if num >= len(cloud):
            return cloud.copy()
        if sampling == "uniform":
            return cloud[generator(seed, atom).permutation(len(cloud))[:num]]
        return cloud[spread(cloud / self.units, num, self.periods)]

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        cloud = self._clouds[atom]
        return cloud[np.minimum((unit[:, 0] * len(cloud)).astype(int), len(cloud) - 1)].copy()

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        slack = (self.tolerance if tolerance is None else tolerance) * float(self.extent.max())
        inside = self._all.query(checked)[0] <= (1 if self.normals is None else 2) * self._spacing + slack
        if self.normals is not None:
            _, nearest = self._rim_tree.query(checked)
            out = np.concatenate(list(self.normals.values()))
            inside &= np.sum((checked - self._rim[nearest]) * out[nearest], axis=1) <= slack
        return inside

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        slack = tolerance * float(self.extent.max())
        if atom == "interior":
            return self.contains(points, tolerance) & (self._rim_tree.query(points)[0] > slack)
        return self._trees[atom].query(points)[0] <= slack

    def atom_normal(self, atom: str, points: Points) -> Points:
        if self.normals is None:
            raise ValueError("`PointCloud`: the normals are not known; give them, as `PointCloud(points, boundary, normals)`.")
        return self.normals[atom][self._trees[atom].query(points)[1]]

    def _check_normals(self, normals: Mapping[str, Points]) -> None:
        if {name: len(n) for name, n in normals.items()} != {name: len(b) for name, b in self.boundary.items()}:
            counts = [{name: len(some) for name, some in each.items()} for each in (normals, self.boundary)]
            raise ValueError(
                f"`PointCloud`: `normals` has one normal for each point of `boundary`; got {counts[0]} for {counts[1]}."
            )
        for name, some in normals.items():
            lengths = np.linalg.norm(some, axis=1)
            if np.any(np.abs(lengths - 1) > 1e-6):
                worst = lengths[np.argmax(np.abs(lengths - 1))]
                raise ValueError(
                    f"`PointCloud`: `normals` have length 1; one on {name!r} has {worst:.6g}. Divide each by its length."
                )


def _table(given: Any, what: str, dim: int | None) -> Points:
    try:
        table = floats(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`PointCloud`: {what} is an array of numbers; got {reprlib.repr(given)}.") from error
    if table.ndim != 2 or not len(table) or table.shape[1] != (dim or table.shape[1]):
        raise ValueError(f"`PointCloud`: {what} has shape (num, {dim or 'dim'}) with num >= 1; got {np.shape(table)}.")
    if not np.isfinite(table).all():
        raise ValueError(f"`PointCloud`: {what} holds {np.sum(~np.isfinite(table))} values that are not finite.")
    table.setflags(write=False)
    return table


def _named(given: Any, what: str, dim: int) -> dict[str, Points]:
    named = given if isinstance(given, Mapping) else {"boundary": given}
    return {str(name): _table(some, f"{what} on {name!r}", dim) for name, some in named.items()}
