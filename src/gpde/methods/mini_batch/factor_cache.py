"""What steps reuse of their batches, computed in bulk within a memory budget."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gpde.machine import memory
from gpde.methods.mini_batch.proximal import BatchPrior, ProximalProblem, escalated, smoother

# The share of the machine's memory that a run may take for its factors.
_MEMORY_SHARE = 0.25
# Batches factored together: enough to keep the vector units busy, few enough to stay in cache.
_CHUNK_BATCHES = 16


class Factors(NamedTuple):
    """For the first batches of a table: their priors, how often the nugget was raised for each, and their smoothers."""

    prior: BatchPrior
    level: Int[Array, " batches"]
    smoother: Float[Array, "batches size size"]

    @property
    def num(self) -> int:
        return self.level.shape[0]


class FactorCache:
    """The factors of as many batches as the budget holds; smoothers are those of one proximal weight at a time.

    A memo and nothing else: dropping it changes no result.
    """

    def __init__(
        self,
        problem: ProximalProblem,
        batches: Int[Array, "batches batch"],
        nugget: float,
        max_escalations: int,
        budget_mb: float | int | None,
    ):
        size = batches.shape[1] * problem.table.num_operators
        self.num = num_kept(batches.shape[0], size, budget_mb)
        self._problem, self._batches = problem, batches[: self.num]
        self._nugget, self._max_escalations = nugget, max_escalations
        self._priors: tuple[BatchPrior, Int[Array, " batches"]] | None = None
        self._smoothers: Float[Array, "batches size size"] | None = None
        self._weight: float | None = None

    def at(self, weight: float) -> Factors | None:
        """The factors for a proximal weight; None where the budget holds none."""
        if self.num == 0:
            return None
        if self._priors is None:
            self._priors = _priors(self._problem, self._batches, jnp.asarray(self._nugget), self._max_escalations)
        if self._smoothers is None or weight != self._weight:
            self._smoothers = None  # freed before its successor is made
            self._smoothers = _smoothers(self._priors[0], self._problem.regularization, jnp.asarray(weight))
            self._weight = weight
        return Factors(*self._priors, self._smoothers)


@eqx.filter_jit
def _priors(
    problem: ProximalProblem, batches: Int[Array, "batches batch"], nugget: Float[Array, ""], max_escalations: int
) -> tuple[BatchPrior, Int[Array, " batches"]]:
    def one(points: Array) -> tuple[BatchPrior, Array]:
        return escalated(lambda eta: problem.prior(points, eta), nugget, max_escalations)

    return jax.lax.map(one, batches, batch_size=min(_CHUNK_BATCHES, batches.shape[0]))


@eqx.filter_jit
def _smoothers(
    priors: BatchPrior, regularization: Float[Array, ""], weight: Float[Array, ""]
) -> Float[Array, "batches size size"]:
    batch_size = min(_CHUNK_BATCHES, priors.lower.shape[0])
    return jax.lax.map(lambda prior: smoother(prior, regularization, weight), priors, batch_size=batch_size)


def num_kept(num_batches: int, size: int, budget_mb: float | int | None) -> int:
    """How many batches with `size` functionals a budget holds: as asked, or a share of what is free."""
    if budget_mb is not None:
        budget = budget_mb * 2**20
    else:
        # While factors are made there are two copies of them, so that this share is half of what is free.
        budget = _MEMORY_SHARE * min(memory.total(), memory.available())
    return min(num_batches, int(budget // (2 * 8 * size**2)))
