"""What all steps of a mini-batch run share, and what changes from one to the next."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.neighbours import Metric
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup
from gpde.methods.mini_batch.factor_cache import BatchRange, FactorCache
from gpde.methods.mini_batch.going_on import Earlier
from gpde.methods.mini_batch.mean import MOST_POINTS, SHARE, PriorMean
from gpde.methods.mini_batch.proximal import Anchors, ProximalProblem
from gpde.methods.mini_batch.raising import Course, Phase
from gpde.methods.mini_batch.rungs import Rung, coarser_points, rungs
from gpde.outcomes import Outcome

# Of the prior variance of an equation: what is left of one that cannot be eliminated.
_SLACK = 1e-10
# Of a field, in units of its prior standard deviation: no solution has such values.
_LARGEST_VALUE = 1e12


@dataclasses.dataclass
class Work:
    """The problem that each step solves on its batch, the metric of the prior and where the points lie in it, the batches of
    nearest points (None where others are drawn) of all sets of points, coarse to fine, a memo of their factors, the way of
    weights that raise themselves, and the coarse solution that is the prior mean, or why there is none."""

    setup: Setup
    problem: ProximalProblem
    metric: Metric
    coordinates: Float[np.ndarray, "points coordinates"]
    batches: Int[Array, "batches batch"] | None
    rungs: tuple[Rung, ...]
    cache: FactorCache | None
    course: Course | None
    mean: PriorMean | None = None
    without_mean: str | None = None

    def take_mean(self, mean: PriorMean) -> None:
        """Makes it the prior mean of all batches, whose factors do not depend on it."""
        self.mean = mean
        values = mean.table(self.setup, self.problem.table)
        weighed = mean.weighed(self.problem.table, values)
        self._take(eqx.tree_at(lambda problem: (problem.mean, problem.weighed), self.problem, (values, weighed)))

    def tighten(self, values: Float[Array, "points operators"]) -> None:
        """Makes equations that cannot be eliminated hold up to a small share of what the prior would leave of them at these
        values, where that is less than the paper's weight does."""
        problem, everything = self.problem, on_device(np.arange(len(values)))
        unit = jnp.sqrt(jnp.broadcast_to(problem.nugget_scale[:, None], values.T.shape))
        psi, _ = eqx.filter_jit(problem.linearized)(everything, values, unit)
        own = np.sum(np.asarray(psi) ** 2, axis=1).T
        slack = np.where(np.isfinite(own) & (own > 0), np.minimum(_SLACK * own, problem.slack), problem.slack)
        self._take(eqx.tree_at(lambda problem: problem.slack, problem, on_device(slack)))

    def _take(self, problem: ProximalProblem) -> None:
        self.problem = problem
        if self.course is not None:
            self.course = dataclasses.replace(self.course, problem=problem)

    def hold_rims(self, ratio: float) -> None:
        """Makes the rims of all batches weigh `ratio` times what their cores do."""
        metric = self.problem.metric
        if not isinstance(metric, Anchors) or float(metric.ratio) == ratio:
            return
        self.problem = eqx.tree_at(lambda problem: problem.metric.ratio, self.problem, on_device(ratio))
        self.cache = None if self.cache is None else self.cache.of(self.problem)
        if self.course is not None:
            self.course = dataclasses.replace(self.course, problem=self.problem, cache=self.cache)

    def nearest_batches(self, batch_size: int) -> tuple[BatchRange, Int[np.ndarray, "batches batch"]]:
        """The batches of nearest points of all points, and where they are in the table of a run that has them."""
        if self.batches is not None:
            rows = self.rungs[-1].rows
            return rows, np.asarray(self.batches)[rows.first : rows.first + rows.num]
        (rung,), batches = rungs(self.coordinates, np.asarray(self.problem.table.part), batch_size, nested=False)
        return rung.rows, batches

    def known_points(self, batch_size: int) -> Int[np.ndarray, " seen"]:
        """Points whose equations the solution is sure to have met as one Gaussian process would."""
        table = self.problem.table
        if batch_size >= table.num_points:
            return np.arange(table.num_points)
        if self.mean is not None:
            return self.mean.coarse.points
        return coarser_points(self.coordinates, np.asarray(table.part), min(MOST_POINTS, int(SHARE * table.num_points)))

    def failure(self, values: Float[Array, "points operators"]) -> Outcome | None:
        """How a run with these values ends, if they are none to go on from."""
        if not np.isfinite(values).all():
            return Outcome.NOT_FINITE
        num_fields = self.problem.table.collocation.num_fields
        largest = _LARGEST_VALUE * np.sqrt(self.problem.nugget_scale[:num_fields])
        return Outcome.DIVERGED if np.any(np.abs(values[:, :num_fields]) > largest) else None


class State(NamedTuple):
    r"""Latent values by point, the steps done and their losses, for every batch how often its nugget was raised.

    `output` is $z^{k^*}$ once it has been reached, where a random iterate is asked for. Batches are drawn by `seed`, after
    those that `start` says an earlier run has taken. `phase` is that of weights that raise themselves.
    """

    values: Float[Array, "points operators"]
    losses: Float[np.ndarray, " steps"]
    raised: Int[Array, " batches"]
    output: Float[Array, "points operators"] | None
    seed: int
    start: Earlier = Earlier()
    phase: Phase | None = None

    @property
    def num_steps(self) -> int:
        return len(self.losses)
