r"""Prediction from a batch of neighbours (Remark 2.2): no global system is ever solved.

For a point $x$ the batch is the one of the training point nearest to it, $I$. Around the final latent values $z$ the
proximal step is solved once more, with weight $\rho$ and the equations linearised at $z$, and its minimiser
$u = \kappa(\cdot, \phi_I)(\kappa(\phi_I, \phi_I) + \eta R)^{-1} \tilde z_I$ (2.15) is evaluated at $x$.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import add_diagonal
from gpde.functionals.functionals import Kernels, block, pair_covariance
from gpde.linalg.cholesky import half_solve, nugget_levels, solve
from gpde.machine.threads import one_blas_thread
from gpde.methods.base import AbstractPredictor
from gpde.methods.mini_batch.proximal import BatchPrior, ProximalProblem, batch_prior, conditioned, escalated, smoother

# Points that share a factorisation, batches factored together, and batches per call: few shapes are compiled.
_GROUP_SIZES = (1, 4, 16, 64)
_CHUNK_BATCHES = 8
_CALL_SIZES = (1, 16, 256)


class LocalPredictor(AbstractPredictor):
    r"""Each point is predicted by the batch of its nearest training point.

    Point by point: where it is, which operators it has, latent values $z$, the linearised equations $\Psi z' = b$ (rows
    `coefficients`, `rhs`) with their `noise` ($\Lambda$: 0 exact, 1 in slots without an equation), and $Q$
    (`proximal_metric`; None is the diagonal of the Gram matrix). Nearness is that of `metric`.

    Its variance is that of the same local Gaussian process: the prior given the batch's linearised equations and its latent
    values, these with the variance $\lambda Q/\rho$ at which the proximal term holds them.
    """

    continuous: ClassVar[bool] = False
    kernels: Kernels
    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: Float[Array, "points dim"]
    metric: Metric
    active: Bool[Array, "points operators"]
    latent: Float[Array, "points operators"]
    coefficients: Float[Array, "points equations operators"]
    rhs: Float[Array, "points equations"]
    noise: Float[Array, "points equations"]
    proximal_metric: Float[Array, "points operators"] | None
    nugget: Float[Array, " operators"]
    regularization: Float[Array, ""]
    proximal_weight: Float[Array, ""]
    batch_size: int
    max_escalations: int

    @classmethod
    def around(
        cls,
        problem: ProximalProblem,
        latent: Float[Array, "points operators"],
        metric: Metric,
        nugget: float,
        proximal_weight: float,
        batch_size: int,
        max_escalations: int,
    ) -> "LocalPredictor":
        """The predictor for the equations linearised at latent values."""
        table, lam = problem.table, problem.regularization
        everything = jnp.arange(table.num_points)
        unit = jnp.ones((table.num_operators, table.num_points))
        psi, residual = eqx.filter_jit(problem.linearized)(everything, latent, unit)
        rhs = jnp.sum(psi * latent.T[None], axis=1) - residual
        # After a run that failed there may be equations that are no numbers: what was reached is shown without them.
        finite = jnp.all(jnp.isfinite(psi), axis=1) & jnp.isfinite(rhs)
        # A relaxed equation has the weight 1/M of its batch, not of all points.
        noise = jnp.where(table.noise_variance > 0, table.noise_variance, 0.0 if problem.eliminate else lam * batch_size)
        return cls(
            kernels=problem.kernels,
            operators=table.operators,
            points=table.points,
            metric=metric,
            active=table.active,
            latent=latent,
            coefficients=jnp.where(finite[:, None], psi, 0.0).transpose(2, 0, 1),
            rhs=jnp.where(finite, rhs, 0.0).T,
            noise=jnp.where(table.has_equation & finite.T, noise, 1.0),
            proximal_metric=problem.metric,
            nugget=nugget * problem.nugget_scale,
            regularization=lam,
            proximal_weight=jnp.asarray(proximal_weight),
            batch_size=batch_size,
            max_escalations=max_escalations,
        )

    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        return self._evaluated(_values, tuple(operators), points)

    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        return self._evaluated(_variances, tuple(operators), points)

    def _evaluated(
        self, local: "_Local", operators: tuple[LinearOperator, ...], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        """Groups the points by batch, so that every batch is factored about once, and evaluates in calls of one shape."""
        coordinates = self.metric.coordinates(np.asarray(self.points))
        index = NeighbourIndex(coordinates)
        centre = index.nearest(self.metric.coordinates(points), 1)[1][:, 0]
        order = np.argsort(centre, kind="stable")
        centres, first, counts = np.unique(centre[order], return_index=True, return_counts=True)
        width = next((size for size in _GROUP_SIZES if size >= counts.mean()), _GROUP_SIZES[-1])
        # A group is one batch and up to `width` of its points; the last point is repeated to fill a group.
        groups = [(c, order[f + skip : f + n][:width]) for c, f, n in zip(centres, first, counts, strict=True)
                  for skip in range(0, n, width)]  # fmt: skip
        members = np.stack([np.pad(which, (0, width - len(which)), "edge") for _, which in groups])
        _, batches = index.nearest(coordinates[[c for c, _ in groups]], self.batch_size)
        out = np.full((len(points), len(operators)), np.nan)
        left = np.arange(len(groups))
        # What fails with one nugget is tried with the next larger one: the prior has a factor then, but not all that is made
        # of it need have one.
        for growth in nugget_levels(1.0, self.max_escalations):
            found = self._in_calls(local, operators, batches[left], points[members[left]], growth)
            out[members[left].reshape(-1)] = found.reshape(-1, len(operators))
            left = left[~np.isfinite(found).all(axis=(1, 2))]
            if len(left) == 0:
                break
        return out

    def _in_calls(
        self,
        local: "_Local",
        operators: tuple[LinearOperator, ...],
        batches: Int[np.ndarray, "groups batch"],
        points: Float[np.ndarray, "groups group dim"],
        growth: float,
    ) -> Float[np.ndarray, "groups group operators"]:
        """The groups in calls of one shape; the last group is repeated to fill a call."""
        size = next((size for size in _CALL_SIZES if size >= len(batches)), _CALL_SIZES[-1])
        found = []
        for start in range(0, len(batches), size):
            here = np.minimum(np.arange(start, start + size), len(batches) - 1)
            with one_blas_thread():
                call = _in_bulk(
                    self, local, operators, jnp.asarray(batches[here]), jnp.asarray(points[here]), jnp.asarray(growth)
                )
                found.append(np.asarray(call)[: len(batches) - start])
        return np.concatenate(found)

    def prior(self, batch: Int[Array, " batch"], growth: Float[Array, ""]) -> BatchPrior:
        """The prior of a batch, its nugget raised by `growth`, and further where it must be."""

        def at(growth: Array) -> BatchPrior:
            nugget = growth * self.nugget
            return batch_prior(self.kernels, self.operators, self.points[batch], self.active[batch], nugget)

        prior, _ = escalated(at, growth, self.max_escalations)
        return prior if self.proximal_metric is None else prior._replace(metric=prior.unit**2 / self.proximal_metric[batch].T)

    def cross(
        self, operators: tuple[LinearOperator, ...], batch: Int[Array, " batch"], points: Float[Array, "group dim"]
    ) -> Float[Array, "operators group size"]:
        r"""$\kappa(L \delta_x, \phi_I)$."""
        x = self.points[batch]
        return jnp.stack(
            [jnp.concatenate([block(self.kernels, o, own, points, x) for own in self.operators], axis=1) for o in operators]
        )


_Local = Callable[
    [LocalPredictor, tuple[LinearOperator, ...], Int[Array, " batch"], Float[Array, "group dim"], Float[Array, ""]], Array
]


def _values(
    predictor: LocalPredictor,
    operators: tuple[LinearOperator, ...],
    batch: Int[Array, " batch"],
    points: Float[Array, "group dim"],
    growth: Float[Array, ""],
) -> Float[Array, "group operators"]:
    prior = predictor.prior(batch, growth)
    rho = predictor.proximal_weight
    a = smoother(prior, predictor.regularization, rho)
    old = predictor.latent[batch].T / prior.unit
    centre = (a @ (rho * prior.metric * old).reshape(-1)).reshape(prior.unit.shape)
    psi = predictor.coefficients[batch].transpose(1, 2, 0) * prior.unit[None]
    gap = predictor.rhs[batch].T - jnp.sum(psi * centre[None], axis=1)
    z = conditioned(a, centre.reshape(-1), psi, gap, predictor.noise[batch].T / predictor.regularization)
    weights = solve(prior.lower, z) / prior.unit.reshape(-1)
    used = predictor.active[batch].T.reshape(-1)
    return (predictor.cross(operators, batch, points) @ jnp.where(used, weights, 0.0)).T


def _variances(
    predictor: LocalPredictor,
    operators: tuple[LinearOperator, ...],
    batch: Int[Array, " batch"],
    points: Float[Array, "group dim"],
    growth: Float[Array, ""],
) -> Float[Array, "group operators"]:
    prior = predictor.prior(batch, growth)
    size = prior.lower.shape[0]
    psi = predictor.coefficients[batch].transpose(1, 2, 0) * prior.unit[None]
    _, num_operators, num_points = psi.shape
    eye = jnp.eye(num_points)
    dense = jnp.concatenate([jnp.concatenate([row[d][:, None] * eye for d in range(num_operators)], axis=1) for row in psi])
    rows = jnp.concatenate([jnp.eye(size), dense])
    held = predictor.regularization / (predictor.proximal_weight * prior.metric.reshape(-1))
    noise = jnp.concatenate([held, predictor.noise[batch].T.reshape(-1)])
    half = rows @ prior.lower
    # Rows of an exact equation follow from those of values that are held hard: a trace of noise, when it comes to that.
    trace = (growth - 1.0) * jnp.finfo(half.dtype).eps * jnp.sum(half**2, axis=1)
    lower = jnp.linalg.cholesky(add_diagonal(half @ half.T, noise + trace), symmetrize_input=False)
    used = predictor.active[batch].T.reshape(-1)
    cross = predictor.cross(operators, batch, points) * jnp.where(used, 1 / prior.unit.reshape(-1), 0.0)[None, None, :]

    # One solve for all operators: batched LAPACK calls must not run at once (jaxlib 0.10.2).
    explained = jnp.sum(half_solve(lower, rows @ cross.reshape(-1, size).T) ** 2, axis=0).reshape(cross.shape[:2])
    pairs = [pair_covariance(predictor.kernels, operator, operator) for operator in operators]
    unconditional = jnp.stack([jax.vmap(lambda p, pair=pair: pair(p, p))(points) for pair in pairs])
    return jnp.maximum(unconditional - explained, 0.0).T


@eqx.filter_jit
def _in_bulk(
    predictor: LocalPredictor,
    local: _Local,
    operators: tuple[LinearOperator, ...],
    batches: Int[Array, "groups batch"],
    points: Float[Array, "groups group dim"],
    growth: Float[Array, ""],
) -> Float[Array, "groups group operators"]:
    return jax.lax.map(
        lambda group: local(predictor, operators, group[0], group[1], growth),
        (batches, points),
        batch_size=min(_CHUNK_BATCHES, len(batches)),
    )
