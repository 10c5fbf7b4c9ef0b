"""A domain in two regions with an interface between them: two materials, a core and a shell, oil and water."""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points
from gpde.domains.pieces import AbstractPieces, Source, share_of
from gpde.domains.set_operations import STEP


class _Piece(NamedTuple):
    """What lies on one side of the interface, of an atom: which, on which side, and its share of it."""

    atom: str
    side: int
    share: float


@final
class Divided(AbstractPieces):
    """`domain` in two: what lies in `region`, another domain, and what does not.

    `names` are those of the two, as parts; `"interior"` is both. `"interface"` is the boundary of the region inside the domain,
    with normals that point from the first to the second. Atoms of the boundary that have points on either side fall into
    `"top & inside"` and `"top & outside"`, say, and all of what encloses one side is `"boundary & inside"`.
    """

    def __init__(self, domain: AbstractDomain, region: AbstractDomain, names: Sequence[str] = ("inside", "outside")):
        for what, given in (("domain", domain), ("region", region)):
            if not isinstance(given, AbstractDomain) or isinstance(given, Divided):
                raise ValueError(f"`Divided`: `{what}` is a domain in one piece; got {given!r}.")
        if domain.dim != region.dim:
            raise ValueError(f"`Divided`: `domain` has {domain.dim} coordinates and `region` {region.dim}; give two of a kind.")
        names = tuple(names)
        if len(set(names)) != 2 or len(names) != 2 or {*names, "interface"} & set(domain.parts) or "interface" in names:
            raise ValueError(
                f"`Divided`: `names` are two new names of parts, as ('core', 'shell'); got {names!r} beside "
                f"{', '.join(domain.parts)}."
            )
        self.domain, self.region, self.names, self.tolerance = domain, region, names, max(domain.tolerance, region.tolerance)
        self.lower, self.upper, self.coordinates = domain.lower, domain.upper, domain.coordinates
        split = {atom: self._split(atom) for atom in domain.atoms}
        inner = split.pop("interior")
        if len(inner) < 2:
            raise ValueError(f"`Divided`: {region!r} does not divide {domain!r}: one of the two regions is empty.")
        self._pieces: dict[str, _Piece] = {names[piece.side]: piece for piece in inner}
        self._unions: dict[str, tuple[str, ...]] = {"interior": names}
        new = {
            atom: {piece.atom if len(pieces) == 1 else f"{piece.atom} & {names[piece.side]}": piece for piece in pieces}
            for atom, pieces in split.items()
        }
        for pieces in new.values():
            self._pieces |= pieces
        for union, atoms in domain.unions.items():
            self._unions[union] = tuple(piece for atom in atoms for piece in new[atom])
        self._unions |= {atom: tuple(pieces) for atom, pieces in new.items() if len(pieces) > 1}
        for side, name in enumerate(names):
            around = tuple(piece for atom in domain.covers("boundary") for piece, p in new[atom].items() if p.side == side)
            if around:
                self._unions[f"boundary & {name}"] = around
        left = {atom: share_of(region, atom, functools.partial(self._between, atom), log2=13) for atom in region.atoms[1:]}
        left = {atom: share for atom, share in left.items() if share > 0}
        several = len(left) > 1
        self._interface = {f"interface: {a}" if several else "interface": (a, share) for a, share in left.items()}
        if several:
            self._unions["interface"] = tuple(self._interface)

    def __repr__(self) -> str:
        return f"Divided({self.domain!r}, {self.region!r}, {self.names})"

    def during(self, start: float, stop: float) -> "Divided | None":
        domain, region = self.domain.during(start, stop), self.region
        if domain is None:
            return None
        if region.lower[0] <= start and stop <= region.upper[0]:  # else it begins or ends on the way, as it says itself
            region = region.during(start, stop) or region
        return Divided(domain, region, self.names)

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        return self.domain.units

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        return self.domain.periods

    @property
    def atoms(self) -> tuple[str, ...]:
        return (*self._pieces, *self._interface)

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self._pieces)[2:]

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return self._unions

    @property
    def parts(self) -> tuple[str, ...]:
        every = ("interior", *self.names, *self.domain.parts, *self._unions, *self._pieces, "interface", *self._interface)
        return tuple(part for part in dict.fromkeys(every) if part in self._unions or part in self.atoms)

    def source(self, atom: str) -> Source:
        if atom in self._interface:
            return Source(self.region, *self._interface[atom])
        piece = self._pieces[atom]
        return Source(self.domain, piece.atom, piece.share)

    def keeps(self, atom: str, points: Points) -> Mask:
        if atom in self._interface:
            return self._between(self._interface[atom][0], points)
        return self.region.contains(points) == (self._pieces[atom].side == 0)

    def atom_share(self, atom: str) -> float:
        if atom in self._interface:
            return super().atom_share(atom)
        domain, old, share = self.source(atom)
        return share * domain.atom_share(old)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.domain.contains(points, tolerance)

    def in_closure(self, part: str, points: ArrayLike) -> Mask:
        if part not in self.names:
            return super().in_closure(part, points)
        here, inside = self.domain.contains(points), self.region.contains(points)
        return here & (
            inside if part == self.names[0] else ~inside | self._meets_outside(self.check_points(points, "in_closure"))
        )

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        if atom in self._interface:
            return super().on_atom(atom, points, tolerance)
        piece = self._pieces[atom]
        out = self.domain.on_atom(piece.atom, points, tolerance)
        if atom in self.names:  # without the interface
            inside = self.region.on_part("interior", points, tolerance)
            return out & (inside if piece.side == 0 else ~self.region.contains(points, tolerance))
        return out & (self.region.contains(points, tolerance) == (piece.side == 0))

    def _split(self, atom: str) -> list[_Piece]:
        share = share_of(self.domain, atom, self.region.contains, log2=13)
        return [_Piece(atom, side, s) for side, s in enumerate((share, 1 - share)) if s > 0]

    def _between(self, atom: str, points: Points) -> Mask:
        """Which points of the region's boundary have the domain on both sides, a step along the normal away."""
        if not len(points):
            return np.zeros(0, dtype=bool)
        step = STEP * float(self.domain.extent.max()) * self.region.atom_normal(atom, points)
        return self.domain.contains(points - step, 0.0) & self.domain.contains(points + step, 0.0)

    def _meets_outside(self, points: Points) -> Mask:
        """Which points lie on the region's boundary with more of the domain beyond: not where the two end together."""
        out = np.zeros(len(points), dtype=bool)
        for atom in self.region.sides:
            there = np.flatnonzero(self.region.on_atom(atom, points, self.tolerance) & ~out)
            step = STEP * float(self.domain.extent.max()) * self.region.atom_normal(atom, points[there])
            out[there] = self.domain.contains(points[there] + step)
        return out
