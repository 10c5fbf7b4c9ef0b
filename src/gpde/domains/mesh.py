"""Domains given by a mesh of another program: nodes, cells and tags, read by meshio."""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names
from gpde.domains.sampling import between

# By what meshio calls them: the dimension, and the corners of the simplices that make them up; middle nodes come after.
_CELLS = {
    "triangle": (2, [[0, 1, 2]]),
    "quad": (2, [[0, 1, 2], [0, 2, 3]]),
    "tetra": (3, [[0, 1, 2, 3]]),
    "line": (1, [[0, 1]]),
}
_UNTAGGED = "untagged"
_TAGS = ("gmsh:physical", "medit:ref", "cell_tags", "CellEntityIds")


class Cells(NamedTuple):
    """Nodes, simplices, and the facets of each part of the boundary."""

    nodes: Float[np.ndarray, "nodes dim"]
    simplices: Int[np.ndarray, "cells corners"]
    facets: Mapping[str, Int[np.ndarray, "facets corners"]]


@final
class Mesh(AbstractDomain):
    """What the triangles or tetrahedra of a mesh fill: `Mesh("wing.msh")`, in any format that meshio reads.

    Parts of the boundary are the tagged groups of its edges or faces, by the names that the file has for them, else `"tag3"` by
    number; what has no tag is `"untagged"`. `names` says what to call tags: `names={"inflow": 3}`. A solution's file keeps the
    mesh whole, as nodes and cells.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | tuple[Any, ...],
        names: Mapping[str, int] | None = None,
        coordinates: Sequence[str] | None = None,
    ):
        if not isinstance(file, str | os.PathLike | tuple):
            raise ValueError(f"`Mesh`: `file` is the path of a file that meshio reads, as 'wing.msh'; got {file!r}.")
        self.names = None if names is None else dict(names)
        cells = Cells(*file) if isinstance(file, tuple) else _read(Path(file), self.names or {})
        self.file = tuple(cells)
        self._nodes, self._facets = cells.nodes, dict(cells.facets)
        self.coordinates = coordinate_names(self._nodes.shape[1], coordinates, "Mesh")
        self._cells = _Simplices(self._nodes, cells.simplices)
        self.lower, self.upper = self._cells.corners.min(axis=(0, 1)), self._cells.corners.max(axis=(0, 1))
        self._sides = {name: _Simplices(self._nodes, facets) for name, facets in self._facets.items()}
        inner = _opposite(cells.simplices, self._facets)
        self._normals = {name: _normals(self._nodes, facets, inner[name]) for name, facets in self._facets.items()}
        self._bins = _Bins(self._cells)

    def __repr__(self) -> str:
        return f"Mesh({len(self._nodes)} nodes, {len(self._cells.measure)} cells, parts {', '.join(self._facets)})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *self._facets)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {"boundary": tuple(self._facets)}

    def has_chart(self, atom: str) -> bool:
        return atom == "interior" or self.dim == 2

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent if atom == "interior" else np.full(self.dim - 1, self.atom_measure(atom) ** (1 / (self.dim - 1)))

    def atom_measure(self, atom: str) -> float:
        return float((self._cells if atom == "interior" else self._sides[atom]).measure.sum())

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        return self.place_in_box(unit) if atom == "interior" else self._sides[atom].at(unit)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        slack = (self.tolerance if tolerance is None else tolerance) * float(self.extent.max())
        inside = self._bins.hold(checked)
        if slack > 0:
            near = np.flatnonzero(~inside)
            inside[near] = np.any([side.near(checked[near], slack) for side in self._sides.values()], axis=0)
        return inside

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        slack = tolerance * float(self.extent.max())
        if atom != "interior":
            return self._sides[atom].near(points, slack)
        inside = self._bins.hold(points)
        there = np.flatnonzero(inside)
        inside[there] = ~np.any([side.near(points[there], slack) for side in self._sides.values()], axis=0)
        return inside

    def atom_normal(self, atom: str, points: Points) -> Points:
        return self._normals[atom][self._sides[atom].nearest(points)]


class _Simplices:
    """Simplices of one dimension in space: their measures, points on them, which are near."""

    def __init__(self, nodes: Points, index: Int[np.ndarray, "cells corners"]):
        self.corners = nodes[index]
        edges = self.corners[:, 1:] - self.corners[:, :1]
        gram = np.einsum("cid,cjd->cij", edges, edges)
        self.measure = np.sqrt(np.maximum(np.linalg.det(gram), 0.0)) / math.factorial(edges.shape[1])
        # A point's coordinates along the edges, the projection onto the plane of the simplex where it is a facet.
        self.inverse = np.einsum("cij,cjd->cid", np.linalg.pinv(gram, hermitian=True), edges)
        self.centres, self.radius = self.corners.mean(axis=1), np.linalg.norm(edges, axis=2).max(initial=0.0)
        self.ends = np.cumsum(self.measure)

    def at(self, unit: Float[np.ndarray, "points axes"]) -> Points:
        """Uniform points: the first coordinate chooses the simplex, what is left of it is a coordinate again."""
        place = self.ends[-1] * unit[:, 0]
        index = np.minimum(np.searchsorted(self.ends, place, side="right"), len(self.ends) - 1)
        first = (place - (self.ends[index] - self.measure[index])) / self.measure[index]
        axes = np.column_stack([first, unit[:, 1:]])
        axes = between(np.zeros(axes.shape[1]), np.ones(axes.shape[1]), axes)
        if axes.shape[1] == 1:
            weights = np.column_stack([1 - axes[:, 0], axes[:, 0]])
        else:
            root = np.sqrt(axes[:, 0])
            weights = np.column_stack([1 - root, root * (1 - axes[:, 1]), root * axes[:, 1]])
        return np.einsum("pc,pcd->pd", weights, self.corners[index])

    def weights(self, points: Points, index: Int[np.ndarray, " points"]) -> Float[np.ndarray, "points corners"]:
        """The barycentric coordinates of each point in a simplex of its own."""
        along = np.einsum("pid,pd->pi", self.inverse[index], points - self.corners[index, 0])
        return np.column_stack([1 - along.sum(axis=1), along])

    def distance(self, points: Points, cell: int) -> Float[np.ndarray, " points"]:
        """To one simplex, exact on it and near it."""
        weights = np.maximum(self.weights(points, np.full(len(points), cell)), 0.0)
        nearest = (weights / weights.sum(axis=1, keepdims=True)) @ self.corners[cell]
        return np.linalg.norm(points - nearest, axis=1)

    def near(self, points: Points, slack: float) -> Mask:
        """Which points lie on some simplex, up to `slack`."""
        out = np.zeros(len(points), dtype=bool)
        for cell in range(len(self.measure)):
            some = np.flatnonzero(~out & (np.linalg.norm(points - self.centres[cell], axis=1) <= self.radius + slack))
            if len(some):
                out[some] = self.distance(points[some], cell) <= slack
        return out

    def nearest(self, points: Points) -> Int[np.ndarray, " points"]:
        return np.argmin([self.distance(points, cell) for cell in range(len(self.measure))], axis=0)


class _Bins:
    """Cells by the boxes of a grid that they reach into, so that a point asks few of them."""

    def __init__(self, cells: _Simplices):
        self._cells = cells
        low, high = cells.corners.min(axis=1), cells.corners.max(axis=1)
        self._lower, dim = low.min(axis=0), low.shape[1]
        extent = high.max(axis=0) - self._lower
        self._shape = np.full(dim, max(1, min(round(len(low) ** (1 / dim)), 200)))
        self._size = extent / self._shape
        first, last = self._place(low), self._place(high)
        lists: dict[int, list[int]] = {}
        for cell, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            for box in itertools.product(*(range(i, j + 1) for i, j in zip(a, b, strict=True))):
                lists.setdefault(int(np.ravel_multi_index(box, tuple(self._shape))), []).append(cell)
        self._lists = {box: np.array(some) for box, some in lists.items()}

    def _place(self, points: Points) -> Int[np.ndarray, "points dim"]:
        return np.clip(((points - self._lower) / self._size).astype(int), 0, self._shape - 1)

    def hold(self, points: Points) -> Mask:
        """Which points lie in some cell."""
        out = np.zeros(len(points), dtype=bool)
        finite = np.flatnonzero(np.isfinite(points).all(axis=1))
        boxes = np.atleast_1d(np.ravel_multi_index(tuple(self._place(points[finite]).T), tuple(self._shape)))
        order = np.argsort(boxes, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(boxes[order])) + 1) if len(order) else []:
            cells = self._lists.get(int(boxes[some[0]]), np.zeros(0, dtype=int))
            if len(cells):
                rows = finite[some]
                weights = self._cells.weights(np.repeat(points[rows], len(cells), axis=0), np.tile(cells, len(rows)))
                out[rows] = np.any(np.all(weights >= -1e-12, axis=1).reshape(len(rows), len(cells)), axis=1)
        return out


def _read(path: Path, names: Mapping[str, int]) -> Cells:
    import meshio

    if not path.is_file():
        raise ValueError(f"`Mesh`: there is no file '{path}'.")
    try:
        mesh = meshio.read(path)
    except (meshio.ReadError, SystemExit, KeyError, ValueError, IndexError, OSError) as error:
        raise ValueError(f"`Mesh`: meshio cannot read '{path}' ({type(error).__name__}: {error}).") from error
    blocks = [(*_simplices(block.type, block.data), _tags(mesh, i)) for i, block in enumerate(mesh.cells)]
    dim = max((d for d, _, _ in blocks), default=0)
    if dim < 2:
        kinds = ", ".join(dict.fromkeys(block.type for block in mesh.cells)) or "nothing"
        raise ValueError(f"`Mesh`: '{path}' has {kinds}; triangles, quadrilaterals or tetrahedra are needed.")
    nodes = np.asarray(mesh.points, dtype=np.float64)
    if nodes.shape[1] > dim and np.ptp(nodes[:, dim:], axis=0).max() > 1e-12 * np.ptp(nodes):
        raise ValueError(f"`Mesh`: '{path}' is a surface in space; a domain is flat, or made of tetrahedra.")
    nodes = nodes[:, :dim]
    simplices = np.concatenate([data for d, data, _ in blocks if d == dim])
    facets, known = _boundary(simplices), {}
    for d, data, tags in blocks:
        if d == dim - 1:
            known |= {tuple(sorted(row)): int(tag) for row, tag in zip(data.tolist(), tags.tolist(), strict=True)}
    called = {number: name for name, number in names.items()}
    for name, (number, of_dim) in {n: (int(v[0]), int(v[1])) for n, v in mesh.field_data.items() if len(v) == 2}.items():
        if of_dim == dim - 1:
            called.setdefault(number, name)
    there = {known[tuple(sorted(row))] for row in facets.tolist() if tuple(sorted(row)) in known}
    for name, number in names.items():
        if number not in there:
            has = ", ".join(map(str, sorted(there))) or "none"
            raise ValueError(f"`Mesh`: `names` calls the tag {number} {name!r}, but the boundary of '{path}' has {has}.")
    groups: dict[str, list[list[int]]] = {}
    for row in facets.tolist():
        number = known.get(tuple(sorted(row)), 0)
        groups.setdefault(called.get(number, f"tag{number}" if number else _UNTAGGED), []).append(row)
    if "interior" in groups or "boundary" in groups:
        raise ValueError("`Mesh`: a tag is called 'interior' or 'boundary', which stand for all; call it otherwise by `names`.")
    return Cells(nodes, simplices, {name: np.array(rows) for name, rows in groups.items()})


def _simplices(kind: str, data: np.ndarray) -> tuple[int, np.ndarray]:
    name = kind.rstrip("0123456789")
    if kind in ("vertex", "point"):
        return 0, data
    if name not in _CELLS:
        raise ValueError(f"`Mesh`: cells of the kind {kind!r} are not known; known are {', '.join(_CELLS)}.")
    dim, pieces = _CELLS[name]
    return dim, np.stack([data[:, piece] for piece in pieces], axis=1).reshape(-1, dim + 1)


def _tags(mesh: Any, block: int) -> np.ndarray:
    """The tag of each simplex of a block; zero where there are none."""
    kind = mesh.cells[block].type.rstrip("0123456789")
    times = len(_CELLS[kind][1]) if kind in _CELLS else 1
    found = next((mesh.cell_data[name][block] for name in _TAGS if name in mesh.cell_data), None)
    return np.zeros(times * len(mesh.cells[block].data), dtype=int) if found is None else np.repeat(np.ravel(found), times)


def _boundary(simplices: np.ndarray) -> np.ndarray:
    """The facets that belong to one cell alone."""
    corners = simplices.shape[1]
    facets = np.concatenate([np.delete(simplices, k, axis=1) for k in range(corners)])
    _, first, count = np.unique(np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True)
    return facets[np.sort(first[count == 1])]


def _opposite(simplices: np.ndarray, facets: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """For each facet the corner of its cell that is not on it, which lies inside."""
    corner = {tuple(sorted(np.delete(row, k).tolist())): int(row[k]) for row in simplices for k in range(len(row))}
    return {name: np.array([corner[tuple(sorted(row))] for row in rows.tolist()]) for name, rows in facets.items()}


def _normals(nodes: np.ndarray, facets: np.ndarray, inner: np.ndarray) -> Float[np.ndarray, "facets dim"]:
    edges = nodes[facets[:, 1:]] - nodes[facets[:, :1]]
    if nodes.shape[1] == 2:
        normals = np.stack([edges[:, 0, 1], -edges[:, 0, 0]], axis=1)
    else:
        normals = np.cross(edges[:, 0], edges[:, 1])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    inward = np.sum(normals * (nodes[inner] - nodes[facets[:, 0]]), axis=1) > 0
    return np.where(inward[:, None], -normals, normals)
