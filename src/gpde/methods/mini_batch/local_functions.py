r"""The function that every batch stands for (2.15).

$u_I = m + \kappa(\cdot, \phi_I) w_I$ with $w_I = (\kappa(\phi_I, \phi_I) + \eta R)^{-1} (\tilde z_I - m_I)$, where $m$ is
the prior mean and $\tilde z_I$ one more proximal step around the values reached, with the equations linearised there. The
weights of a batch are computed once; what is left of a prediction near its centre is a sum over its functionals. That is how
a solution is evaluated (Remark 2.2, `prediction.py`) and how one set of points starts from a coarser one (`rungs.py`).
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.functionals import Kernels, block
from gpde.linalg.cholesky import cholesky_solve
from gpde.linalg.escalation import nugget_levels
from gpde.machine.arrays import on_device
from gpde.machine.threads import map_chunks, one_blas_thread
from gpde.methods.mini_batch.factor_cache import Factors
from gpde.methods.mini_batch.proximal import Batch, ProximalProblem, conditioned, escalated, proximal_centre, smoother

# Batches per call, and doubles that a chunk of points may hold in gathered weights: 2^20 are 8 MB, for each core.
_CALL_BATCHES = 256
_CHUNK_ENTRIES = 2**20


def local_weights(
    problem: ProximalProblem,
    batches: Int[np.ndarray, "batches batch"],
    first_row: int,
    factors: Factors | None,
    values: Float[Array, "points operators"],
    weight: float,
    nugget: float,
    max_escalations: int,
) -> Float[np.ndarray, "batches operators batch"]:
    """The weights of batches, which are the rows `first_row`, ... of the table that `factors` are of; NaN where every nugget
    failed."""
    shape = len(batches), problem.table.num_operators, batches.shape[1]
    found, left = np.full(shape, np.nan), np.arange(len(batches))
    # What fails with one nugget is tried with the next larger one: a prior may have a factor where what is made of it has none.
    for attempt, eta in enumerate(nugget_levels(nugget, max_escalations)):
        size = min(_CALL_BATCHES, len(left))
        for start in range(0, len(left), size):
            here = left[np.minimum(np.arange(start, start + size), len(left) - 1)]
            with one_blas_thread():
                new = _weights(
                    problem, on_device(batches[here]), on_device(first_row + here), factors if attempt == 0 else None,
                    values, on_device(float(weight)), on_device(eta), max_escalations,
                )  # fmt: skip
            found[here] = np.asarray(new)
        left = left[~np.isfinite(found[left]).all(axis=(1, 2))]
        if len(left) == 0:
            break
    return found


@eqx.filter_jit
def _weights(
    problem: ProximalProblem,
    batches: Int[Array, "batches batch"],
    rows: Int[Array, " batches"],
    factors: Factors | None,
    values: Float[Array, "points operators"],
    weight: Float[Array, ""],
    nugget: Float[Array, ""],
    max_escalations: int,
) -> Float[Array, "batches operators batch"]:
    def fresh(points: Array, row: Array) -> Batch:
        del row
        prior, _ = escalated(lambda eta: problem.prior(points, eta), nugget, max_escalations)
        return Batch(points, prior, smoother(prior, problem.regularization, weight))

    def made(batch: tuple[Array, Array]) -> Array:
        points, row = batch
        if factors is None:
            return _step_weights(problem, fresh(points, row), values, weight)
        kept = (row >= factors.first) & (row < factors.first + factors.num)
        return _step_weights(problem, jax.lax.cond(kept, factors.batch, fresh, points, row), values, weight)

    # One by one: under `vmap` every batch would pay for those whose factors are not kept.
    return jax.lax.map(made, (batches, rows))


def _step_weights(
    problem: ProximalProblem, batch: Batch, values: Float[Array, "points operators"], weight: Float[Array, ""]
) -> Float[Array, "operators batch"]:
    points, prior = batch.points, batch.prior
    mean = problem.mean[points]
    centre = proximal_centre(batch, mean, values[points], weight)
    psi, residual = problem.linearized(points, values[points], prior.unit)
    gap = jnp.sum(psi * (values[points].T / prior.unit - centre)[None], axis=1) - residual
    # After a run that failed there may be equations that are no numbers: what was reached is shown without them.
    finite = jnp.all(jnp.isfinite(psi), axis=1) & jnp.isfinite(gap)
    psi, gap = jnp.where(finite[:, None], psi, 0.0), jnp.where(finite, gap, 0.0)
    z = conditioned(batch.smoother, centre.reshape(-1), psi, gap, jnp.where(finite, problem.noise(points), 1.0))
    departure = z - (mean.T / prior.unit).reshape(-1)
    weights = cholesky_solve(prior.lower, departure).reshape(prior.unit.shape) / prior.unit
    return jnp.where(problem.table.active[points].T, weights, 0.0)


def evaluated(
    kernels: Kernels,
    sources: tuple[LinearOperator, ...],
    points: Float[Array, "points dim"],
    batches: Int[Array, "batches batch"],
    weights: Float[Array, "batches sources batch"],
    operators: Sequence[LinearOperator],
    places: Float[np.ndarray, "places dim"],
    rows: Int[np.ndarray, " places"],
) -> Float[np.ndarray, "places operators"]:
    """Operators of the local functions at places, at each that of one batch."""
    entries = batches.shape[1] * (len(sources) + places.shape[1])
    shared = kernels, sources, tuple(operators), points, batches, weights
    return map_chunks(_sums, shared, (places, rows), max(1, _CHUNK_ENTRIES // entries))[0]


@eqx.filter_jit
def _sums(
    shared: tuple[Kernels, tuple[LinearOperator, ...], tuple[LinearOperator, ...], Array, Array, Array],
    places: Float[Array, "places dim"],
    rows: Int[Array, " places"],
) -> tuple[Float[Array, "places operators"]]:
    kernels, sources, operators, points, batches, weights = shared

    def one(x: Array, row: Array) -> Array:
        near, own = points[batches[row]], weights[row]
        terms = [[block(kernels, o, s, x[None], near)[0] @ w for s, w in zip(sources, own, strict=True)] for o in operators]
        return jnp.stack([sum(row[1:], start=row[0]) for row in terms])

    return (jax.vmap(one)(places, rows),)
