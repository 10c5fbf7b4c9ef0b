"""What all steps of a mini-batch run share, and what changes from one to the next."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from gpde.methods.base import Setup
from gpde.methods.mini_batch.factor_cache import FactorCache
from gpde.methods.mini_batch.going_on import Start
from gpde.methods.mini_batch.proximal import ProximalProblem


@dataclasses.dataclass
class Work:
    """The problem that each step solves on its batch, the batches of nearest points (None where others are drawn), and a memo
    of their factors."""

    setup: Setup
    problem: ProximalProblem
    batches: Int[Array, "batches batch"] | None
    cache: FactorCache | None


class State(NamedTuple):
    r"""Latent values by point, the steps done and their losses, for every batch how often its nugget was raised.

    `output` is $z^{k^*}$ once it has been reached, where a random iterate is asked for. Batches are drawn by `seed`, after
    those that `start` says an earlier run has taken.
    """

    values: Float[Array, "points operators"]
    losses: Float[np.ndarray, " steps"]
    raised: Int[Array, " batches"]
    output: Float[Array, "points operators"] | None
    seed: int
    start: Start = Start()

    @property
    def num_steps(self) -> int:
        return len(self.losses)
