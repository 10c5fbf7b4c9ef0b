r"""The prior mean of batches: the full GP $u_c$ on few of the points, which is a batch of its own.

A batch knows little of what is smooth on its own scale, and its least norm pulls what it does not know to the prior mean: an
error in proportion to the norm that is left to it. The function $u$ of least norm that meets linear equations at all points is
$u_c + w$ with $w$ of least norm among the functions that meet what $u_c$ leaves of them, for $w$ vanishes on the equations that
made $u_c$ and is orthogonal to it, $\|u\|^2 = \|u_c\|^2 + \|w\|^2$. So the mean $u_c$ in the place of zero changes nothing in
the problem that the batches share, and leaves them the norm of $w$ in the place of that of $u$.

Noisy data would count twice, in $u_c$ and in the batches: with them the mean stays zero.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.point_table import PointTable, field_values
from gpde.functionals.functionals import Functionals, prior_variances
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup
from gpde.methods.coarse import Coarse, coarse_start

# A share of the points, and how many at most: a full GP on these costs less than a sweep.
_SHARE, _MOST_POINTS = 1 / 2, 1000
# In units of the prior; what is left is for the batches to find.
_TOLERANCE = 1e-6
# Points at which it is asked how well a coarse solution is known.
_NUM_PROBES = 200
# What it must weigh to be the mean: on points too few for the kernel it is rough, and worse than none. What rounding leaves.
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e6, 1e12
# The prior may take the solution for smoother than it is, and the mean for better.
_TRUST = 1e-4


class PriorMean(NamedTuple):
    """A coarse solution, and the proximal weight in units of the prior with which a run begins from it."""

    coarse: Coarse
    first_weight: float

    def table(self, setup: Setup, table: PointTable) -> Float[Array, "points operators"]:
        """Its values at the points of a table, zero in unused slots."""
        values = self.coarse.start.table(setup.kernels, table.operators, np.asarray(table.points))
        return on_device(np.where(table.active, values, 0.0))


def prior_mean(setup: Setup, latent: Float[Array, " size"] | None) -> PriorMean | None:
    """The full GP on few of the points, from given latent values of all or from its own start; None where it does not come to
    rest, or leaves the solution open."""
    collocation = setup.collocation
    if any(part.noisy for part in collocation.parts):
        return None
    num_points = min(_MOST_POINTS, int(_SHARE * collocation.num_points))
    coarse = coarse_start(setup, num_points, latent=latent, tolerance=_TOLERANCE, least_nugget=0.0)
    if coarse is None or not coarse.settled:
        return None
    weight = _weight(setup, coarse)
    return PriorMean(coarse, _TRUST * weight) if weight >= _LEAST_WEIGHT else None


def _weight(setup: Setup, coarse: Coarse) -> float:
    r"""How much its values weigh against the prior: $\kappa(x, x) / \kappa_c(x, x)$ with the variance $\kappa_c$ that the
    coarse solution leaves, at the median point and for the field that is known least.

    With that proximal weight a step would move what its batch knows better than the coarse solution does, and leave the rest.
    No amplitude enters.
    """
    points = np.asarray(max(setup.collocation.parts, key=lambda part: part.num_points).points)
    probes = points[:: max(1, len(points) // _NUM_PROBES)]
    operators = field_values(setup.collocation)
    prior = prior_variances(setup.kernels, Functionals(operators, (on_device(probes),) * len(operators)))
    left = coarse.predictor().raw_variances(operators, probes) / np.stack(prior, axis=1)
    share = float(np.max(np.median(left, axis=0)))
    return 1 / max(share, 1 / _LARGEST_WEIGHT) if np.isfinite(share) else 0.0
