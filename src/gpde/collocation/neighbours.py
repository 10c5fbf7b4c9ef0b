r"""Which points are near each other, in the metric of the prior.

A kernel with a period measures chords: $d = \tfrac{P}{\pi} \sin(\pi |x - y| / P)$ is the distance of two points on a circle of
circumference $P$ in the plane. So a periodic coordinate takes two, and what lies at both ends of the period is near without
being asked for: every distance below, and every one that batches, patches and linear solvers take, is Euclidean.
"""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from gpde.functionals.functionals import Kernels
from gpde.kernels import common_period


class Metric(eqx.Module):
    """How far apart points are: along each coordinate in units of `scale`, on a circle of circumference `period`, or on a line
    where that is infinite."""

    scale: Float[np.ndarray, " dim"]
    period: Float[np.ndarray, " dim"]

    @staticmethod
    def of(kernels: Kernels, dim: int, scaled: bool = True) -> "Metric":
        """The metric of the fields' kernels: in units of the smallest lengthscale along each coordinate, or, not `scaled`, in
        the units the points have.

        A coordinate is a circle if it is one for any field: to the others that costs neighbours, to it the opposite would cost
        the connection across the ends.
        """
        lengthscales = np.min([np.asarray(kernel.lengthscales(dim)) for kernel in kernels], axis=0)
        periods = np.stack([kernel.periods(dim) for kernel in kernels])
        return Metric(
            scale=lengthscales if scaled else np.ones(dim),
            period=np.array([_shared(axis, own[np.isfinite(own) & (own > 0)]) for axis, own in enumerate(periods.T)]),
        )

    def coordinates(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points coordinates"]:
        """Where points lie, one coordinate for a line and two for a circle, so that Euclidean distances are those of the
        prior."""
        columns = []
        for x, scale, period in zip(np.asarray(points).T, self.scale, self.period, strict=True):
            if math.isinf(period):
                columns.append(x / scale)
            else:
                angle, radius = 2 * math.pi / period * x, period / (2 * math.pi * scale)
                columns += [radius * np.cos(angle), radius * np.sin(angle)]
        return np.stack(columns, axis=1)


def _shared(axis: int, periods: Float[np.ndarray, " fields"]) -> float:
    if len(periods) == 0:
        return math.inf
    shared = common_period(periods)
    if math.isinf(shared):
        raise ValueError(
            f"`kernel`: along coordinate {axis} the fields have the periods {', '.join(f'{p:g}' for p in periods)}, and the "
            "largest is no multiple of the others, so there is no telling which points are neighbours. Give all of them one "
            "period, or use `method=gpde.FullBatch()`, which needs no neighbours."
        )
    return shared


class NeighbourIndex:
    """Points by their coordinates (`Metric.coordinates`), to be asked for the nearest."""

    def __init__(self, coordinates: Float[np.ndarray, "points dim"]):
        self._coordinates, self._tree = coordinates, KDTree(coordinates)

    def nearest(
        self, places: Float[np.ndarray, "places dim"], num: int
    ) -> tuple[Float[np.ndarray, "places num"], Int[np.ndarray, "places num"]]:
        """The distances and the indices of the `num` points nearest to each place, or of all; the nearest comes first."""
        num = min(num, len(self._coordinates))
        distance, index = self._tree.query(places, k=num, workers=-1)
        shape = len(places), num
        return np.reshape(distance, shape), np.reshape(index, shape).astype(np.int32)

    def inside(self, low: Float[np.ndarray, " dim"], high: Float[np.ndarray, " dim"]) -> Int[np.ndarray, " found"]:
        """The points in a box, in ascending order."""
        near = np.asarray(self._tree.query_ball_point((low + high) / 2, np.max(high - low) / 2, p=np.inf), dtype=int)
        return np.sort(near[np.all((self._coordinates[near] >= low) & (self._coordinates[near] <= high), axis=1)])
