r"""How far patches reach: beyond their nearest points where these are close together against the lengthscale.

The M points nearest to a centre lie within a radius $r$ (in lengthscales) that shrinks as points are added, and a small patch
knows little of what is smooth: on it an operator of order $p$ is told apart from those of lower order by differences that fall
like $r^{p-1}$. Where $r^{1-p}$ is large, half of a patch are its nearest points, and as many again come from each of $L$ nested
thinned subsets of all points, one in $2^d$ of the one before: each level doubles the radius. All patches take their far points
from the same few, so they meet in them, and $H$ stays sparse.

Second order needs no reach down to $r = 0.05$ (200 000 points on a square of five lengthscales); fourth order does below 0.37:
u_t + u u_x + u_xx + .05 u_xxxx = f on 6000 points has r = 0.21, an L2 error of 3.4e-3 without and 2.1e-5 with two levels.
"""

import math

import numpy as np
from jaxtyping import Float

from gpde.collocation.collocation import Collocation
from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.functionals.functionals import Kernels

# The loss r^(1-p) that calls for a reach, and that which a reach brings it down to.
_LARGE_LOSS, _SMALL_LOSS = 20.0, 5.0
_MOST_LEVELS = 3
# Places at which the radius of a patch is measured.
_NUM_PROBES = 200


def num_levels(collocation: Collocation, kernels: Kernels, batch_size: int) -> int:
    """How many thinned subsets patches reach into: 0 where the nearest points are far enough apart."""
    order, points = collocation.order, np.concatenate([np.asarray(part.points) for part in collocation.parts])
    if order < 2 or batch_size >= len(points):
        return 0
    radius = _radius(Metric.of(kernels, points.shape[1]).coordinates(points), batch_size)
    if radius == 0 or radius ** (1 - order) <= _LARGE_LOSS:
        return 0
    wanted = _SMALL_LOSS ** (1 / (1 - order)) / radius
    thinnest = math.log2(len(points) / (2 * batch_size)) / points.shape[1]
    return max(0, min(_MOST_LEVELS, math.ceil(math.log2(wanted)), int(thinnest)))


def default_num_patches(num_points: int) -> int:
    """Every point a centre up to 3000 points, then fewer relative to their number, down to an eighth."""
    if num_points <= 3000:
        return num_points
    return max(3000, num_points // (4 if num_points <= 30000 else 8))


def num_members(batch_size: int, levels: int) -> int:
    """Points of a patch: half of `batch_size` near, and as many from each level."""
    return batch_size if levels == 0 else (batch_size // 2) * (1 + levels)


def _radius(coordinates: Float[np.ndarray, "points coordinates"], batch_size: int) -> float:
    """The median distance from a point to the last of its nearest, in lengthscales."""
    probes = coordinates[:: max(1, len(coordinates) // _NUM_PROBES)]
    distance, _ = NeighbourIndex(coordinates).nearest(probes, batch_size)
    return float(np.median(distance[:, -1]))
