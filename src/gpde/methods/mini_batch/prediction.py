r"""Prediction from a batch of neighbours (Remark 2.2): no global system is ever solved.

For a point $x$ the batch is the one of the training point nearest to it, and the value is that of the batch's own function
there (`local_functions.py`), whose weights are computed once, when the run ends, on top of the prior mean (`mean.py`).

The variance is that of one Gaussian process which has seen the linearised equations at `seen` of the points and nothing else:
those that made the prior mean, or a thinned set of as many. What a single batch of all points reaches is the full GP, and it
has seen all. Conditioning on fewer equations never gives a smaller variance, so it is at least the full GP's: batches come near
to that, but how near no batch can tell, and what they add to the mean is not counted. Where equations hold on average it is
that of the process which made the mean: of points alone these can not be seen.
"""

import functools
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import add_diagonal
from gpde.functionals.functionals import Functionals, Kernels, covariance, gram, pair_covariance
from gpde.linalg.cholesky import half_solve, large_factor
from gpde.linalg.escalation import nugget_levels
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor
from gpde.methods.mini_batch.local_functions import evaluated
from gpde.methods.mini_batch.proximal import ProximalProblem
from gpde.methods.representer import Representer, in_chunks
from gpde.methods.start import Start


class Seen(eqx.Module):
    r"""Linearised equations $\Psi z = b$ at points: all that a conditional variance needs, $b$ is not among it.

    `noise` is $\Lambda$: 0 where an equation is exact, 1 in slots without one.
    """

    points: Float[Array, "seen dim"]
    active: Bool[Array, "seen operators"]
    coefficients: Float[Array, "seen equations operators"]
    noise: Float[Array, "seen equations"]

    @staticmethod
    def at(
        problem: ProximalProblem, values: Float[Array, "points operators"], which: Int[np.ndarray, " seen"], batch_size: int
    ) -> "Seen":
        """The equations of a problem at some of its points, linearised at values."""
        return _seen(problem, values, on_device(which), batch_size)

    def functionals(self, operators: tuple[LinearOperator, ...]) -> Functionals:
        return Functionals(operators, (self.points,) * len(operators))

    def rows(self, columns: Float[Array, "functionals *columns"]) -> Float[Array, "rows *columns"]:
        r"""$\Psi K$ of columns over all functionals, operator by operator."""
        num_points, num_equations, num_operators = self.coefficients.shape
        blocks = columns.reshape(num_operators, num_points, -1)
        used = jnp.where(self.active[:, None, :], self.coefficients, 0.0)
        return jnp.einsum("ped,dpc->epc", used, blocks).reshape(num_equations * num_points, -1)


@eqx.filter_jit
def _seen(
    problem: ProximalProblem, values: Float[Array, "points operators"], points: Int[Array, " seen"], batch_size: int
) -> Seen:
    table, unit = problem.table, jnp.ones((problem.table.num_operators, len(points)))
    psi, residual = problem.linearized(points, values[points], unit)
    # After a run that failed there may be equations that are no numbers: they tell nothing.
    finite = (jnp.all(jnp.isfinite(psi), axis=1) & jnp.isfinite(residual)).T
    variance = table.noise_variance[points]
    # A relaxed equation has the weight 1/M of its batch, not of all points.
    noise = jnp.where(variance > 0, variance, 0.0 if problem.eliminate else problem.regularization * problem.slack[points])
    return Seen(
        points=table.points[points],
        active=table.active[points],
        coefficients=jnp.where(finite[:, :, None], psi.transpose(2, 0, 1), 0.0),
        noise=jnp.where(table.has_equation[points] & finite, noise, 1.0),
    )


