"""A domain in space, for a while."""

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, is_finite_number
from gpde.domains.box import Box
from gpde.domains.sampling import between


@final
class SpaceTime(AbstractDomain):
    r"""$[\text{start}, \text{stop}] \times \text{space}$: points are $(t, x, \dots)$, time first.

    Parts: `"initial"` ($t = \text{start}$), `"final"` ($t = \text{stop}$), and the names of the boundary of space,
    which hold at all times. `"boundary"` has neither end of time in it, and an evolution equation still holds at the
    final time, so `"interior"` includes it. A pair of numbers is an interval of space: `SpaceTime((-1, 1), 0, 1)`.
    """

    def __init__(self, space: AbstractDomain | tuple[float | int, float | int], start: float | int, stop: float | int):
        if not (is_finite_number(start) and is_finite_number(stop) and start < stop):
            raise ValueError(
                f"`SpaceTime`: `start` and `stop` are finite numbers, and start < stop; got {start!r} and {stop!r}. "
                "Space comes first, as in `SpaceTime((-1, 1), 0, 1)`."
            )
        if not isinstance(space, AbstractDomain) and np.shape(space) != (2,):
            raise ValueError(f"`SpaceTime`: `space` is a domain, or an interval such as (-1, 1); got {space!r}.")
        self.space = space if isinstance(space, AbstractDomain) else Box(*space)
        if tuple(self.space.atoms[:1]) != ("interior",):
            raise ValueError(
                "`SpaceTime`: `space` is in one piece; divide space and time together, as "
                "`Divided(SpaceTime(a, 0, 1), SpaceTime(b, 0, 1))`."
            )
        if isinstance(self.space, SpaceTime):
            raise ValueError("`SpaceTime`: `space` has a time already; give a domain in space, as `Box(-1, 1)`.")
        if "t" in self.space.coordinates:
            raise ValueError(f"`SpaceTime`: 't' is the time; the coordinates of `space` are called {self.space.coordinates}.")
        self.start, self.stop = float(start), float(stop)
        self.lower, self.upper = np.array([self.start, *self.space.lower]), np.array([self.stop, *self.space.upper])
        self.coordinates, self.tolerance = ("t", *self.space.coordinates), self.space.tolerance

    def __repr__(self) -> str:
        return f"SpaceTime({self.space!r}, {self.start:g}, {self.stop:g})"

    def during(self, start: float, stop: float) -> "SpaceTime":
        return SpaceTime(self.space, start, stop)

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", "initial", *self.space.atoms[1:], "final")

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return self.space.unions

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        return np.array([self.stop - self.start, *self.space.units])

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        return np.array([np.inf, *self.space.periods])

    def has_chart(self, atom: str) -> bool:
        return self.space.has_chart("interior" if atom in ("initial", "final") else atom)

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        if atom in ("initial", "final"):
            return self.space.atom_extent("interior")
        return np.array([self.stop - self.start, *self.space.atom_extent(atom)])

    def atom_measure(self, atom: str) -> float:
        if atom in ("initial", "final"):
            return self.space.atom_measure("interior")
        return (self.stop - self.start) * self.space.atom_measure(atom)

    def atom_share(self, atom: str) -> float:
        return self.space.atom_share("interior" if atom in ("initial", "final") else atom)

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        if atom in ("initial", "final"):
            times = np.full((len(unit), 1), self.start if atom == "initial" else self.stop)
            return np.hstack([times, self.space.place("interior", unit)])
        times = between(np.array([self.start]), np.array([self.stop]), unit[:, :1])
        return np.hstack([times, self.space.place(atom, unit[:, 1:])])

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        times, slack = checked[:, 0], (self.tolerance if tolerance is None else tolerance) * (self.stop - self.start)
        during = (times >= self.start - slack) & (times <= self.stop + slack)
        return during & self.space.contains(checked[:, 1:], tolerance)

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        inside, slack = self.contains(points, tolerance), tolerance * (self.stop - self.start)
        times = points[:, 0]
        match atom:
            case "initial":
                return inside & (np.abs(times - self.start) <= slack)
            case "final":
                return inside & (np.abs(times - self.stop) <= slack)
            case "interior":
                return inside & (times > self.start + slack) & self.space.on_atom(atom, points[:, 1:], tolerance)
            case _:
                return inside & self.space.on_atom(atom, points[:, 1:], tolerance)

    def atom_normal(self, atom: str, points: Points) -> Points:
        normals = np.zeros_like(points)
        if atom in ("initial", "final"):
            normals[:, 0] = 1.0 if atom == "final" else -1.0
        else:
            normals[:, 1:] = self.space.atom_normal(atom, points[:, 1:])
        return normals
