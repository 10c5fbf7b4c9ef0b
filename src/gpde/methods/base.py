"""What a method is, and the loop that runs every one of them."""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from gpde.collocation import Collocation
from gpde.functionals import Kernels
from gpde.linear_operators import LinearOperator
from gpde.results import Outcome, Result

State = PyTree
Info = dict[str, Any]
Callback = Callable[["Progress"], bool | None]


class Setup(eqx.Module):
    """What every method works on: the problem on its points, one kernel per field, the numerical nugget; and the names of
    fields and coordinates, for messages."""

    collocation: Collocation
    kernels: Kernels
    nugget: float = eqx.field(static=True)
    fields: tuple[str, ...] = eqx.field(static=True, default=("u",))
    coordinates: tuple[str, ...] = eqx.field(static=True, default=("x", "y", "z"))


class AbstractPredictor(eqx.Module):
    """A computed solution that can be evaluated anywhere.

    It is `continuous` unless it consists of pieces that need not fit together.
    """

    continuous: ClassVar[bool] = True

    @abstractmethod
    def values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        r"""$(L_k u)(x_i)$."""

    @abstractmethod
    def variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        r"""The conditional variance of $(L_k u)(x_i)$ for the problem linearised at the solution."""


class AbstractMethod(eqx.Module):
    """A way to solve a `Setup`: `init`, `step`, and what was reached as a predictor. The loop is `run`."""

    name: eqx.AbstractClassVar[str]
    max_steps: eqx.AbstractVar[int]

    @abstractmethod
    def check(self, setup: Setup) -> None:
        """Raises `ValueError` where the method cannot solve this problem as it is set."""

    @abstractmethod
    def init(self, setup: Setup, latent: Float[Array, " size"] | None, seed: int) -> State:
        """The state before the first step, from given latent values or from zero."""

    @abstractmethod
    def step(self, setup: Setup, state: State) -> tuple[State, Info, Outcome | None]:
        """One step: the next state, what a person wants to know of it, and how the run ends if it ends here.

        A method whose own steps are short takes many of them in one call and says so in the info, as `num_steps`. Where a
        step fails, the state that comes back is the one that went in.
        """

    @abstractmethod
    def latent(self, state: State) -> Float[Array, " size"]:
        """The latent values reached."""

    @abstractmethod
    def predictor(self, setup: Setup, state: State) -> AbstractPredictor:
        """The solution that the state stands for."""

    def default_nugget(self, nugget: float) -> float:
        """What to use where the user names no nugget and the problem's own default is `nugget`."""
        return nugget

    def nugget(self, setup: Setup, state: State) -> float:
        """The nugget in use, after any escalation."""
        return setup.nugget

    def notes(self, setup: Setup, state: State) -> tuple[str, ...]:
        """What else the result should say."""
        used = self.nugget(setup, state)
        return () if used == setup.nugget else (f"the nugget was raised from {setup.nugget:.1e} to {used:.1e}",)


class Progress(NamedTuple):
    """What a callback sees after each step; it may return True to stop the run."""

    num_steps: int
    max_steps: int
    info: Info
    state: State
    seconds: float


def run(
    method: AbstractMethod, setup: Setup, state: State, callback: Callback | None = None
) -> tuple[State, list[Info], Result]:
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
            state, info, outcome = method.step(setup, state)
            history.append({**info, "seconds": time.perf_counter() - start})
            num_steps += info.get("num_steps", 1)
            progress = Progress(num_steps, method.max_steps, info, state, history[-1]["seconds"])
            if callback is not None and callback(progress) and outcome is None:
                outcome = Outcome.INTERRUPTED
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
    result = Result(outcome, num_steps, method.name, method.nugget(setup, state), notes=method.notes(setup, state))
    return state, history, result


def check_positive(call: str, argument: str, value: object) -> None:
    """Raises `ValueError` unless a method's setting is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < float("inf"):
        raise ValueError(f"`{call}`: `{argument}` must be a finite number > 0; came {value!r}.")


def check_count(call: str, argument: str, value: object, least: int = 0) -> None:
    """Raises `ValueError` unless a method's setting is a whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{call}`: `{argument}` must be a whole number >= {least}; came {value!r}.")
