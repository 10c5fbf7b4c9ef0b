r"""A nugget that is raised tenfold until a factorisation succeeds: $\eta, 10\eta, 100\eta, \dots$, as far as is allowed.

The rule is one; how it can be followed depends on where the matrix is. A single matrix is tried from Python, level by level
(`nugget_levels`). Inside of a compiled program a loop of the program tries (`until_good`). Of a table of small problems only
those that failed are tried again, together (`raised_until_good`).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

NUGGET_GROWTH = 10.0
Attempt = TypeVar("Attempt")


def nugget_levels(nugget: float, max_escalations: int) -> Sequence[float]:
    """The nuggets to try, one after the other."""
    return [nugget * NUGGET_GROWTH**level for level in range(max_escalations + 1)]


def until_good(
    attempt: Callable[[Int[Array, ""]], Attempt],
    good: Callable[[Attempt], Bool[Array, ""]],
    last: tuple[Attempt, Int[Array, ""]],
    max_escalations: int,
) -> tuple[Attempt, Int[Array, ""]]:
    """In a compiled program: the first good attempt at a level above that of the last one, and its level; the last allowed one
    if none is good. An attempt that is good already stays."""

    def failed(found: tuple[Attempt, Array]) -> Array:
        return ~good(found[0]) & (found[1] < max_escalations)

    def again(found: tuple[Attempt, Array]) -> tuple[Attempt, Array]:
        return attempt(found[1] + 1), found[1] + 1

    return jax.lax.while_loop(failed, again, last)


def raised_until_good(
    compute: Callable[[Float[np.ndarray, " some"], Any], tuple[np.ndarray, ...]],
    nuggets: Float[np.ndarray, " problems"],
    max_escalations: int,
) -> tuple[tuple[np.ndarray, ...], Float[np.ndarray, " problems"]]:
    """What `compute(nuggets, rows)` gives for all rows of a table of small problems, and their nuggets: ten times larger, and
    again, for those of which the last array that it gives says that they are not good."""
    nuggets = nuggets.copy()
    tables = compute(nuggets, slice(None))
    for _ in range(max_escalations):
        bad = np.flatnonzero(~tables[-1])
        if len(bad) == 0:
            break
        nuggets[bad] *= NUGGET_GROWTH
        for whole, part in zip(tables, compute(nuggets[bad], bad), strict=True):
            whole[bad] = part
    return tables, nuggets
