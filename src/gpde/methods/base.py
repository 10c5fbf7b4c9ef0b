"""What a method is; the loop that runs every one of them is in `run.py`."""

import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from gpde.collocation.collocation import Collocation
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.functionals import Kernels
from gpde.outcomes import Outcome

State = PyTree
"""What changes from step to step: arrays and numbers only, so that it can be written to a file."""
Work = Any
"""What is computed once for all steps of a run, an object with the `setup` it was made of: tables, covers, batches, linear
solvers, and memos of what steps would compute again."""
Info = dict[str, Any]
Kept = TypeVar("Kept")
# What predictors keep, by their identity.
_KEPT: dict[int, Any] = {}
# Between these, numbers of points to predict at are rounded up to powers of two.
_LEAST_ROUNDED, _MOST_ROUNDED = 64, 1024


class Setup(eqx.Module):
    """What every method works on: the problem on its points, one kernel per field, the numerical nugget; and the names of
    fields, coordinates and those fields that are scalars, constant everywhere, for messages; whether the kernels were learned,
    so that a method may learn on."""

    collocation: Collocation
    kernels: Kernels
    nugget: float = eqx.field(static=True)
    fields: tuple[str, ...] = eqx.field(static=True, default=("u",))
    coordinates: tuple[str, ...] = eqx.field(static=True, default=("x", "y", "z"))
    scalars: tuple[str, ...] = eqx.field(static=True, default=())
    learned: bool = eqx.field(static=True, default=False)


class AbstractPredictor(eqx.Module):
    """A computed solution that can be evaluated anywhere; where it cannot, it says so instead of returning NaN.

    It is `continuous` unless it consists of pieces that need not fit together.
    """

    continuous: ClassVar[bool] = True

    def values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        r"""$(L_k u)(x_i)$."""
        return _finite("the solution", _at_round_number(self.raw_values, operators, points))

    def variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        r"""The conditional variance of $(L_k u)(x_i)$ for the problem linearised at the solution."""
        return _finite("`std`", _at_round_number(self.raw_variances, operators, points))

    def once(self, compute: Callable[[], Kept]) -> Kept:
        """What `compute` gives: computed at the first call for this predictor, and kept beside it as long as it lives. It is
        no part of the predictor, which does not change and whose files hold what it is, not what was computed of it."""
        key = id(self)
        if key not in _KEPT:
            _KEPT[key] = compute()
            weakref.finalize(self, _KEPT.pop, key, None)
        return _KEPT[key]

    @abstractmethod
    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        """`values` as they come, NaN where a factorisation failed."""

    @abstractmethod
    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        """`variances` as they come, NaN where a factorisation failed."""


def _at_round_number(
    evaluate: Callable[..., Float[np.ndarray, "more operators"]],
    operators: Sequence[LinearOperator],
    points: Float[np.ndarray, "points dim"],
) -> Float[np.ndarray, "points operators"]:
    """Few points are evaluated as a power of two of them, the last one repeated: another number of points compiles nothing."""
    num = len(points)
    if not 0 < num <= _MOST_ROUNDED:
        return evaluate(operators, points)
    rounded = max(_LEAST_ROUNDED, 1 << (num - 1).bit_length())
    return evaluate(operators, np.concatenate([points, np.repeat(points[-1:], rounded - num, axis=0)]))[:num]


def _finite(what: str, numbers: Float[np.ndarray, "points operators"]) -> Float[np.ndarray, "points operators"]:
    bad = int(np.sum(~np.isfinite(numbers).all(axis=1)))
    if bad:
        raise ValueError(
            f"{what} is not finite at {bad} of {len(numbers)} points: a covariance that it needs there is not positive "
            "definite in double precision, or the run left values that are no numbers (`solution.result` says how it ended). "
            "Raise `nugget` or shorten the kernel's lengthscale, and solve again."
        )
    return numbers


class AbstractMethod(eqx.Module):
    """A way to solve a `Setup`: `prepare` what all steps share, `init`, `step`, and what was reached as a predictor."""

    name: eqx.AbstractClassVar[str]
    max_steps: eqx.AbstractVar[int]
    # Whether it can hold equations that are sums over many points.
    takes_means: ClassVar[bool] = False
    # Problems name a nugget that suits all points at once. Batches and patches are small, and raise their own where they must.
    largest_default_nugget: ClassVar[float] = float("inf")

    def for_setup(self, setup: Setup) -> "AbstractMethod":
        """The method with those defaults that depend on the problem."""
        return self

    @abstractmethod
    def check(self, setup: Setup) -> None:
        """Raises `ValueError` where the method cannot solve this problem as it is set."""

    def memory(self, setup: Setup) -> float:
        """Bytes that a run holds at its peak, rather too many than too few: what grows with the number of points, from the
        setup alone. A method that does not say is never refused."""
        return 0.0

    def memory_advice(self, setup: Setup, available: float) -> str:
        """What to change where `memory` is more than there is."""
        return "Take fewer points."

    @abstractmethod
    def prepare(self, setup: Setup) -> Work:
        """What all steps of a run share, computed once."""

    @abstractmethod
    def init(self, work: Work, latent: Float[Array, " size"] | None, seed: int) -> State:
        """The state before the first step, from given latent values or from zero."""

    @abstractmethod
    def step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        """One step: the next state, what a person wants to know of it, and how the run ends if it ends here.

        A method whose own steps are short takes many of them in one call and says so in the info, as `num_steps`. Where a
        step fails, the state that comes back is the one that went in.
        """

    @abstractmethod
    def latent(self, work: Work, state: State) -> Float[Array, " size"]:
        """The latent values reached."""

    @abstractmethod
    def predictor(self, work: Work, state: State) -> AbstractPredictor:
        """The solution that the state stands for."""

    def resume(self, work: Work, state: State) -> Any:
        """What a later run needs to go on where this one ended, to be kept with the solution; None: nothing but its values."""
        return None

    def resumed(self, work: Work, earlier: Any, seed: int) -> State | str | None:
        """The state in which an earlier run ended, from what it kept; words that say why it is not one to go on from here;
        None where this method never goes on from it."""
        return None

    def default_nugget(self, nugget: float) -> float:
        """What to use where the user names no nugget and the problem's own default is `nugget`."""
        return min(nugget, self.largest_default_nugget)

    def nugget(self, work: Work, state: State) -> float:
        """The nugget in use, after any escalation."""
        return work.setup.nugget

    def notes(self, work: Work, state: State) -> tuple[str, ...]:
        """What else the result should say."""
        asked, used = work.setup.nugget, self.nugget(work, state)
        return () if used == asked else (f"the nugget was raised from {asked:.1e} to {used:.1e}",)


def check_positive(call: str, argument: str, value: object) -> None:
    """Raises `ValueError` unless a method's setting is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < float("inf"):
        raise ValueError(f"`{call}`: `{argument}` must be a finite number > 0; came {value!r}.")


def check_count(call: str, argument: str, value: object, least: int = 0) -> None:
    """Raises `ValueError` unless a method's setting is a whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{call}`: `{argument}` must be a whole number >= {least}; came {value!r}.")


def round_down(number: float) -> int:
    """A number of points for a message, to two digits: 43 817 as 43 000."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return int(number) // unit * unit
