"""A domain in two regions with an interface between them: two materials, a core and a shell, oil and water."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points
from gpde.domains.sampling import acceptance, trial
from gpde.domains.set_operations import STEP


class _Piece(NamedTuple):
    """What lies on one side of the interface, of an atom: which, on which side (None: on either), and its share of it."""

    atom: str
    side: int | None
    share: float


@final
class Divided(AbstractDomain):
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
        split = {atom: self._split(atom) for atom in domain.atoms}
        inner = split.pop("interior")
        if len(inner) < 2:
            raise ValueError(f"`Divided`: {region!r} does not divide {domain!r}: one of the two regions is empty.")
        self._pieces: dict[str, _Piece] = {names[piece.side or 0]: piece for piece in inner}
        self._unions: dict[str, tuple[str, ...]] = {"interior": names}
        new = {atom: {self._named(piece, len(pieces)): piece for piece in pieces} for atom, pieces in split.items()}
        for pieces in new.values():
            self._pieces |= pieces
        for union, atoms in domain.unions.items():
            self._unions[union] = tuple(piece for atom in atoms for piece in new[atom])
        self._unions |= {atom: tuple(pieces) for atom, pieces in new.items() if len(pieces) > 1}
        for side, name in enumerate(names):
            around = tuple(
                piece for atom in domain.covers("boundary") for piece, p in new[atom].items() if p.side in (side, None)
            )
            if around:
                self._unions[f"boundary & {name}"] = around
        left = {atom: self._left(atom) for atom in region.atoms[1:]}
        left = {atom: share for atom, share in left.items() if share > 0}
        several = len(left) > 1
        self._interface = {f"interface: {a}" if several else "interface": (a, share) for a, share in left.items()}
        if several:
            self._unions["interface"] = tuple(self._interface)

    def __repr__(self) -> str:
        return f"Divided({self.domain!r}, {self.region!r}, {self.names})"

    @property
    def lower(self) -> Float[np.ndarray, " dim"]:
        return self.domain.lower

    @property
    def upper(self) -> Float[np.ndarray, " dim"]:
        return self.domain.upper

    @property
    def coordinates(self) -> tuple[str, ...]:
        return self.domain.coordinates

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

    def atom_dim(self, atom: str) -> int:
        return (
            self.region.atom_dim(self._interface[atom][0]) if atom in self._interface else self.domain.atom_dim(self._old(atom))
        )

    def has_chart(self, atom: str) -> bool:
        return (
            self.region.has_chart(self._interface[atom][0])
            if atom in self._interface
            else self.domain.has_chart(self._old(atom))
        )

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        if atom in self._interface:
            return self.region.atom_extent(self._interface[atom][0])
        return self.domain.atom_extent(self._old(atom))

    def atom_measure(self, atom: str) -> float:
        if atom in self._interface:
            return self._interface[atom][1] * self.region.atom_measure(self._interface[atom][0])
        return self._pieces[atom].share * self.domain.atom_measure(self._old(atom))

    def atom_share(self, atom: str) -> float:
        if atom in self._interface:
            return super().atom_share(atom)
        return self._pieces[atom].share * self.domain.atom_share(self._old(atom))

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        if atom in self._interface:
            return self._inner(self._interface[atom][0], self.region.place(self._interface[atom][0], unit))
        piece = self._pieces[atom]
        points = self.domain.place(piece.atom, unit)
        return points if piece.side is None else self._kept(points, piece.side)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        return self.domain.contains(points, tolerance)

    def in_closure(self, part: str, points: ArrayLike) -> Mask:
        if part not in self.names:
            return super().in_closure(part, points)
        here, inside = self.domain.contains(points), self.region.contains(points)
        return here & (inside if part == self.names[0] else ~inside | self._meets_outside(self.check_points(points, "in_closure")))

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        if atom in self._interface:
            old = self._interface[atom][0]
            out = self.region.on_atom(old, points, tolerance)
            out[out] = self._between(old, points[out])
            return out
        piece = self._pieces[atom]
        out = self.domain.on_atom(piece.atom, points, tolerance)
        if piece.side is None:
            return out
        if atom in self.names:  # without the interface
            inside = self.region.on_part("interior", points, tolerance)
            return out & (inside if piece.side == 0 else ~self.region.contains(points, tolerance))
        return out & (self.region.contains(points, tolerance) == (piece.side == 0))

    def atom_normal(self, atom: str, points: Points) -> Points:
        if atom in self._interface:
            return self.region.atom_normal(self._interface[atom][0], points)
        return self.domain.atom_normal(self._old(atom), points)

    def _old(self, atom: str) -> str:
        return self._pieces[atom].atom

    def _named(self, piece: _Piece, num_pieces: int) -> str:
        return piece.atom if num_pieces == 1 or piece.side is None else f"{piece.atom} & {self.names[piece.side]}"

    def _split(self, atom: str) -> list[_Piece]:
        if self.domain.atom_dim(atom) == 0:
            points = self.domain.sample(atom, 1)
        else:
            points = trial(self.domain.atom_extent(atom), lambda unit: self.domain.place(atom, unit), log2=13)
            points = points[~np.isnan(points).any(axis=1)]
        share = float(np.mean(self.region.contains(points)))
        return [_Piece(atom, side, s) for side, s in enumerate((share, 1 - share)) if s > 0]

    def _left(self, atom: str) -> float:
        """The share of an atom of the region that lies inside the domain."""
        if self.region.atom_dim(atom) == 0:
            return float(self._between(atom, self.region.sample(atom, 1)).all())
        points = trial(self.region.atom_extent(atom), lambda unit: self.region.place(atom, unit), log2=13)
        return acceptance(self._inner(atom, points)) / acceptance(points)

    def _inner(self, atom: str, points: Points) -> Points:
        there = np.logical_not(np.isnan(points).any(axis=1))
        there[there] = self._between(atom, points[there])
        return np.where(there[:, None], points, np.nan)

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

    def _kept(self, points: Points, side: int) -> Points:
        there = np.logical_not(np.isnan(points).any(axis=1))
        there[there] = self.region.contains(points[there]) == (side == 0)
        return np.where(there[:, None], points, np.nan)
