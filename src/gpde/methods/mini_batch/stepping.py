"""Many steps of Algorithm 1 in one compiled loop, one batch after the other or several disjoint ones at a time."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.linalg.escalation import NUGGET_GROWTH, until_good
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.factor_cache import Factors
from gpde.methods.mini_batch.proximal import Batch, ProximalProblem, Step

_LEAST_ROOM = 64
AVERAGED_STEPS = 10  # the paper's loss curves average the last ten steps (Sec. 4.1)


class Record(NamedTuple):
    """What is kept of every step: the loss (NaN where the batch was skipped) and the number of inner steps."""

    loss: Float[Array, " steps"]
    num_inner: Int[Array, " steps"]

    @staticmethod
    def empty(room: int) -> "Record":
        return Record(on_device(np.zeros(room)), on_device(np.zeros(room, dtype=int)))


def room_for(num_steps: int) -> int:
    """The length of arrays for so many steps: a power of two, so that a run with other steps compiles nothing."""
    return max(_LEAST_ROOM, 1 << (num_steps - 1).bit_length())


class Stepped(NamedTuple):
    """Latent values by point, which of them a step has found (or someone has given), how often the nugget of each batch was
    raised, and the record.

    A value that nobody has found says nothing, and the proximal term does not hold it; it is found by a step around its point.
    """

    values: Float[Array, "points operators"]
    found: Bool[Array, " points"]
    raised: Int[Array, " batches"]
    record: Record


class Plan(NamedTuple):
    """The batches of a table that coming steps take, and which steps go together (padded with -1)."""

    table: Int[Array, "batches batch"]
    rows: Int[Array, " steps"]
    groups: Int[Array, "groups lanes"]


def plan(
    table: Int[Array, "batches batch"], rows: Int[np.ndarray, " steps"], num_lanes: int, max_steps: int
) -> tuple[Plan, int]:
    """Groups of at most `num_lanes` steps with disjoint batches, and their number; shapes are those of `max_steps` steps.

    A step goes into the earliest group after every earlier step that shares a point with it. Steps of disjoint batches
    commute, so the groups, in order, give what the steps give one by one.
    """
    groups = np.full((max_steps, num_lanes), -1)
    padded = on_device(np.pad(rows, (0, max_steps - len(rows))))
    if num_lanes == 1:
        groups[: len(rows), 0] = np.arange(len(rows))
        return Plan(table, padded, on_device(groups)), len(rows)
    batches = np.asarray(table)
    after = np.zeros(batches.max() + 1, dtype=int)  # the first group in which a point is free again
    filled = np.zeros(len(rows) + 1, dtype=int)
    first_open = 0
    for step, row in enumerate(rows):
        group = max(first_open, int(after[batches[row]].max()))
        while filled[group] == num_lanes:
            group += 1
        groups[group, filled[group]] = step
        filled[group] += 1
        after[batches[row]] = group + 1
        while filled[first_open] == num_lanes:
            first_open += 1
    return Plan(table, padded, on_device(groups)), int(np.sum(filled > 0))


@eqx.filter_jit
def take_steps(
    problem: ProximalProblem,
    factors: Factors | None,
    plan: Plan,
    progress: Stepped,
    num_groups: Int[Array, ""],
    offset: Int[Array, ""],
    weight: Float[Array, ""],
    nugget: Float[Array, ""],
    max_escalations: int,
) -> Stepped:
    """The first groups of a plan. Latent values change in place, row by row; records start at `offset`."""
    table = plan.table
    num_points = progress.values.shape[0]

    def fresh(row: Array, level: Array, found: Array) -> Batch:
        prior = problem.prior(table[row], nugget * NUGGET_GROWTH ** level.astype(float))
        return problem.holding(table[row], prior, found, weight)

    def batch(row: Array, level: Array, found: Array) -> Batch:
        """What is kept of a batch, and what has to be made: all, or only what changes where values have not been found."""
        if factors is None:
            return fresh(row, level, found)

        def kept(row: Array, level: Array, found: Array) -> Batch:
            del level
            assert factors is not None
            whole = factors.batch(table[row], row)
            return jax.lax.cond(jnp.all(found), lambda: whole, lambda: problem.holding(table[row], whole.prior, found, weight))

        return jax.lax.cond(factors.has(row, level), kept, fresh, row, level, found)

    def raised(row: Array, old: Array, found: Array, last: tuple[Step, Array]) -> tuple[Step, Array]:
        """Tries a batch with larger nuggets until its step stays finite."""
        return until_good(
            lambda level: problem.step(batch(row, level, found), old, weight), lambda step: step.good, last, max_escalations
        )

    def one(row: Array, old: Array, found: Array, level: Array) -> tuple[Step, Array]:
        none = Step(old, jnp.full((), jnp.nan), jnp.zeros((), dtype=int), jnp.zeros((), dtype=bool))
        return raised(row, old, found, (none, level - 1))

    def several(rows: Array, olds: Array, found: Array, levels: Array) -> tuple[Step, Array]:
        if factors is None:
            batches = jax.vmap(fresh)(rows, levels, found)
        else:
            all_kept = jnp.all(jax.vmap(factors.has)(rows, levels)) & jnp.all(found)
            kept = eqx.Partial(lambda known, row, *_: known.batch(table[row], row), factors)
            batches = jax.lax.cond(all_kept, jax.vmap(kept), jax.vmap(fresh), rows, levels, found)
        # Batched LAPACK calls that could run at once wait for each other for ever (jaxlib 0.10.2): first all factors.
        batches = jax.lax.optimization_barrier(batches)
        steps = jax.vmap(problem.step, in_axes=(0, 0, None))(batches, olds, weight)
        # One by one, and only where something failed: under `vmap` every lane would pay for it.
        return jax.lax.cond(
            jnp.all(steps.good),
            lambda: (steps, levels),
            lambda: jax.lax.map(
                lambda lane: raised(lane[0], lane[1], lane[2], (lane[3], lane[4])), (rows, olds, found, steps, levels)
            ),
        )

    def body(index: Array, progress: Stepped) -> Stepped:
        values, found, raised, record = progress
        if plan.groups.shape[1] == 1:
            number = plan.groups[index, 0]
            row = plan.rows[number]
            points, used = table[row], jnp.ones((), dtype=bool)
            old = values[points]
            step, level = one(row, old, found[points], raised[row])
            keep = step.good
        else:
            number = plan.groups[index]
            used = number >= 0
            row = plan.rows[jnp.maximum(number, 0)]
            points = table[row]
            old = values[points]
            step, level = several(row, old, found[points], raised[row])
            keep = step.good[:, None, None]
            points = jnp.where(used[:, None], points, num_points)  # writes beyond the end are dropped
        # A batch that fails with every nugget is skipped.
        values = values.at[points].set(jnp.where(keep, step.values, old), mode="drop")
        found = found.at[jnp.where(step.good, points[..., 0], num_points)].set(True, mode="drop")
        raised = raised.at[jnp.where(used, row, raised.shape[0])].set(jnp.where(step.good, level, raised[row]), mode="drop")
        here = jnp.where(used, offset + number, record.loss.shape[0])
        loss = record.loss.at[here].set(jnp.where(step.good, step.loss, jnp.nan), mode="drop")
        return Stepped(values, found, raised, Record(loss, record.num_inner.at[here].set(step.num_inner, mode="drop")))

    return jax.lax.fori_loop(0, num_groups, body, progress)


def moving_average(losses: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """The mean of the last ten losses at every step, skipped steps left out."""
    padded = np.concatenate([np.full(AVERAGED_STEPS - 1, np.nan), losses])
    windows = np.lib.stride_tricks.sliding_window_view(padded, AVERAGED_STEPS)
    good = np.isfinite(windows)
    sums, counts = np.where(good, windows, 0.0).sum(axis=1), good.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
