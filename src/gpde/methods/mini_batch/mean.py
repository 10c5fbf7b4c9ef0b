r"""The prior mean of batches: the full GP $u_c$ on few of the points, which is a batch of its own.

A batch knows little of what is smooth on its own scale, and its least norm pulls what it does not know to the prior mean: an
error in proportion to the norm that is left to it. The function $u$ of least norm that meets linear equations at all points is
$u_c + w$ with $w$ of least norm among the functions that meet what $u_c$ leaves of them, for $w$ vanishes on the equations that
made $u_c$ and is orthogonal to it, $\|u\|^2 = \|u_c\|^2 + \|w\|^2$. So the mean $u_c$ in the place of zero changes nothing in
the problem that the batches share, and leaves them the norm of $w$ in the place of that of $u$.

Noisy data $y$ with variance $\Lambda$ that made $u_c$ have been weighed: along every $w$ that vanishes on its equations,
$\|u\|^2 + |f(u) - y|^2_\Lambda$ is stationary at $u_c$. What is left of them to the batches is, to first order,
$|f(u_c + w) - f(u_c)|^2_\Lambda$: data that say $w = 0$.

What is one for all points, an unknown scalar or a mean, no small batch can tell. The large one finds it, the others keep it.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.point_table import PointTable, all_residuals, field_values, point_table
from gpde.functionals.functionals import Functionals, Kernels, prior_variances
from gpde.kernels import AbstractKernel, Offset
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup
from gpde.methods.coarse import Coarse, coarse_start
from gpde.methods.mini_batch.proximal import operator_scale
from gpde.methods.representer import Representer

# A share of the points, and how many at most: a full GP on these costs less than a sweep.
SHARE, MOST_POINTS = 1 / 2, 1000
# In units of the prior; what is left is for the batches to find.
_TOLERANCE = 1e-6
# At the least: what suits small batches may be too little for all points of a problem that data leave open.
_NUGGETS = (0.0, 1e-10, 1e-8, 1e-6)
# Points at which it is asked how well a coarse solution is known.
_NUM_PROBES = 200
# What rounding leaves.
_LARGEST_WEIGHT = 1e12
# What a mean that all points have made weighs: nothing is left to the batches.
_OF_ALL_POINTS = 1e14
# The prior may take the solution for smoother than it is, and the mean for better.
_TRUST = 1e-4
# Of the prior standard deviation of a scalar: what batches may change of it.
_HELD = 1e-6


class PriorMean(NamedTuple):
    """A coarse solution, and the proximal weight in units of the prior with which a run begins from it."""

    coarse: Coarse
    first_weight: float

    def table(self, setup: Setup, table: PointTable) -> Float[Array, "points operators"]:
        """Its values at the points of a table, zero in unused slots."""
        values = self.coarse.start.table(setup.kernels, table.operators, np.asarray(table.points))
        return on_device(np.where(table.active, values, 0.0))

    def of_averages(self, setup: Setup) -> Representer | None:
        """The process that found it, where equations hold on average, which it has seen."""
        averaged = any(part.weights is not None for part in setup.collocation.parts)
        return self.coarse.predictor() if averaged else None

    def weighed(self, table: PointTable, mean: Float[Array, "points operators"]) -> Float[Array, "points equations"]:
        """What the mean leaves of noisy data that made it; zero elsewhere."""
        left = np.asarray(all_residuals(table, mean))
        own = np.isin(np.arange(table.num_points), self.coarse.points)
        return on_device(np.where(own[:, None] & (np.asarray(table.noise_variance) > 0) & np.isfinite(left), left, 0.0))


@eqx.filter_jit
def _in_units(
    table: PointTable, values: Float[Array, "points operators"], unit: Float[Array, " operators"]
) -> tuple[Float[Array, "points equations"], Float[Array, "points equations"]]:
    r"""Residuals, and their prior variances $\sum_d a_d^2 \sigma_d^2$ with the operators taken for independent."""
    everything = jnp.arange(table.num_points)
    gradient = jax.vmap(table.gradient)(everything, values)
    return jax.vmap(table.residual)(everything, values), jnp.sum((gradient * unit[None, None]) ** 2, axis=-1)


def global_unknowns(setup: Setup) -> list[str]:
    """What is one for all points: scalars and means, by name."""
    return [*setup.scalars, *(part.name for part in setup.collocation.parts if part.weights is not None)]


def check_found(setup: Setup, mean: PriorMean | str | None) -> None:
    """Raises `ValueError` where no mean was found and something is one for all points."""
    if not isinstance(mean, PriorMean) and (unknown := global_unknowns(setup)):
        raise ValueError(
            f"`MiniBatch`: {', '.join(unknown)} is found by the full GP on up to {MOST_POINTS} of the points, which failed: "
            "its matrix is not positive definite, or an equation is not finite where it starts. Raise `nugget` or give "
            "`initial`."
        )


def batch_kernels(setup: Setup) -> Kernels:
    """The kernels of batches, which leave scalars where the prior mean has them."""
    fields = len(setup.kernels) - len(setup.scalars)
    return (*setup.kernels[:fields], *(Offset(_HELD * _amplitude(kernel)) for kernel in setup.kernels[fields:]))


def _amplitude(kernel: AbstractKernel) -> float:
    assert isinstance(kernel, Offset)  # a scalar's
    return float(kernel.amplitude)


def prior_mean(setup: Setup, latent: Float[Array, " size"] | None) -> PriorMean | str:
    """The full GP on few of the points, from given latent values of all or from its own start; words where it does not come to
    rest."""
    collocation, needed = setup.collocation, bool(global_unknowns(setup))
    # Where data are noisy, or something is one for all points, how well values are known says nothing of the points' number.
    trusted, coarse = needed or any(part.noisy for part in collocation.parts), None
    num_points = min(MOST_POINTS, int((1.0 if trusted else SHARE) * collocation.num_points))
    for nugget in _NUGGETS if trusted else _NUGGETS[:1]:
        coarse = coarse_start(setup, num_points, latent=latent, tolerance=_TOLERANCE, least_nugget=nugget, all_data=True)
        if coarse is not None and coarse.settled:
            break
    if coarse is None or not (coarse.settled or needed):
        return f"the full GP on {num_points} of the points, which was to be the prior mean, did not come to rest: it is zero"
    return PriorMean(coarse, _weight_by_residuals(setup, coarse) if trusted else _TRUST * _weight(setup, coarse))


def _weight_by_residuals(setup: Setup, coarse: Coarse) -> float:
    r"""How much its values weigh, where data leave more open than the points that made it do: $1 / \operatorname{mean} r^2/s^2$
    with what it leaves, $r$, of the equations at the other points, and what the prior expects of them, $s^2$."""
    table = point_table(setup.collocation, carry_values=True)
    values = PriorMean(coarse, 0.0).table(setup, table)
    unit = jnp.sqrt(operator_scale(setup.kernels, table))
    left, expected = (np.asarray(each) for each in _in_units(table, values, unit))
    others = ~np.isin(np.arange(table.num_points), coarse.points)
    counted = np.asarray(table.has_equation) & others[:, None] & (np.asarray(table.noise_variance) == 0) & (expected > 0)
    if not counted.any():
        return _OF_ALL_POINTS
    share = float(np.mean(left[counted] ** 2 / expected[counted]))
    return 1 / max(share, 1 / _LARGEST_WEIGHT) if np.isfinite(share) else 0.0


def _weight(setup: Setup, coarse: Coarse) -> float:
    r"""How much its values weigh against the prior: $\kappa(x, x) / \kappa_c(x, x)$ with the variance $\kappa_c$ that the
    coarse solution leaves, at the median point and for the field that is known least.

    With that proximal weight a step would move what its batch knows better than the coarse solution does, and leave the rest.
    No amplitude enters.
    """
    points = np.asarray(max(setup.collocation.parts, key=lambda part: part.num_points).points)
    probes = points[:: max(1, len(points) // _NUM_PROBES)]
    operators = field_values(setup.collocation)[: len(setup.kernels) - len(setup.scalars)]
    prior = prior_variances(setup.kernels, Functionals(operators, (on_device(probes),) * len(operators)))
    left = coarse.predictor().raw_variances(operators, probes) / np.stack(prior, axis=1)
    share = float(np.max(np.median(left, axis=0)))
    return 1 / max(share, 1 / _LARGEST_WEIGHT) if np.isfinite(share) else 0.0
