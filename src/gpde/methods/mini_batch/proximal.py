r"""The proximal step of Algorithm 1 on one batch, as Gaussian conditioning.

On a batch of $M$ points with at most $D$ functionals each, (2.16) asks for

$$\operatorname{argmin}_z \tfrac\lambda2 (z - m)^T K^{-1} (z - m) + \tfrac\gamma2 |z - z^k|^2_Q \quad\text{where } f(z) = y,$$

$K = \kappa(\phi_I, \phi_I) + \eta R$ and $m$ the values of the prior mean, zero in the paper; in the relaxed form
$\tfrac1{2M}|f(z) - y|^2$ is added instead. Gauss–Newton linearises $f(z) = y$ as $\Psi z = b$, and with
$A = (\lambda K^{-1} + \gamma Q^{-1})^{-1}$, $\bar z = m + \gamma A Q^{-1} (z^k - m)$ its step is

$$z = \bar z + A \Psi^T (\Psi A \Psi^T + \Lambda)^{-1} (b - \Psi \bar z),$$

one $M \times M$ system per equation whatever $D$ is. $A$ does not depend on the iterate: it is computed once per batch and
$\gamma$. Everything is in units of the prior standard deviations, $z / \sqrt{\mathrm{diag} K}$, operator by operator.

$Q^{-1}$ may be zero: the proximal term then holds the first operators of the table only, which are the values of the fields,
and $A$ costs an $M \times M$ factor per field instead of one of size $MD$ (`smoother`).
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.point_table import PointTable
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import add_diagonal
from gpde.functionals.combinations import combined
from gpde.functionals.functionals import Functionals, Kernels, gram, prior_variances
from gpde.linalg.cholesky import cholesky_solve, factor, half_solve
from gpde.linalg.escalation import NUGGET_GROWTH, until_good
from gpde.linalg.line_search import backtrack
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.active_set import nearest_within

# Not a combination: all functionals at once, each by itself.
_AS_IT_IS = ((0, None),)


class BatchPrior(NamedTuple):
    r"""The prior of a batch: $CC^T = K$ in units of prior standard deviations `unit`, and the metric $Q^{-1}$ in them, for the
    operators that the proximal term holds: the first ones."""

    lower: Float[Array, "size size"]
    unit: Float[Array, "operators batch"]
    metric: Float[Array, "held batch"]


class Batch(NamedTuple):
    r"""What a step needs of its batch: which points, their prior, and $A = (\lambda K^{-1} + \gamma Q^{-1})^{-1}$."""

    points: Int[Array, " batch"]
    prior: BatchPrior
    smoother: Float[Array, "size size"]


class Step(NamedTuple):
    """The values reached, the objective there, how many inner steps that took, and whether everything stayed finite."""

    values: Float[Array, "batch operators"]
    loss: Float[Array, ""]
    num_inner: Int[Array, ""]
    good: Bool[Array, ""]


class Anchors(eqx.Module):
    r"""A metric that depends on where in its batch a point is, nearest to the centre first.

    Only the first `held` operators, the values of the fields, are held: the `core`, a share of the batch, with the weight
    $\gamma$, the rim behind it with `ratio` times that. A batch of all points has no rim.
    """

    core: Float[Array, ""]
    ratio: Float[Array, ""]
    held: int = eqx.field(static=True)
    num_points: int = eqx.field(static=True)

    def metric(self, batch_size: int) -> Float[Array, "held batch"]:
        r"""$Q^{-1}$ in units of the prior standard deviations."""
        num_core = jnp.maximum(1, jnp.round(self.core * batch_size)) if batch_size < self.num_points else batch_size
        metric = jnp.where(jnp.arange(batch_size) < num_core, 1.0, self.ratio)
        return jnp.broadcast_to(metric, (self.held, batch_size))


class ProximalProblem(eqx.Module):
    r"""Algorithm 1's subproblem for any batch of a table of points.

    `nugget_scale` is the diagonal of $R$, one number per operator; `mean` has the values of the prior mean, and `weighed` what
    it leaves of data that it has weighed against their noise. `slack` is the variance of equations that are not eliminated, $M$
    in the paper. $Q$ is `metric`, by point and operator or by place in the batch (`Anchors`), or the diagonal of $K$. `bounds`
    are the lowest and highest values, the set $\mathcal X$; functionals that elimination takes out have none.
    """

    table: PointTable
    kernels: Kernels
    nugget_scale: Float[Array, " operators"]
    metric: Float[Array, "points operators"] | Anchors | None
    bounds: tuple[Float[Array, "points operators"], Float[Array, "points operators"]] | None
    mean: Float[Array, "points operators"]
    weighed: Float[Array, "points equations"]
    slack: Float[Array, "points equations"]
    regularization: Float[Array, ""]
    max_inner_steps: Int[Array, ""]
    inner_tolerance: Float[Array, ""]
    eliminate: bool = eqx.field(static=True)

    def prior(self, points: Int[Array, " batch"], nugget: Float[Array, ""]) -> BatchPrior:
        """The prior of a batch; NaN where its Gram matrix is not positive definite."""
        table = self.table
        prior = batch_prior(
            self.kernels,
            table.operators,
            table.points[points],
            table.active[points],
            nugget * self.nugget_scale,
        )
        return with_metric(prior, self.metric, points)

    def batch(self, points: Int[Array, " batch"], nugget: Float[Array, ""], weight: Float[Array, ""]) -> Batch:
        prior = self.prior(points, nugget)
        return Batch(points, prior, smoother(prior, self.regularization, weight))

    def holding(
        self, points: Int[Array, " batch"], prior: BatchPrior, found: Bool[Array, " batch"], weight: Float[Array, ""]
    ) -> Batch:
        """The batch whose proximal term holds the points that have been found alone."""
        held = prior._replace(metric=jnp.where(found, prior.metric, 0.0))
        return Batch(points, held, smoother(held, self.regularization, weight))

    def noise(self, points: Int[Array, " batch"]) -> Float[Array, "equations batch"]:
        r"""The diagonal of $\Lambda$: zero where the equation holds exactly, one in slots without an equation.

        Observations weigh against the prior as their variance says whatever $\lambda$ is.
        """
        variance = self.table.noise_variance[points].T
        exact = 0.0 if self.eliminate else self.slack[points].T
        noise = jnp.where(variance > 0, variance / self.regularization, exact)
        return jnp.where(self.table.has_equation[points].T, noise, 1.0)

    def linearized(
        self, points: Int[Array, " batch"], values: Float[Array, "batch operators"], unit: Float[Array, "operators batch"]
    ) -> tuple[Float[Array, "equations operators batch"], Float[Array, "equations batch"]]:
        r"""$\Psi$ in units of the prior standard deviations, and $f(z) - y$."""
        gradient = jax.vmap(self.table.gradient)(points, values)
        return gradient.transpose(1, 2, 0) * unit[None], self.residual(points, values)

    def residual(
        self, points: Int[Array, " batch"], values: Float[Array, "batch operators"]
    ) -> Float[Array, "equations batch"]:
        r"""$f(z) - y$; for data that the mean $m$ has weighed, $f(z) - f(m)$."""
        return (jax.vmap(self.table.residual)(points, values) - self.weighed[points]).T

    def retract(self, points: Int[Array, " batch"], values: Float[Array, "batch operators"]) -> Float[Array, "batch operators"]:
        """The values within bounds, with the equations solved for the functionals that elimination takes out."""
        if self.bounds is not None:
            values = jnp.clip(values, self.bounds[0][points], self.bounds[1][points])
        return jax.vmap(self.table.eliminate)(points, values) if self.eliminate else values

    def finite(self, values: Float[Array, "points operators"]) -> bool:
        """Whether the equations are numbers at values of all points: batches where they are not have been skipped."""
        points, unit = on_device(np.arange(values.shape[0])), on_device(np.ones(values.T.shape))
        psi, residual = eqx.filter_jit(self.linearized)(points, eqx.filter_jit(self.retract)(points, values), unit)
        return bool(np.all(np.isfinite(psi)) and np.all(np.isfinite(residual)))

    def objective(
        self,
        batch: Batch,
        values: Float[Array, "batch operators"],
        old: Float[Array, "batch operators"],
        weight: Float[Array, ""],
    ) -> Float[Array, ""]:
        r"""$\tfrac\lambda2 |z - m|^2_K + \tfrac\gamma2|z - z^k|_Q^2 + \tfrac12|f(z) - y|^2_\Lambda$ over soft equations."""
        prior = batch.prior
        scaled = values.T / prior.unit
        departure = scaled - self.mean[batch.points].T / prior.unit
        energy = self.regularization * jnp.sum(half_solve(prior.lower, departure.reshape(-1)) ** 2)
        held = len(prior.metric)
        proximal = weight * jnp.sum(prior.metric * (scaled - old.T / prior.unit)[:held] ** 2)
        objective = 0.5 * (energy + proximal)
        if self.eliminate and not any(part.noisy for part in self.table.collocation.parts):
            return objective  # every equation holds exactly
        noise = self.noise(batch.points)
        hard = noise <= 0
        soft = jnp.where(hard, 0.0, self.residual(batch.points, values) ** 2 / jnp.where(hard, 1.0, noise))
        return objective + 0.5 * jnp.sum(soft)

    def step(self, batch: Batch, old: Float[Array, "batch operators"], weight: Float[Array, ""]) -> Step:
        r"""One step of Algorithm 1 on a batch: damped Gauss–Newton from $z^k$ = `old`."""
        points, prior = batch.points, batch.prior
        noise = self.noise(points)
        centre = proximal_centre(batch, self.mean[points], old, weight)

        def proposal(values: Array) -> Array:
            psi, residual = self.linearized(points, values, prior.unit)
            gap = jnp.sum(psi * (values.T / prior.unit - centre)[None], axis=1) - residual
            if self.bounds is None:
                full = conditioned(batch.smoother, centre.reshape(-1), psi, gap, noise)
            else:
                full, covariance = conditional(batch.smoother, centre.reshape(-1), psi, gap, noise)
                low, high = (bound[points].T / prior.unit for bound in self.bounds)
                full = nearest_within(full, covariance, low.reshape(-1), high.reshape(-1))
            return (full.reshape(prior.unit.shape) * prior.unit).T

        def go_on(carry: tuple[Array, ...]) -> Array:
            _, _, num_inner, running, _ = carry
            return running & (num_inner < self.max_inner_steps)

        def body(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            values, current, num_inner, _, _ = carry
            full = proposal(values)
            small = jnp.max(jnp.abs((full - values).T / prior.unit)) <= self.inner_tolerance

            def trial(t: Array) -> tuple[Array, Array]:
                new = self.retract(points, values + t * (full - values))
                return new, self.objective(batch, new, old, weight)

            # A step below the tolerance is taken whole: rounding in the objective must not judge it.
            damped = backtrack(trial, jnp.where(small, jnp.inf, current), start=values)
            running = damped.accepted & ~small
            if self.table.collocation.linear:
                running &= damped.damping < 1
            return damped.point, damped.objective, num_inner + 1, running, jnp.all(jnp.isfinite(full))

        start = self.retract(points, old)
        first = self.objective(batch, start, old, weight)
        begin = (start, first, jnp.zeros((), dtype=int), jnp.isfinite(first), jnp.isfinite(first))
        values, loss, num_inner, _, good = jax.lax.while_loop(go_on, body, begin)
        return Step(values, loss, num_inner, good & jnp.isfinite(loss))


def batch_prior(
    kernels: Kernels,
    operators: tuple[LinearOperator, ...],
    points: Float[Array, "batch dim"],
    active: Bool[Array, "batch operators"],
    nugget: Float[Array, " operators"],
) -> BatchPrior:
    r"""$K = \kappa(\phi_I, \phi_I) + \eta R$ of a batch, factored, and $Q = \mathrm{diag} K$. Unused slots: identity rows."""
    num_operators, num_points = len(operators), points.shape[0]
    used = active.T.reshape(-1)
    matrix = gram(kernels, Functionals(operators, (points,) * num_operators))
    added = jnp.repeat(nugget, num_points)
    unit = jnp.sqrt(jnp.where(used, jnp.diagonal(matrix) + added, 1.0))
    inverse = jnp.where(used, 1 / unit, 0.0)
    matrix = add_diagonal(matrix * inverse[:, None] * inverse[None, :], jnp.where(used, added * inverse**2, 1.0))
    unit = unit.reshape(num_operators, num_points)
    return BatchPrior(factor(matrix)[0], unit, jnp.ones_like(unit))


def with_metric(
    prior: BatchPrior, metric: Float[Array, "points operators"] | Anchors | None, points: Int[Array, " batch"]
) -> BatchPrior:
    """The prior with another metric than the diagonal of $K$."""
    match metric:
        case None:
            return prior
        case Anchors():
            return prior._replace(metric=metric.metric(points.shape[0]))
    return prior._replace(metric=prior.unit**2 / metric[points].T)


def proximal_centre(
    batch: Batch, mean: Float[Array, "batch operators"], old: Float[Array, "batch operators"], weight: Float[Array, ""]
) -> Float[Array, "operators batch"]:
    r"""$\bar z = m + \gamma A Q^{-1} (z^k - m)$, where a step would go without equations."""
    prior = batch.prior
    pull = weight * prior.metric * ((old - mean).T / prior.unit)[: len(prior.metric)]
    return mean.T / prior.unit + (batch.smoother[:, : pull.size] @ pull.reshape(-1)).reshape(prior.unit.shape)


def smoother(prior: BatchPrior, regularization: Float[Array, ""], weight: Float[Array, ""]) -> Float[Array, "size size"]:
    r"""$A = W^T W$ with $RR^T = \lambda + \gamma C^T Q^{-1} C$ and $W = R^{-1} C^T$: no inverse of $K$ is formed.

    Where $Q^{-1}$ holds the first $m$ functionals only, $\gamma C^T Q^{-1} C$ is zero but for its first $m$ rows and columns,
    made of the first $m$ of $C$: a factor of size $m$ is enough, and the other rows of $W$ are those of $C^T/\sqrt\lambda$.
    """
    c, m = prior.lower, prior.metric.size
    corner = c[:m, :m]
    weighted = corner.T @ (corner * (weight * prior.metric.reshape(-1))[:, None])
    inner = add_diagonal(weighted, jnp.broadcast_to(regularization, (m,)))
    w = jnp.concatenate([half_solve(factor(inner)[0], c[:, :m].T), c[:, m:].T / jnp.sqrt(regularization)])
    return w.T @ w


def escalated(
    prior: Callable[[Float[Array, ""]], BatchPrior], nugget: Float[Array, ""], max_escalations: int
) -> tuple[BatchPrior, Int[Array, ""]]:
    """The prior with the first nugget of `nugget`, ten times it, ... whose factorisation succeeds, and how often it was
    raised."""

    def attempt(level: Array) -> BatchPrior:
        return prior(nugget * NUGGET_GROWTH**level)

    empty = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan), jax.eval_shape(prior, nugget))
    return until_good(attempt, lambda found: jnp.isfinite(found.lower[-1, -1]), (empty, jnp.full((), -1)), max_escalations)


def conditioned(
    a: Float[Array, "size size"],
    centre: Float[Array, " size"],
    psi: Float[Array, "equations operators batch"],
    gap: Float[Array, "equations batch"],
    noise: Float[Array, "equations batch"],
) -> Float[Array, " size"]:
    r"""$\bar z + A \Psi^T (\Psi A \Psi^T + \Lambda)^{-1} g$ with the gap $g = b - \Psi \bar z$."""
    lower, psi_a = _conditioning(a, psi, noise)
    return centre + cholesky_solve(lower, gap.reshape(-1)) @ psi_a


def conditional(
    a: Float[Array, "size size"],
    centre: Float[Array, " size"],
    psi: Float[Array, "equations operators batch"],
    gap: Float[Array, "equations batch"],
    noise: Float[Array, "equations batch"],
) -> tuple[Float[Array, " size"], Float[Array, "size size"]]:
    r"""What `conditioned` gives, and the covariance $A - A \Psi^T (\Psi A \Psi^T + \Lambda)^{-1} \Psi A$."""
    lower, psi_a = _conditioning(a, psi, noise)
    half = half_solve(lower, jnp.concatenate([psi_a, gap.reshape(-1, 1)], axis=1))
    return centre + half[:, -1] @ half[:, :-1], a - half[:, :-1].T @ half[:, :-1]


def _conditioning(
    a: Float[Array, "size size"], psi: Float[Array, "equations operators batch"], noise: Float[Array, "equations batch"]
) -> tuple[Float[Array, "rows rows"], Float[Array, "rows size"]]:
    r"""The Cholesky factor of $\Psi A \Psi^T + \Lambda$, and $\Psi A$."""
    num_operators, num_points = psi.shape[1:]
    equations = [list(enumerate(row)) for row in psi]
    rows = a.reshape(num_operators, num_points, -1)
    psi_a = jnp.concatenate([combined(lambda d, _: rows[d], row, _AS_IT_IS) for row in equations])
    blocks = psi_a.reshape(-1, num_operators, num_points)
    matrix = jnp.concatenate([combined(lambda _, d: blocks[:, d], _AS_IT_IS, row) for row in equations], axis=1)
    return factor(add_diagonal(matrix, noise.reshape(-1)))[0], psi_a


@eqx.filter_jit
def operator_scale(kernels: Kernels, table: PointTable) -> Float[Array, " operators"]:
    r"""The diagonal of $\mathcal R$: per operator the mean prior variance over the points that have it."""
    own = prior_variances(kernels, Functionals(table.operators, (table.points,) * table.num_operators))
    return jnp.stack([jnp.mean(v, where=used) for v, used in zip(own, table.active.T, strict=True)])
