"""Further names for pieces of a boundary."""

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points
from gpde.domains.functions import PointFunction
from gpde.domains.pieces import AbstractPieces, Source
from gpde.domains.sampling import trial


@final
class WithParts(AbstractPieces):
    """A domain whose boundary has further parts, each where a predicate holds (`AbstractDomain.with_parts`).

    An atom that a predicate divides falls into `"left & inflow"` and `"left - inflow"`, say; all names of before stand for what
    they stood for. The new parts come last, as the most special ones: their equations win over those of a side.
    """

    def __init__(self, domain: AbstractDomain, predicates: Mapping[str, Callable[..., Any]]):
        if not predicates:
            raise ValueError("`with_parts`: give a predicate for each new part, as `with_parts(inflow=lambda x: x[0] < 0.1)`.")
        for name, predicate in predicates.items():
            if name in domain.parts:
                raise ValueError(f"`with_parts`: {domain!r} has a part {name!r} already; choose another name.")
            if not callable(predicate):
                raise ValueError(f"`with_parts`: {name!r} is given by a function of one point; got {predicate!r}.")
        self.domain, self.predicates, self.tolerance = domain, dict(predicates), domain.tolerance
        self.lower, self.upper, self.coordinates = domain.lower, domain.upper, domain.coordinates
        self._names = list(self.predicates)
        self._holds = [PointFunction(p, f"`with_parts`: the predicate {name!r}") for name, p in self.predicates.items()]
        # Each atom: the one it comes from, which predicate holds (the number of them: none), and its share.
        self._pieces: dict[str, tuple[str, int | None, float]] = {}
        self._unions: dict[str, tuple[str, ...]] = {}
        boundary = domain.covers("boundary")
        split = {atom: self._split(atom) if atom in boundary else (atom,) for atom in domain.atoms}
        for union, atoms in domain.unions.items():
            self._unions[union] = tuple(piece for atom in atoms for piece in split[atom])
        for atom, pieces in split.items():
            if pieces != (atom,):
                self._unions[atom] = pieces
        for number, name in enumerate(self._names):
            there = tuple(piece for piece, (_, which, _) in self._pieces.items() if which == number)
            if not there:
                raise ValueError(
                    f"`with_parts`: the part {name!r} is empty: its predicate holds on no point of the boundary of {domain!r} "
                    "that is not in a part named before it. Check it, and that it leaves room for rounding."
                )
            self._unions[name] = there

    def __repr__(self) -> str:
        return f"{self.domain!r}.with_parts({', '.join(self._names)})"

    def during(self, start: float, stop: float) -> "WithParts | None":
        domain = self.domain.during(start, stop)
        return None if domain is None else WithParts(domain, self.predicates)

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        return self.domain.units

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        return self.domain.periods

    @property
    def atoms(self) -> tuple[str, ...]:
        whole = tuple(atom for atom in self.domain.atoms if atom not in self._unions and atom not in self._pieces)
        return (*whole, *self._pieces)

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return self._unions

    @property
    def parts(self) -> tuple[str, ...]:
        named = tuple(part for part in self.domain.parts if part in self._unions or part in self.atoms)
        return (*named, *self._names)

    def source(self, atom: str) -> Source:
        old, _, share = self._pieces.get(atom, (atom, None, 1.0))
        return Source(self.domain, old, share)

    def keeps(self, atom: str, points: Points) -> Mask:
        if atom not in self._pieces or self._pieces[atom][0] == atom:  # in one piece
            return np.ones(len(points), dtype=bool)
        number = self._pieces[atom][1]
        return self._which(points) == (len(self._names) if number is None else number)

    def atom_share(self, atom: str) -> float:
        domain, old, share = self.source(atom)
        return share * domain.atom_share(old)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.domain.contains(points, tolerance)

    def _which(self, points: Points) -> np.ndarray:
        """The number of the first predicate that holds at each point; the number of them where none does, -1 for NaN."""
        which = np.full(len(points), len(self._names))
        open_ = np.logical_not(np.isnan(points).any(axis=1))
        which[~open_] = -1
        for number, predicate in enumerate(self._holds):
            rows = np.flatnonzero(open_)
            holds = predicate(points[rows]) != 0
            which[rows[holds]] = number
            open_[rows[holds]] = False
        return which

    def _split(self, atom: str) -> tuple[str, ...]:
        """The pieces of an atom; the atom itself if it is in one piece."""
        rest = len(self._names)
        if self.domain.atom_dim(atom) == 0:
            points = self.domain.sample(atom, 1)
        else:
            points = trial(self.domain.atom_extent(atom), lambda unit: self.domain.place(atom, unit), log2=13)
        which = self._which(points)
        shares = {number: float(part) for number in range(rest + 1) if (part := np.mean(which[which >= 0] == number))}
        if list(shares) == [rest]:
            return (atom,)
        if len(shares) == 1:
            self._pieces[atom] = (atom, next(iter(shares)), 1.0)
            return (atom,)
        there = [self._names[number] for number in shares if number < rest]
        pieces = []
        for number, part in shares.items():
            name = f"{atom} & {self._names[number]}" if number < rest else " - ".join([atom, *there])
            self._pieces[name] = (atom, None if number == rest else number, part)
            pieces.append(name)
        return tuple(pieces)
