r"""Equations that count from the data outwards: where neither whole steps nor a ladder of nuggets lead to the solution.

$u' = u(1 - u)$ from $u(0) = 0.01$ has the constants 0 and 1 for solutions of all of its equations but the first, and with all
of them at once Gauss-Newton ends in one of these. So at first only equations near points with values count, a tenth of all,
then those farther away too, each time from what was found: the function goes on from where it is known, as a march through time
does, along whatever coordinate. What does not count has a nugget of 1e8. If an enlargement fails, half of it is tried.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.collocation.collocation import Collocation
from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.functionals.functionals import Kernels

_FIRST, _GROWTH, _LEAST = 0.1, 1.5, 0.01
# An enlargement has settled when a whole step moves less than this, and has failed after so many steps; all of them together.
_SETTLED, _MOST_STEPS, _MOST_IN_ALL = 0.05, 8, 60
LOOSE = 1e8


class Spread(NamedTuple):
    """Which share of the equations counts, and how many steps it has had; the share that was settled before, and by how much it
    grew; steps in all, 0 where all equations count from the beginning."""

    share: float = 1.0
    steps: int = 0
    settled: float = 1.0
    growth: float = 0.0
    spent: int = 0

    def begun(self) -> "Spread":
        return Spread(_FIRST, 0, 0.0, _FIRST, 1)

    @property
    def spreading(self) -> bool:
        return 0 < self.spent <= _MOST_IN_ALL and self.settled < 1.0 and self.growth >= _LEAST

    def has_settled(self, damping: float, move: float) -> bool:
        return damping == 1.0 and move < _SETTLED

    def has_failed(self, accepted: bool) -> bool:
        return not accepted or self.steps + 1 >= _MOST_STEPS

    def farther(self) -> "Spread":
        """After a share has settled: a larger one, or with all equations the end."""
        growth = _GROWTH * self.growth
        return Spread(min(1.0, self.share + growth), 0, self.share, growth, self.spent + 1)

    def less_far(self) -> "Spread":
        growth = self.growth / 2
        return Spread(min(1.0, self.settled + growth), 0, self.settled, growth, self.spent + 1)  # too little ends it

    def counted(self) -> "Spread":
        return self._replace(steps=self.steps + 1, spent=self.spent + 1)

    def notes(self) -> tuple[str, ...]:
        if self.spent == 0:
            return ()
        end = "" if self.settled == 1.0 else f", which came to {100 * self.settled:.0f} % of them"
        return (f"equations counted from the data outwards in {self.spent - 1} steps{end}",)


def distances(collocation: Collocation, kernels: Kernels) -> Float[np.ndarray, " equations"] | None:
    """For every equation the share of those nearer to data: to points whose equations are all linear, which are at -1. None
    where there is nothing to begin with, or nothing to go to."""
    parts = collocation.parts
    given = [all(kind.linear for kind in part.reading.kinds) for part in parts]
    if all(given) or not any(given):
        return None
    metric = Metric.of(kernels, parts[0].points.shape[1])
    index = NeighbourIndex(
        np.concatenate([metric.coordinates(np.asarray(p.points)) for p, known in zip(parts, given, strict=True) if known])
    )
    found = []
    for part, known in zip(parts, given, strict=True):
        away = np.full(part.num_rows, -1.0)
        if not known and part.weights is None:
            away = index.nearest(metric.coordinates(np.asarray(part.points)), 1)[0][:, 0]
        found.append(np.tile(away, part.num_equations))
    away = np.concatenate(found)
    rank = np.argsort(np.argsort(away, kind="stable")) / len(away)
    return np.where(away < 0, -1.0, rank)


def counting(order: Float[np.ndarray, " equations"], share: float) -> Bool[Array, " equations"]:
    return jnp.asarray(order <= share)
