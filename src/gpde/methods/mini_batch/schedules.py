r"""Proximal weights $\gamma_k$ that change with the step, constant on a few levels.

A mini-batch step needs $(\lambda K^{-1} + \gamma Q^{-1})^{-1}$ on its batch. That is kept for every batch, so a weight must
stay for a while to be worth it: a schedule is a list of levels of equal length (eight do as well as a smooth curve).
"""

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx


class Level(NamedTuple):
    """From step `first` on the weight is `weight`."""

    first: int
    weight: float


class AbstractSchedule(eqx.Module):
    """The weights of the levels of a run."""

    @abstractmethod
    def weights(self, num_steps: int) -> Sequence[float]:
        """One weight per level; the levels share the steps equally."""


class Constant(AbstractSchedule):
    r"""$\gamma_k = \gamma$."""

    weight: float | int

    def weights(self, num_steps: int) -> Sequence[float]:
        return [self.weight]


class Geometric(AbstractSchedule):
    r"""From `first` to `last` by equal factors, $\gamma_l = \gamma_0 (\gamma_1/\gamma_0)^{l/(L-1)}$ on level $l$."""

    first: float | int
    last: float | int
    levels: int = 8

    def weights(self, num_steps: int) -> Sequence[float]:
        ratio = (self.last / self.first) ** (1 / max(1, self.levels - 1))
        return [self.first * ratio**level for level in range(self.levels)]


class Polynomial(AbstractSchedule):
    r"""$\gamma_k = \gamma_1 k^p$ at the middle step $k$ of each level."""

    first: float | int
    power: float | int
    levels: int = 8

    def weights(self, num_steps: int) -> Sequence[float]:
        return [self.first * middle**self.power for middle in _middles(num_steps, self.levels)]


class Sampled(AbstractSchedule):
    """Any function of the step $k = 1, 2, ...$, taken at the middle of each level."""

    function: Callable[[float], float] = eqx.field(static=True)
    levels: int = 8

    def weights(self, num_steps: int) -> Sequence[float]:
        return [float(self.function(middle)) for middle in _middles(num_steps, self.levels)]


class Raising(eqx.Module):
    r"""From `first`, in units of $\lambda$, by `factor` whenever the run has come to rest at a weight (`raising.py`).

    None begins with what is known of the values that the run starts from.
    """

    first: float | int | None = None
    factor: float | int = 10**1.5

    def __check_init__(self) -> None:
        known = self.first is None or (math.isfinite(self.first) and self.first >= 0)
        if not (known and math.isfinite(self.factor) and self.factor > 1):
            raise ValueError(
                "`proximal_weight`: 'raising(first, factor)' needs a first weight >= 0 and a factor > 1; came "
                f"{self.first!r} and {self.factor!r}."
            )


Weight = float | int | str | Callable[[float], float] | AbstractSchedule | Raising
"""A number, a schedule, a function of the step, or a schedule in words: `"geometric(1e4, 1e8)"`, `"raising(1e4, 30)"`."""

_WORDS = {
    "constant": (Constant, 1, 1),
    "geometric": (Geometric, 2, 3),
    "polynomial": (Polynomial, 2, 3),
    "raising": (Raising, 0, 2),
}


def schedule(weight: Weight) -> AbstractSchedule | Raising:
    """The schedule that is meant."""
    match weight:
        case AbstractSchedule() | Raising():
            return weight
        case str():
            return _parsed(weight)
        case bool():
            pass
        case float() | int():
            return Constant(weight)
        case _ if callable(weight):
            return Sampled(weight)
    raise ValueError(_advice(weight))


def levels(weight: Weight, num_steps: int) -> tuple[Level, ...]:
    """The levels of a run, each with its first step (from zero); of weights that raise themselves the first alone is known."""
    found = schedule(weight)
    weights = [found.first or 0.0] if isinstance(found, Raising) else found.weights(num_steps)
    if not weights or not all(math.isfinite(w) and w >= 0 for w in weights):
        raise ValueError(f"`proximal_weight`: weights must be finite and >= 0; came {list(weights)}.")
    firsts = [round(num_steps * level / len(weights)) for level in range(len(weights))]
    return tuple(Level(first, float(w)) for first, w in zip(firsts, weights, strict=True))


def _middles(num_steps: int, num_levels: int) -> list[float]:
    return [(level + 0.5) * num_steps / num_levels for level in range(num_levels)]


def _parsed(text: str) -> AbstractSchedule | Raising:
    found = re.fullmatch(r"\s*([a-z]+)\s*\((.*)\)\s*", text)
    try:
        if found is None:
            return Constant(float(text))
        make, fewest, most = _WORDS[found[1]]
        numbers = [float(number) for number in found[2].split(",")] if found[2].strip() else []
        if not fewest <= len(numbers) <= most:
            raise ValueError
    except (KeyError, ValueError):
        raise ValueError(_advice(text)) from None
    return make(*numbers[:2], *map(int, numbers[2:]))


def _advice(weight: object) -> str:
    return (
        "`proximal_weight` must be a number, a function of the step, a schedule, or one in words such as "
        f"'geometric(1e4, 1e8)', 'polynomial(1e3, 1)' or 'raising(1e4)'; came {weight!r}."
    )


def default_weight(visits: float, regularization: float | int, earlier: float = 0.0) -> AbstractSchedule:
    r"""Growing weights for a run that visits every point about `visits` times: $10^2 \lambda$ to $220\,v^2 \lambda$.

    At a fixed weight the error ends at a floor that falls like $\gamma^{-1/2}$, and the way there grows with $\gamma$. In the
    paper's first experiment the best last weight was found at $10^7$, $10^8$ and $10^9$ for 4000, 12000 and 40000 steps. The
    first could be $10^5$ there (half the error); but where information has to travel, as from an initial condition, it must be
    small.

    After `earlier` visits a run goes on as one with the visits of both would: that comes near to its error, where one that
    went on from the last weight gained little, and one that began anew nothing.
    """
    first, total = 1e2 * regularization, earlier + visits
    last = max(first, 220 * total**2 * regularization)
    return Geometric(first * (last / first) ** (earlier / total), last)
