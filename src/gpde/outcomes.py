"""Every way a run can end, in words."""

import dataclasses
import enum
from collections.abc import Mapping


class Outcome(enum.Enum):
    """How a run ended: the sentence says what happened and what to do about it."""

    CONVERGED = "converged"
    FINISHED = "finished all its steps"
    MAX_STEPS = (
        "stopped at `max_steps` before the step became small; the last iterate is kept. "
        "Raise `max_steps`, or start closer (`initial=`), or solve an easier problem first and continue from it"
    )
    NOT_AT_REST = (
        "not at rest: all `num_steps` were taken while the values still changed; the last iterate is kept. Take more steps, "
        "or go on with this solution (`initial=`); or larger batches, where sweeps change little and do not end. Far from the "
        "solution, `method=gpde.Consensus()` or `gpde.FullBatch()`"
    )
    STALLED = (
        "stalled: no step along the Gauss-Newton direction lowered the objective; the last iterate is kept. "
        "Raise `nugget`, shorten the kernel's lengthscale, take more points, best where equations are off (`gpde.refine`, "
        "--adapt), or continue from an easier problem"
    )
    NOT_MET = (
        "not met: the method came to rest, but an equation does not hold at the run's own points. Look for equations that "
        "contradict each other; or the kernel cannot follow the solution: shorten its lengthscale, lower the nugget; "
        "or start closer (`initial=`), where an equation is far from linear"
    )
    NOT_RESOLVED = (
        "not resolved: the equations hold at the points, but between them one is off by so much that the function may be far "
        "from the solution. Take more points, best where it is off (`gpde.refine`, --adapt), or another lengthscale; or there "
        "is no smooth solution"
    )
    NOT_NEAR = (
        "not near: the batches came to rest far from where the full GP on these points would be. They know too little of each "
        "other here: take larger ones (`batch_size`), `method=gpde.Consensus()` or `gpde.FullBatch()`"
    )
    PLATEAU = "stopped early: the averaged loss no longer falls"
    NOT_POSITIVE_DEFINITE = (
        "failed: the Gram matrix is not positive definite even with the largest nugget tried; the last good iterate is kept. "
        "Raise `nugget`, shorten the lengthscale, or remove points that (nearly) coincide"
    )
    DEGENERATE = (
        "failed: at the iterate an equation does not change with the unknown (its derivative is zero there), so that no step "
        "leads on; the last good iterate is kept. Start where it does change: `initial=lambda x: ...`, or an easier problem's "
        "solution"
    )
    NOT_FINITE = (
        "failed: a value became infinite or NaN; the last good iterate is kept. "
        "Check that the equations are finite for every value of the unknown (log, sqrt, division), or start closer"
    )
    DIVERGED = (
        "failed: the values grew from sweep to sweep without end; an iterate from before is kept. Batches know too little of "
        "each other here: take larger ones (`batch_size`), `method=gpde.Consensus()` or `gpde.FullBatch()`"
    )
    INTERRUPTED = "interrupted; what was reached is kept"


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended: an `Outcome`, the numbers behind it, and warnings gathered on the way.

    `at_points` and `between_points` hold, for each part, the residual of its (worst) equation in units of the equation's own
    terms: at the run's points, and at points that it did not use.
    """

    outcome: Outcome
    num_steps: int
    method: str = ""
    nugget: float | None = None
    notes: tuple[str, ...] = ()
    at_points: Mapping[str, float] = dataclasses.field(default_factory=dict)
    between_points: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def successful(self) -> bool:
        return self.outcome in (Outcome.CONVERGED, Outcome.FINISHED, Outcome.PLATEAU)

    @property
    def failed(self) -> bool:
        """True where no trustworthy iterate was reached."""
        failures = (Outcome.NOT_POSITIVE_DEFINITE, Outcome.DEGENERATE, Outcome.NOT_FINITE, Outcome.DIVERGED)
        return self.outcome in failures

    def __str__(self) -> str:
        steps = f"{self.num_steps} step{'' if self.num_steps == 1 else 's'}"
        return "; ".join([f"{self.outcome.value} ({steps})", *self.notes])