class LocalPredictor(AbstractPredictor):
    r"""Each point is predicted by the batch of its nearest training point; nearness is that of `metric`."""

    continuous: ClassVar[bool] = False
    prior: Kernels
    kernels: Kernels
    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: Float[Array, "points dim"]
    metric: Metric
    batches: Int[Array, "batches batch"]
    weights: Float[Array, "batches sources batch"]
    mean: Start | None
    average: Representer | None
    seen: Seen
    nugget: Float[Array, " operators"]
    max_escalations: int

    @classmethod
    def of(
        cls,
        problem: ProximalProblem,
        prior: Kernels,
        values: Float[Array, "points operators"],
        metric: Metric,
        batches: Int[np.ndarray, "batches batch"],
        weights: Float[np.ndarray, "batches operators batch"],
        seen: Int[np.ndarray, " seen"],
        mean: Start | None,
        average: Representer | None,
        nugget: float,
        max_escalations: int,
    ) -> "LocalPredictor":
        """The predictor of local functions, of a run that has reached `values`. The kernels of batches may be narrower
        than those of the `prior`: they leave scalars where its mean has them."""
        table = problem.table
        return cls(
            prior=prior,
            kernels=problem.kernels,
            operators=table.operators,
            points=table.points,
            metric=metric,
            batches=on_device(batches),
            weights=on_device(weights),
            mean=mean,
            average=average,
            seen=Seen.at(problem, values, seen, batches.shape[1]),
            nugget=nugget * problem.nugget_scale,
            max_escalations=max_escalations,
        )

    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        nearest = self._nearest(points)
        local = evaluated(self.kernels, self.operators, self.points, self.batches, self.weights, operators, points, nearest)
        return local if self.mean is None else local + self.mean.table(self.prior, operators, points)

    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        if self.average is not None:
            return self.average.raw_variances(operators, points)
        lower = self._conditioning
        if lower is None:
            return np.full((len(points), len(operators)), np.nan)
        evaluate = eqx.Partial(_variances, tuple(operators), self.prior, self.operators, self.seen, lower)
        entries = 3 * self.seen.active.size * len(operators)
        return np.asarray(in_chunks(evaluate, points, entries))

    def _nearest(self, points: Float[np.ndarray, "points dim"]) -> Int[np.ndarray, " points"]:
        return self._index.nearest(self.metric.coordinates(points), 1)[1][:, 0]

    @functools.cached_property
    def _index(self) -> NeighbourIndex:
        return NeighbourIndex(self.metric.coordinates(np.asarray(self.points)))

    @functools.cached_property
    def _conditioning(self) -> Float[Array, "rows rows"] | None:
        r"""The factor of $\Psi K \Psi^T + \Lambda$ with the first nugget that allows one; None if none does. Made once."""
        for growth in nugget_levels(1.0, self.max_escalations):
            lower, good = _conditioning_factor(self.prior, self.operators, self.seen, growth * self.nugget)
            if good:
                return lower
        return None


@eqx.filter_jit
def _conditioning_factor(
    kernels: Kernels, operators: tuple[LinearOperator, ...], seen: Seen, nugget: Float[Array, " operators"]
) -> tuple[Float[Array, "rows rows"], Bool[Array, ""]]:
    prior = add_diagonal(gram(kernels, seen.functionals(operators)), jnp.repeat(nugget, len(seen.points)))
    half = seen.rows(prior)
    return large_factor(add_diagonal(seen.rows(half.T), seen.noise.T.reshape(-1)))


@eqx.filter_jit
def _variances(
    operators: tuple[LinearOperator, ...],
    kernels: Kernels,
    sources: tuple[LinearOperator, ...],
    seen: Seen,
    lower: Float[Array, "rows rows"],
    points: Float[Array, "chunk dim"],
) -> Float[Array, "chunk operators"]:
    columns = []
    for operator in operators:
        cross = covariance(kernels, seen.functionals(sources), Functionals((operator,), (points,)))
        explained = jnp.sum(half_solve(lower, seen.rows(cross)) ** 2, axis=0)
        pair = pair_covariance(kernels, operator, operator)
        columns.append(jnp.maximum(jax.vmap(lambda p, pair=pair: pair(p, p))(points) - explained, 0.0))
    return jnp.stack(columns, axis=1)
