"""Domains made of pieces of other domains: of each atom some points are kept."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gpde.domains.base import AbstractDomain, Mask, Points
from gpde.domains.sampling import acceptance, trial


class Source(NamedTuple):
    """What a piece is cut from: a domain, one of its atoms, and the share of it that is kept."""

    domain: AbstractDomain
    atom: str
    share: float


class AbstractPieces(AbstractDomain):
    """A domain that says of each atom what it is a piece of, and which points of that it keeps."""

    @abc.abstractmethod
    def source(self, atom: str) -> Source:
        """What the atom is a piece of."""

    @abc.abstractmethod
    def keeps(self, atom: str, points: Points) -> Mask:
        """Which points of its source belong to the atom."""

    def atom_dim(self, atom: str) -> int:
        domain, old, _ = self.source(atom)
        return domain.atom_dim(old)

    def has_chart(self, atom: str) -> bool:
        domain, old, _ = self.source(atom)
        return domain.has_chart(old)

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        domain, old, _ = self.source(atom)
        return domain.atom_extent(old)

    def atom_measure(self, atom: str) -> float:
        domain, old, share = self.source(atom)
        return share * domain.atom_measure(old)

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        domain, old, _ = self.source(atom)
        return only(domain.place(old, unit), lambda points: self.keeps(atom, points))

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        domain, old, _ = self.source(atom)
        out = domain.on_atom(old, points, tolerance)
        out[out] = self.keeps(atom, points[out])
        return out

    def atom_normal(self, atom: str, points: Points) -> Points:
        domain, old, _ = self.source(atom)
        return domain.atom_normal(old, points)


def only(points: Points, keeps: Callable[[Points], Mask]) -> Points:
    """The points, those rejected (rows of NaN) that are not kept."""
    there = np.logical_not(np.isnan(points).any(axis=1))
    there[there] = keeps(points[there])
    return np.where(there[:, None], points, np.nan)


def share_of(domain: AbstractDomain, atom: str, keeps: Callable[[Points], Mask], log2: int) -> float:
    """How much of an atom is kept, by a trial of 2^log2 points."""
    if domain.atom_dim(atom) == 0:
        return float(keeps(domain.sample(atom, 1)).all())
    points = trial(domain.atom_extent(atom), lambda unit: domain.place(atom, unit), log2=log2)
    return acceptance(only(points, keeps)) / acceptance(points)
