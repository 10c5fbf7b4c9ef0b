"""The loop that runs every method."""

import time
from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Float

from gpde.machine import interrupts
from gpde.methods.base import AbstractMethod, Info, State, Work
from gpde.outcomes import Outcome, Result


class Progress(NamedTuple):
    """What a callback sees after each step; it may return True to stop the run.

    Where a run is many solves, each of them is a step, and there is no `method`, `work` or `state`.
    """

    num_steps: int
    max_steps: int
    info: Info
    seconds: float
    method: AbstractMethod | None = None
    work: Work = None
    state: State = None

    @property
    def latent(self) -> Float[Array, " size"]:
        """The latent values reached."""
        if self.method is None:
            raise ValueError("`latent`: this progress is that of several solves, which have latent values of their own.")
        return self.method.latent(self.work, self.state)


Callback = Callable[[Progress], bool | None]


def run(method: AbstractMethod, work: Work, state: State, callback: Callback | None = None) -> tuple[State, list[Info], Result]:
    """Steps until the method ends, `max_steps` are done, a callback says stop, or the user interrupts."""
    history: list[Info] = []
    num_steps = 0
    outcome: Outcome | None = None
    start = time.perf_counter()
    try:
        while outcome is None:
            if num_steps >= method.max_steps:
                outcome = Outcome.MAX_STEPS
                break
            state, info, outcome = method.step(work, state)
            history.append({**info, "seconds": time.perf_counter() - start})
            num_steps += info.get("num_steps", 1)
            progress = Progress(num_steps, method.max_steps, info, history[-1]["seconds"], method, work, state)
            if callback is not None and callback(progress) and outcome is None:
                outcome = Outcome.INTERRUPTED
    except KeyboardInterrupt:
        interrupts.remember()
        outcome = Outcome.INTERRUPTED
    result = Result(outcome, num_steps, method.name, method.nugget(work, state), notes=method.notes(work, state))
    return state, history, result
