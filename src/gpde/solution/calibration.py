r"""How large error bars have to be, and how large the error is.

Where a run is small enough for a companion (`companion.py`) its correction $c$ is the error, nearly. Then standard deviations
$s$ are multiplied by the $\rho$ with which bands of normal width cover $c$ at 95 % of some places, and a little more,

$$ \rho = \tfrac{1.03}{1.96}\; \mathrm{quantile}_{0.95}\, |c| / s. $$

An error that is as large everywhere against $s$, as where one value decides of all, would else lie at the edge of its band,
which covers all of it or nothing. And the error is estimated by the root mean square of $c$. Where a run is larger, what is
left of the equations where they were not asked for is compared with what was expected.

At a point that the run did not use, the equation linearised at the solution is one more functional $a \cdot (L_1u, \dots)$
with a conditional variance $s^2 = a^T C a$: $C$ is the conditional covariance of the operators there, and a nugget comes to it.
If the prior had the right amplitude, residuals $r$ would have that variance. So

$$ \rho^2 = \operatorname{mean} \frac{r^2}{s^2} $$

is the square of the amplitude that error bars need on top of the kernel's own, for any kernel and any method whose pieces fit
together; and the root mean square over the domain of $\rho$ times the conditional standard deviation estimates the error.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains.sampling import generator
from gpde.equations import Reading, Site
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.functionals import Kernels, pair_covariance
from gpde.kernels.base import MultiIndex, Terms
from gpde.methods.base import AbstractPredictor
from gpde.problem.problem import Condition, Problem

# The share of its mass that the normal distribution has within so many standard deviations; what bands are wider than that.
_COVERED, _WIDTH, _MARGIN = 0.95, 1.96, 1.03
_NUM_POINTS = 128
# Where conditional variances are smaller than this part of prior ones, they are rounding.
_ROUNDING = 1e-14


class Calibration(NamedTuple):
    """What error bars are to be multiplied with, and the root mean square of the error, from which both come."""

    amplitude: float
    error: float

    @classmethod
    def of_correction(cls, correction: Float[np.ndarray, " values"], variances: Float[np.ndarray, " values"]) -> "Calibration":
        r"""From $c$ and $s^2$ at places."""
        ratio = np.abs(correction) / np.sqrt(np.maximum(variances, np.finfo(float).tiny))
        amplitude = float(_MARGIN * np.quantile(ratio, _COVERED) / _WIDTH)
        return cls(amplitude if amplitude > 0 else 1.0, float(np.sqrt(np.mean(correction**2))))


def has_noise(problem: Problem) -> bool:
    """Whether there are noisy data, which say themselves how large all is."""
    return any(c.observations is not None and np.any(np.asarray(c.observations.noise) > 0) for c in problem.conditions)


def left_out_amplitude(problem: Problem, predictor: AbstractPredictor, kernels: Kernels, nugget: float, seed: int) -> float:
    r"""$\rho$ from residuals; 1 where nothing can be compared."""
    constants = tuple(parameter.kernel for parameter in problem.parameters.values())
    kernels = (*kernels[: len(problem.fields)], *constants)
    exact = [c for c in problem.conditions if c.observations is None]
    # Equations inside tell how far between its points a solution is right; without any, those of other parts do.
    chosen = [c for c in exact if c.part == "interior"] or exact
    squares = [_squares(c, problem, predictor, kernels, nugget, seed) for c in chosen]
    found = np.concatenate([s for s in squares if len(s)] or [np.ones(1)])
    rho = float(np.sqrt(np.mean(found)))
    return rho if np.isfinite(rho) and rho > 0 else 1.0


def _squares(
    condition: Condition, problem: Problem, predictor: AbstractPredictor, kernels: Kernels, nugget: float, seed: int
) -> Float[np.ndarray, " comparisons"]:
    """$r^2/s^2$ for every equation of a condition at new points."""
    fresh = int(generator(seed, "left out").integers(2**31))
    points, reading = problem.sample_part(condition.part, _NUM_POINTS, seed=fresh), condition.reading
    values = predictor.values(reading.operators, points)
    sites = problem.sites(condition.part, points, normals=reading.takes_normal).map(jnp.asarray)
    residual, gradient, prior = (np.asarray(each) for each in _at(reading, kernels, sites, jnp.asarray(values)))
    # The variance of a sum of operators, each in units of its own prior, tells the covariance of the two.
    unit = np.sqrt(np.diagonal(prior.mean(axis=0)))
    scaled = [_multiplied(operator, 1 / u) for operator, u in zip(reading.operators, unit, strict=True)]
    pairs = list(itertools.combinations(range(len(scaled)), 2))
    found = predictor.variances((*scaled, *(_sum(scaled[i], scaled[j]) for i, j in pairs)), points)
    covariance = np.zeros((len(points), len(scaled), len(scaled)))
    for i in range(len(scaled)):
        covariance[:, i, i] = found[:, i]
    for column, (i, j) in enumerate(pairs, start=len(scaled)):
        covariance[:, i, j] = covariance[:, j, i] = (found[:, column] - found[:, i] - found[:, j]) / 2
    row = gradient * unit
    variance = np.einsum("pei,pij,pej->pe", row, covariance, row)
    before = np.einsum("pei,pij,pej->pe", gradient, prior, gradient)
    variance = np.maximum(variance, _ROUNDING * before) + nugget * before
    good = np.isfinite(residual) & np.isfinite(variance) & (variance > 0)
    return residual[good] ** 2 / variance[good]


@eqx.filter_jit
def _at(
    reading: Reading, kernels: Kernels, sites: Site, values: Float[Array, "points operators"]
) -> tuple[Array, Array, Array]:
    """Residuals, their gradients in the operators, and the prior covariance of the operators, at points."""
    operators = reading.operators
    pairs = [[pair_covariance(kernels, a, b) for b in operators] for a in operators]
    return (
        jax.vmap(reading.residual)(sites, values),
        jax.vmap(jax.jacfwd(reading.residual, argnums=1))(sites, values),
        jax.vmap(lambda x: jnp.stack([jnp.stack([pair(x, x) for pair in row]) for row in pairs]))(sites.x),
    )


def _multiplied(operator: LinearOperator, factor: float) -> LinearOperator:
    return tuple((field, tuple((alpha, c * float(factor)) for alpha, c in terms)) for field, terms in operator)


def _sum(first: LinearOperator, second: LinearOperator) -> LinearOperator:
    fields = dict.fromkeys(field for operator in (first, second) for field, _ in operator)
    return tuple((field, _merged([dict(o).get(field, ()) for o in (first, second)])) for field in fields)


def _merged(terms: Sequence[Terms]) -> Terms:
    total: dict[MultiIndex, float] = {}
    for alpha, c in itertools.chain(*terms):
        total[alpha] = total.get(alpha, 0.0) + c
    return tuple(total.items())
