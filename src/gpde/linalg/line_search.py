r"""The damping of Gauss-Newton steps: backtracking on the objective. Knows no kernels and no PDEs.

A Gauss-Newton step proposes a full move; `backtrack` shortens it until the objective is lower. Undamped steps diverge on
small interior patches of nonlinear equations, which know no boundary values and are strongly nonlinear.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

# What rounding may add to an objective. Simple decrease is asked for, not Armijo's: the optimal objective, the norm of the
# solution, is far from zero, and near it a Gauss-Newton step gains less than any fixed fraction.
_ROUNDING = 1e-12
# Equations within reach are solved in half a dozen steps, and the first few may be halved.
_SHORT, _MANY_STEPS = 0.125, 12


class Damped(NamedTuple):
    """The accepted point, its objective, the damping that led there and whether the objective fell."""

    point: PyTree
    objective: Float[Array, ""]
    damping: Float[Array, ""]
    accepted: Bool[Array, ""]


def backtrack(
    trial: Callable[[Float[Array, ""]], tuple[PyTree, Float[Array, ""]]],
    current: Float[Array, ""],
    *,
    max_halvings: int = 20,
    start: PyTree | None = None,
) -> Damped:
    r"""The largest $t = 1, \tfrac12, \tfrac14, \dots$ whose trial point has a lower objective than `current`, and a finite one.

    `trial(t)` returns the point at damping $t$ and its objective. Where no $t$ is accepted the current point comes back:
    `start`, or what `trial(0)` returns.
    """

    def unacceptable(value: Array) -> Array:
        return ~(jnp.isfinite(value) & (value <= current + _ROUNDING * jnp.abs(current)))

    def body(carry: tuple[Array, PyTree, Array, Array]) -> tuple[Array, PyTree, Array, Array]:
        t, _, _, halvings = carry
        point, value = trial(t / 2)
        return t / 2, point, value, halvings + 1

    def go_on(carry: tuple[Array, PyTree, Array, Array]) -> Array:
        _, _, value, halvings = carry
        return unacceptable(value) & (halvings < max_halvings)

    # The loop starts one doubling early, so that `trial` is compiled once.
    shapes = jax.eval_shape(trial, current)
    point, _ = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    begin = (jnp.full_like(current, 2.0), point, jnp.full_like(current, jnp.nan), jnp.full((), -1))
    t, point, value, _ = jax.lax.while_loop(go_on, body, begin)
    accepted = ~unacceptable(value)
    start, _ = trial(jnp.zeros_like(current)) if start is None else (start, None)
    point = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), point, start)
    return Damped(point, jnp.where(accepted, value, current), jnp.where(accepted, t, 0.0), accepted)


def next_move(move: float, last: float) -> float:
    """How far the next whole step will move if it shrinks as this one did; Gauss-Newton often does better, never assume it."""
    return move * move / last if 0 < move < 0.5 * last < math.inf else move


def is_astray(damping: float, num_steps: int) -> bool:
    """Whether steps that are still long say that Gauss-Newton is too far away from here: this one was shortened much, or not
    accepted at all (damping 0), or there were many."""
    return damping < _SHORT or num_steps > _MANY_STEPS
