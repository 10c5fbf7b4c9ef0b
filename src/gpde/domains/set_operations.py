r"""Unions, intersections and differences of domains.

A point of an operand's boundary is on the boundary of the whole where one step along the normal, a millionth of the extent,
leads out of it and the step back leads in. That also settles sides that two operands share.
"""

import abc
import functools
from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, point_text
from gpde.domains.pieces import AbstractPieces, Source, share_of
from gpde.domains.sampling import acceptance, trial
from gpde.domains.spacetime import SpaceTime

STEP = 1e-6
Images = Float[np.ndarray, "images dim"]


class AbstractSetOperation(AbstractPieces):
    """Two domains made one. Parts keep the operands' names; where both have one, the second's gets a number: `"circle2"`."""

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        name = type(self).__name__
        if first.dim != second.dim:
            raise ValueError(
                f"`{name}`: the operands have {first.dim} and {second.dim} coordinates; give two of one dimension."
            )
        if any(operand.atoms[0] != "interior" for operand in (first, second)):
            raise ValueError(f"`{name}`: operands are domains in one piece; write `Divided(a - b, region)`.")
        if isinstance(first, SpaceTime) or isinstance(second, SpaceTime):
            raise ValueError(f"`{name}`: operands are domains in space; write `SpaceTime(a - b, start, stop)`.")
        if np.isfinite(second.periods).any() or (np.isfinite(first.periods).any() and not isinstance(self, Difference)):
            raise ValueError(f"`{name}`: of a domain with periodic coordinates only a difference can be taken, as its first.")
        self.first, self.second = first, second
        self.tolerance = max(first.tolerance, second.tolerance)
        self.lower, self.upper = self._box()
        self.coordinates = first.coordinates
        self._operands = first, self._taken()
        # Each atom of the boundary: which operand it comes from, its name there, and how much of it is left.
        self._atoms: dict[str, tuple[int, str, float]] = {}
        self._filled = acceptance(trial(self.extent, self.place_in_box)) if np.all(self.lower < self.upper) else 0.0
        if not self._filled:
            raise ValueError(f"`{name}`: {first!r} and {second!r} leave nothing; check where they lie.")
        reserved = {"interior", *first.parts}
        new = [{atom: _free(_special(atom), set(first.parts) - {atom}) for atom in first.atoms}, {}]
        for atom in second.atoms[1:]:
            new[1][atom] = _free(_special(atom), {*reserved, *new[0].values(), *new[1].values(), *second.unions})
        left = {
            new[i][old]: (i, old, share_of(domain, old, functools.partial(self._on_boundary, i, old), log2=14))
            for i, domain in enumerate(self._operands)
            for old in domain.atoms[1:]
        }
        self._atoms = {atom: source for atom, source in left.items() if source[2] > 0}
        self._unions: dict[str, tuple[str, ...]] = {"boundary": tuple(self._atoms)}
        for i, domain in enumerate(self._operands):
            for union, atoms in domain.unions.items():
                there = tuple(new[i][atom] for atom in atoms if new[i][atom] in self._atoms)
                if union != "boundary" and there:
                    self._unions[_free(union, {*self._unions, *left, "interior"})] = there

    def _taken(self) -> AbstractDomain:
        """The second operand as it is taken here."""
        return self.second

    @abc.abstractmethod
    def _box(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
        """The corners of a box around the result."""

    # 1 if the normals of the second operand point out of the result too, else -1.
    _second_outward: float = 1.0

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        return self.first.periods

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", *self._atoms)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return self._unions

    def source(self, atom: str) -> Source:
        number, old, share = self._atoms[atom]
        return Source(self._operands[number], old, share)

    def keeps(self, atom: str, points: Points) -> Mask:
        number, old, _ = self._atoms[atom]
        return self._on_boundary(number, old, points)

    # The interior is a piece of no operand, but what is kept of the box around it.
    def has_chart(self, atom: str) -> bool:
        return atom == "interior" or super().has_chart(atom)

    def atom_dim(self, atom: str) -> int:
        return self.dim if atom == "interior" else super().atom_dim(atom)

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent if atom == "interior" else super().atom_extent(atom)

    def atom_measure(self, atom: str) -> float:
        return self._filled * float(np.prod(self.extent)) if atom == "interior" else super().atom_measure(atom)

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        return self.place_in_box(unit) if atom == "interior" else super().place(atom, unit)

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        return self._strictly_inside(points, tolerance) if atom == "interior" else super().on_atom(atom, points, tolerance)

    @abc.abstractmethod
    def _strictly_inside(self, points: Points, tolerance: float) -> Mask: ...

    def atom_normal(self, atom: str, points: Points) -> Points:
        number, old, _ = self._atoms[atom]
        return self._normal(number, old, points)

    def _normal(self, number: int, old: str, points: Points) -> Points:
        return (self._second_outward if number else 1.0) * self._operands[number].atom_normal(old, points)

    def _on_boundary(self, number: int, old: str, points: Points) -> Mask:
        if not len(points):
            return np.zeros(0, dtype=bool)
        step = STEP * float(self.extent.max()) * self._normal(number, old, points)
        out = self.contains(points - step, 0.0) & ~self.contains(points + step, 0.0)
        if number == 1:  # what both share is the first's
            for atom in self.first.sides:
                out &= ~self.first.on_part(atom, points)
        return out


def _special(atom: str) -> str:
    """The name of an atom among others: where `"boundary"` is one, as of a cloud, it is that of all together from here on."""
    return "cloud" if atom == "boundary" else atom


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free


@final
class Union(AbstractSetOperation):
    r"""$A \cup B$, written `a | b`."""

    def __repr__(self) -> str:
        return f"({self.first!r} | {self.second!r})"

    def _box(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
        return np.minimum(self.first.lower, self.second.lower), np.maximum(self.first.upper, self.second.upper)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.first.contains(points, tolerance) | self.second.contains(points, tolerance)

    def _strictly_inside(self, points: Points, tolerance: float) -> Mask:
        out = self.first.on_part("interior", points, tolerance) | self.second.on_part("interior", points, tolerance)
        # On the boundary of both: inside where the two fit together, as boxes side by side.
        seam = ~out & self.first.contains(points, tolerance) & self.second.contains(points, tolerance)
        for atom in self._atoms:
            seam[seam] = ~self.on_atom(atom, points[seam], tolerance)
        return out | seam


@final
class Intersection(AbstractSetOperation):
    r"""$A \cap B$, written `a & b`."""

    def __repr__(self) -> str:
        return f"({self.first!r} & {self.second!r})"

    def _box(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
        return np.maximum(self.first.lower, self.second.lower), np.minimum(self.first.upper, self.second.upper)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.first.contains(points, tolerance) & self.second.contains(points, tolerance)

    def _strictly_inside(self, points: Points, tolerance: float) -> Mask:
        return self.first.on_part("interior", points, tolerance) & self.second.on_part("interior", points, tolerance)


@final
class Difference(AbstractSetOperation):
    r"""$A \setminus B$ with its boundary, written `a - b`. Where $A$ is periodic, so is what is taken away."""

    _second_outward = -1.0

    def __repr__(self) -> str:
        return f"({self.first!r} - {self.second!r})"

    def _box(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
        return self.first.lower, self.first.upper

    def _taken(self) -> AbstractDomain:
        if np.isinf(self.periods).all():
            return self.second
        for axis in np.flatnonzero(np.isfinite(self.periods)):
            self._check_seam(int(axis))
        return _Repeated(self.second, self.lower, self.periods)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.first.contains(points, tolerance) & ~self._operands[1].on_part("interior", points, tolerance)

    def _strictly_inside(self, points: Points, tolerance: float) -> Mask:
        return self.first.on_part("interior", points, tolerance) & ~self._operands[1].contains(points, tolerance)

    def _check_seam(self, axis: int) -> None:
        """Refuses a second operand that reaches over the ends of a periodic coordinate: its sides would lie elsewhere."""
        low, high, slack = self.second.lower[axis], self.second.upper[axis], self.tolerance * self.extent[axis]
        if self.lower[axis] - slack <= low and high <= self.upper[axis] + slack:
            return
        period, name = self.periods[axis], self.coordinates[axis]
        lower, upper, middle = self.lower.copy(), self.upper.copy(), (low + high) / 2
        lower[axis], upper[axis] = middle - period / 2, middle + period / 2
        circles = tuple(c for c, p in zip(self.coordinates, self.periods, strict=True) if np.isfinite(p))
        shifted = f"Shift the box, as `Box({point_text(lower)}, {point_text(upper)}, periodic={circles})`: the same domain."
        all_round = f"To cut all the way round, let it go from {self.lower[axis]:g} to {self.upper[axis]:g}."
        raise ValueError(
            f"`Difference`: {name} is periodic, from {self.lower[axis]:g} to {self.upper[axis]:g}, and {self.second!r} reaches "
            f"over its seam, from {low:g} to {high:g}. {shifted if high - low <= period + slack else all_round}"
        )


@final
class _Repeated(AbstractPieces):
    """A domain that lies in the base cell of periodic coordinates, and in every other cell too."""

    def __init__(self, domain: AbstractDomain, cell: Float[np.ndarray, " dim"], repeats: Float[np.ndarray, " dim"]):
        self.domain, self.cell, self.repeats = domain, cell, repeats
        self.lower, self.upper, self.coordinates, self.tolerance = (
            domain.lower,
            domain.upper,
            domain.coordinates,
            domain.tolerance,
        )

    @property
    def atoms(self) -> tuple[str, ...]:
        return self.domain.atoms

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return self.domain.unions

    def source(self, atom: str) -> Source:
        return Source(self.domain, atom, 1.0)

    def keeps(self, atom: str, points: Points) -> Mask:
        return np.ones(len(points), dtype=bool)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        images, whose = self._images(checked, self.tolerance if tolerance is None else tolerance)
        return _of_images(np.logical_or, self.domain.contains(images, tolerance), whose)

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        images, whose = self._images(points, tolerance)
        if atom != "interior":
            return _of_images(np.logical_or, self.domain.on_atom(atom, images, tolerance), whose)
        # At the seam that is inside which is inside a step off it on both sides: the ends of a strip around are no boundary.
        return _of_images(np.logical_and, self.domain.on_atom(atom, self._off_seams(images, tolerance), tolerance), whose)

    def atom_normal(self, atom: str, points: Points) -> Points:
        images, whose = self._images(points, self.tolerance)
        normals, on = self.domain.atom_normal(atom, images), self.domain.on_atom(atom, images, self.tolerance)
        out = normals[: len(points)]
        out[whose[on]] = normals[on]
        return out

    def _images(self, points: Points, tolerance: float) -> tuple[Images, Int[np.ndarray, " images"]]:
        """Where the points lie in the base cell, those at a seam at both of its ends; and whose image each is."""
        images, whose = points.copy(), np.arange(len(points))
        for axis in np.flatnonzero(np.isfinite(self.repeats)):
            low, period = self.cell[axis], self.repeats[axis]
            with np.errstate(invalid="ignore"):  # of what is not finite
                images[:, axis] = low + np.mod(images[:, axis] - low, period)
            ends = images[:, axis] <= low + tolerance * period, images[:, axis] >= low + (1 - tolerance) * period
            others = [images[end] + sign * period * np.eye(self.dim)[axis] for end, sign in zip(ends, (1, -1), strict=True)]
            images, whose = np.concatenate([images, *others]), np.concatenate([whose, *[whose[end] for end in ends]])
        return images, whose

    def _off_seams(self, images: Images, tolerance: float) -> Images:
        """The images with those at a seam a step farther inside: more than the tolerance."""
        images = images.copy()
        for axis in np.flatnonzero(np.isfinite(self.repeats)):
            low, period = self.cell[axis], self.repeats[axis]
            step = (STEP + 2 * tolerance) * max(period, float(self.extent.max()))
            images[images[:, axis] <= low + tolerance * period, axis] = low + step
            images[images[:, axis] >= low + (1 - tolerance) * period, axis] = low + period - step
        return images


def _of_images(how: np.ufunc, holds: Bool[np.ndarray, " images"], whose: Int[np.ndarray, " images"]) -> Mask:
    """What holds for one image of a point, or for each of them."""
    out = np.full(whose.max(initial=-1) + 1, how.identity, dtype=bool)
    how.at(out, whose, holds)
    return out
