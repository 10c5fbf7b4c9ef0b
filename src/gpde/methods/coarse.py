r"""Nested iteration: a run on many points starts from the full GP on few of them.

The full GP sees the whole domain at once and has a ladder of nuggets, so it finds its way from afar where local methods do not;
on some hundred points it costs next to nothing. Its function, even if it is off by a few percent, is where local methods start:
near the solution, which also saves them steps.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.neighbours import Metric
from gpde.collocation.thinning import thinned
from gpde.methods.base import Setup
from gpde.methods.full_batch.method import FullBatch
from gpde.methods.representer import Representer
from gpde.methods.start import Start
from gpde.outcomes import Outcome

_NUM_POINTS = 1000
# Equations with many operators, and systems, have Gram matrices of that many rows.
_NUM_FUNCTIONALS = 6000
# A start is rough anyway: steps beyond that tolerance and digits below that nugget are lost on it.
_TOLERANCE, _NUGGET = 1e-3, 1e-10


@dataclasses.dataclass(frozen=True)
class Coarse:
    """A coarse solution: its function, its points among all, its steps, whether it came to rest, and what makes its
    predictor, for those who ask for its variance."""

    start: Start
    points: Int[np.ndarray, " points"]
    num_steps: int
    settled: bool
    predictor: Callable[[], Representer]

    @property
    def num_points(self) -> int:
        return len(self.points)

    def note(self) -> str:
        """For runs that start from it."""
        rest = "" if self.settled else ", which did not come to rest"
        return f"started from the full GP on {self.num_points} of the points ({self.num_steps} steps{rest})"


def coarse_start(
    setup: Setup,
    num_points: int = _NUM_POINTS,
    *,
    latent: Float[Array, " size"] | None = None,
    tolerance: float = _TOLERANCE,
    least_nugget: float = _NUGGET,
    all_data: bool = False,
) -> Coarse | None:
    """The full GP on a thinned subset of about `num_points` points, beside all data if asked for, from given latent values of
    the whole problem or from its own start; None where that fails."""
    collocation = setup.collocation
    functionals_per_point = max(1.0, collocation.functionals.size / collocation.num_points)
    metric = Metric.of(setup.kernels, collocation.parts[0].points.shape[1])
    num_points = min(num_points, int(_NUM_FUNCTIONALS / functionals_per_point))
    few = thinned(collocation, metric, num_points, all_data=all_data)
    nugget = max(setup.nugget, least_nugget)
    method = FullBatch(tolerance=tolerance)
    work = method.prepare(Setup(few.collocation, setup.kernels, nugget, setup.fields, setup.coordinates))
    state = method.init(work, None if latent is None else latent[few.places], 0)
    outcome, num_steps = None, 0
    while outcome is None and num_steps < method.max_steps:
        state, _, outcome = method.step(work, state)
        num_steps += 1
    if outcome in (Outcome.NOT_FINITE, Outcome.NOT_POSITIVE_DEFINITE):
        return None
    start = Start(few.collocation.functionals, state.weights, few.places)
    settled = outcome is Outcome.CONVERGED
    return Coarse(start, few.points, num_steps, settled, lambda: method.predictor(work, state))
