"""What steps reuse of their batches, computed in bulk within a memory budget."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gpde.machine import memory
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.proximal import Batch, BatchPrior, ProximalProblem, escalated, smoother

# The share of the machine's memory that a run may take for its factors.
_MEMORY_SHARE = 0.25
# Batches factored together: enough to keep the vector units busy, few enough to stay in cache.
_CHUNK_BATCHES = 16


class BatchRange(NamedTuple):
    """The batches `first`, `first + 1`, ... of a table, `num` of them."""

    first: int
    num: int


class Factors(NamedTuple):
    """For the batches `first` to `first + num` of a table: their priors, how often the nugget was raised for each, and their
    smoothers. There may be room for more of them."""

    prior: BatchPrior
    level: Int[Array, " room"]
    smoother: Float[Array, "room size size"]
    first: Int[Array, ""]
    num: Int[Array, ""]

    def has(self, row: Int[Array, ""], level: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether a batch is here, with its nugget raised so often."""
        place = row - self.first
        return (place >= 0) & (place < self.num) & (self.level[jnp.clip(place, 0, len(self.level) - 1)] == level)

    def batch(self, points: Int[Array, " batch"], row: Int[Array, ""]) -> Batch:
        place = row - self.first
        return Batch(points, jax.tree.map(lambda leaf: leaf[place], self.prior), self.smoother[place])


class FactorCache:
    """The factors of as many batches of a table as the budget holds, those of one set of rows and one proximal
    weight at a time.

    A memo and nothing else: dropping it changes no result.
    """

    def __init__(
        self,
        problem: ProximalProblem,
        batches: Int[Array, "batches batch"],
        nugget: float,
        max_escalations: int,
        room: int,
    ):
        self.room = room
        self._problem, self._batches = problem, batches
        self._nugget, self._max_escalations = nugget, max_escalations
        self._priors: tuple[BatchPrior, Int[Array, " room"]] | None = None
        self._smoothers: Float[Array, "room size size"] | None = None
        self._rows: BatchRange | None = None
        self._weight: float | None = None

    def of(self, problem: ProximalProblem) -> "FactorCache":
        """The same for another problem on these batches."""
        return FactorCache(problem, self._batches, self._nugget, self._max_escalations, self.room)

    def at(self, weight: float, rows: BatchRange) -> Factors | None:
        """The factors of the first of these rows for a proximal weight; None where the budget holds none."""
        if self.room == 0:
            return None
        kept = on_device(rows.first), on_device(min(rows.num, self.room))
        if self._priors is None or rows != self._rows:
            self._priors = self._smoothers = None  # freed before their successors are made
            self._priors = _priors(
                self._problem, self._batches, self.room, *kept, on_device(self._nugget), self._max_escalations
            )
            self._rows = rows
        if self._smoothers is None or weight != self._weight:
            self._smoothers = None
            self._smoothers = _smoothers(self._priors[0], kept[1], self._problem.regularization, on_device(weight))
            self._weight = weight
        return Factors(*self._priors, self._smoothers, *kept)


@eqx.filter_jit
def _priors(
    problem: ProximalProblem,
    batches: Int[Array, "batches batch"],
    room: int,
    first: Int[Array, ""],
    num: Int[Array, ""],
    nugget: Float[Array, ""],
    max_escalations: int,
) -> tuple[BatchPrior, Int[Array, " room"]]:
    def one(place: Array) -> tuple[BatchPrior, Array]:
        return escalated(lambda eta: problem.prior(batches[first + place], eta), nugget, max_escalations)

    return _in_chunks(one, room, num)


@eqx.filter_jit
def _smoothers(
    priors: BatchPrior, num: Int[Array, ""], regularization: Float[Array, ""], weight: Float[Array, ""]
) -> Float[Array, "room size size"]:
    def one(place: Array) -> Array:
        return smoother(jax.tree.map(lambda leaf: leaf[place], priors), regularization, weight)

    return _in_chunks(one, priors.lower.shape[0], num)


def _in_chunks(function, room: int, num: Int[Array, ""]):
    """`function` of 0, 1, ... up to `num`, in chunks, into arrays with `room` for more: one program for every number."""
    size = min(_CHUNK_BATCHES, room)
    empty = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape), leaf.dtype), jax.eval_shape(function, num))

    def body(chunk: Array, found):
        places = jnp.minimum(chunk * size + jnp.arange(size), num - 1)  # the last is made again to fill a chunk
        new = jax.vmap(function)(places)
        return jax.tree.map(lambda leaf, values: leaf.at[places].set(values), found, new)

    return jax.lax.fori_loop(0, (num + size - 1) // size, body, empty)


def num_kept(num_batches: int, size: int, budget_mb: float | int | None) -> int:
    """How many batches with `size` functionals a budget holds: as asked, or a share of what is free."""
    if budget_mb is not None:
        budget = budget_mb * 2**20
    else:
        # While factors are made there are two copies of them, so that this share is half of what is free.
        budget = _MEMORY_SHARE * min(memory.total_bytes(), memory.available())
    # Two factors, and beside them a few numbers for every functional.
    return min(num_batches, int(budget // (2 * 8 * size * (size + 1))))
