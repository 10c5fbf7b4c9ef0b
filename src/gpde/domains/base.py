"""What every domain can say about itself. Other code uses these methods and nothing else."""

import abc
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from gpde.domains.sampling import SAMPLINGS, count, generator, split, unit_points

Points = Float[np.ndarray, "points dim"]
Mask = Bool[np.ndarray, " points"]


class AbstractDomain(abc.ABC):
    """A region whose parts have names: the interior, the pieces of its boundary, and unions of them.

    A new geometry gives the abstract members below, each for *atomic* parts; names, unions, sampling and checks follow.
    """

    # --- what a geometry gives

    @property
    @abc.abstractmethod
    def lower(self) -> Float[np.ndarray, " dim"]:
        """Lower corner of the bounding box."""

    @property
    @abc.abstractmethod
    def upper(self) -> Float[np.ndarray, " dim"]:
        """Upper corner of the bounding box."""

    @property
    @abc.abstractmethod
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates, for people: `("x", "y")`, `("t", "x")`."""

    @property
    @abc.abstractmethod
    def atoms(self) -> tuple[str, ...]:
        """The parts that are not unions of others, `"interior"` first."""

    @property
    @abc.abstractmethod
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        """The names that stand for several atoms: `{"boundary": ("left", "right")}`."""

    @abc.abstractmethod
    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        """Lengths of the atom along its own axes: as many as it has dimensions, none if it is a single point."""

    @abc.abstractmethod
    def atom_measure(self, atom: str) -> float:
        """Volume, area or length of the atom; 1 for a single point."""

    @abc.abstractmethod
    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        """Carries points of the unit cube to the atom so that uniform stays uniform; never onto the atom's own edge."""

    @abc.abstractmethod
    def contains(self, points: ArrayLike, tolerance: float = 1e-9) -> Mask:
        """Which points lie in the closed domain, up to `tolerance` times its extent."""

    @abc.abstractmethod
    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        """Which points lie on the (closed) atom; the interior is without its boundary."""

    @abc.abstractmethod
    def atom_normal(self, atom: str, points: Points) -> Points:
        """Outward unit normals at points of an atom of the boundary."""

    # --- what follows from it

    def arguments(self) -> dict[str, Any] | None:
        """What the constructor was given, by name; None if an argument is not an attribute of that name.

        A domain that keeps its arguments so can be written to a file.
        """
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names} if all(hasattr(self, name) for name in names) else None

    def __repr__(self) -> str:
        arguments = self.arguments()
        inside = "..." if arguments is None else ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({inside})"

    @property
    def dim(self) -> int:
        """Number of coordinates of a point."""
        return len(self.lower)

    @property
    def extent(self) -> Float[np.ndarray, " dim"]:
        """Lengths of the bounding box."""
        return self.upper - self.lower

    @property
    def parts(self) -> tuple[str, ...]:
        """Every name on which an equation may hold."""
        return (self.atoms[0], *self.unions, *self.atoms[1:])

    def covers(self, part: str) -> tuple[str, ...]:
        """The atoms a name stands for: all sides for `"boundary"`, itself for a side."""
        if part in self.unions:
            return self.unions[part]
        if part in self.atoms:
            return (part,)
        raise ValueError(f"{self!r} has no part {part!r}; its parts are {', '.join(map(repr, self.parts))}.")

    def measure(self, part: str) -> float:
        """Volume, area or length of a part; the number of points where it is points."""
        return sum(self.atom_measure(atom) for atom in self.covers(part))

    def atom_share(self, atom: str) -> float:
        """The atom's measure where lengths are in units of the domain: what points are shared out by.

        As it stands here all coordinates are lengths of one kind; a geometry whose axes have units of their own knows better.
        """
        unit = np.prod(self.extent) ** (1 / self.dim)
        return self.atom_measure(atom) / unit ** len(self.atom_extent(atom))

    def sample(self, part: str, num: int, *, sampling: str = "uniform", seed: int = 0) -> Points:
        """`num` points on a part, the same for the same seed, strictly inside it: off the boundary, off the corners.

        - `"uniform"`: independent and uniform.
        - `"sobol"`, `"halton"`: low-discrepancy sequences, scrambled with the seed.
        - `"grid"`: cell centres of a tensor grid of about square cells; where `num` does not factor into one, rows
          whose lengths differ by one. The seed plays no part.

        A union shares `num` out over its atoms in proportion to `atom_share`, whatever the units of the axes. An atom that is
        a single point (an end of an interval) gives that point once however many are asked for: a repeated point makes a
        Gram matrix singular.
        """
        atoms = self.covers(part)
        if sampling not in SAMPLINGS:
            raise ValueError(f"`sample`: `sampling` is {sampling!r}; it is one of {', '.join(map(repr, SAMPLINGS))}.")
        shares = split(count(num, "sample"), [self.atom_share(atom) for atom in atoms])
        return np.concatenate([self._sample_atom(*each, sampling, seed) for each in zip(atoms, shares, strict=True)])

    def _sample_atom(self, atom: str, num: int, sampling: str, seed: int) -> Points:
        extent = self.atom_extent(atom)
        num = num if len(extent) else min(num, 1)
        return self.place(atom, unit_points(num, extent, sampling=sampling, rng=generator(seed, atom)))

    def on_part(self, part: str, points: ArrayLike, tolerance: float = 1e-9) -> Mask:
        """Which points lie on a part, up to `tolerance` times the extent of the domain."""
        checked = self.check_points(points, "on_part")
        return np.any([self.on_atom(atom, checked, tolerance) for atom in self.covers(part)], axis=0)

    def normal(self, part: str, points: ArrayLike, tolerance: float = 1e-9) -> Points:
        """Outward unit normals at points of the boundary; in a corner, that of the first side named."""
        atoms, checked = self.covers(part), self.check_points(points, "normal")
        if "interior" in atoms:
            raise ValueError("`normal`: the interior has no normal; name a part of the boundary.")
        normals, missing = np.zeros_like(checked), np.ones(len(checked), dtype=bool)
        for atom in atoms:
            here = missing & self.on_atom(atom, checked, tolerance)
            normals[here] = self.atom_normal(atom, checked[here])
            missing &= ~here
        if missing.any():
            first = checked[missing][0].tolist()
            raise ValueError(f"`normal`: {missing.sum()} of {len(checked)} points are not on {part!r}; one is {first}.")
        return normals

    def grid(self, shape: Sequence[int]) -> Points:
        """The tensor grid of `shape` over the closed bounding box, last coordinate fastest."""
        sizes = [count(size, "grid", "shape") for size in shape]
        if len(sizes) != self.dim or min(sizes) < 1:
            raise ValueError(f"`grid`: `shape` has one size, 1 or more, for each of {self.coordinates}; got {tuple(shape)}.")
        axes = [np.linspace(*ends) for ends in zip(self.lower, self.upper, sizes, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    def test_points(self, shape: Sequence[int]) -> Points:
        """The points of `grid` that lie in the closed domain; where it slips between them, as many points of its interior."""
        points = self.grid(shape)
        inside = points[self.contains(points)]
        return inside if len(inside) else self.sample("interior", len(points), sampling="sobol")

    def check_points(self, points: ArrayLike, call: str) -> Points:
        """`points` as a float64 array `(num, dim)`, or an error that names the call."""
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise ValueError(f"`{call}`: points have shape (num, {self.dim}) in {self!r}; got {array.shape}.")
        return array
