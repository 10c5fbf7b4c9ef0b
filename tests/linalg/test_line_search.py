"""Backtracking: the longest of the steps 1, 1/2, 1/4, … that lowers the objective, and none if none does."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.linalg.line_search import backtrack, is_astray


def along(start, direction, objective):
    """The trial points of a line from `start`, and the objective there."""

    def trial(t):
        point = start + t * direction
        return point, objective(point)

    return trial


def damped_step(objective, start, direction, **options):
    start = jnp.asarray(start)
    return backtrack(along(start, direction, objective), objective(start), **options)


def test_a_whole_step_that_lowers_the_objective_is_taken():
    step = damped_step(lambda p: (p - 3.0) ** 2, 0.0, 3.0)
    assert step.accepted
    assert float(step.damping) == 1.0
    assert float(step.point) == 3.0
    assert float(step.objective) == 0.0


@hypothesis.given(overshoot=st.floats(1.0, 1000.0))
def test_the_longest_step_that_lowers_a_parabola_is_taken(overshoot):
    # From 0 towards a minimum at 1 along a direction too long: |t d - 1| < 1 holds for t < 2/d.
    step = damped_step(lambda p: (p - 1.0) ** 2, 0.0, overshoot)
    expected = max(t for t in 0.5 ** np.arange(21) if (t * overshoot - 1) ** 2 <= 1)
    assert float(step.damping) == expected
    assert float(step.objective) == pytest.approx((expected * overshoot - 1) ** 2)


def test_a_trial_point_that_is_not_finite_is_never_taken():
    step = damped_step(lambda p: jnp.where(p > 0.3, jnp.nan, (p - 1.0) ** 2), 0.0, 1.0)
    assert step.accepted
    assert float(step.damping) == 0.25
    assert np.isfinite(step.objective)


def test_where_no_step_helps_the_start_comes_back():
    step = damped_step(lambda p: (p - 1.0) ** 2, 0.0, -1.0, max_halvings=5)
    assert not step.accepted
    assert float(step.damping) == 0.0
    assert float(step.point) == 0.0
    assert float(step.objective) == 1.0


def test_rounding_does_not_reject_a_step_at_the_minimum():
    step = damped_step(lambda p: 1.0 + 1e-14 * jnp.abs(p), 0.0, 1.0)
    assert step.accepted


def test_halvings_are_counted():
    # Only t <= 2^-6 lowers the objective: six halvings find it, five do not.
    steps = [damped_step(lambda p: (p - 1.0) ** 2, 0.0, 2.0**7, max_halvings=n) for n in (5, 6)]
    assert [bool(step.accepted) for step in steps] == [False, True]


def test_points_may_be_any_tree_and_the_search_compiles():
    @jax.jit
    def step(start):
        def trial(t):
            point = {"a": start + t, "b": (2.0 * t,)}
            return point, (point["a"] - 0.5) ** 2

        return backtrack(trial, start**2 - start + 0.25)

    damped = step(jnp.asarray(0.2))
    assert damped.accepted
    assert float(damped.point["a"]) == pytest.approx(0.2 + float(damped.damping))
    assert float(damped.point["b"][0]) == pytest.approx(2 * float(damped.damping))


def test_steps_far_from_the_solution_are_short_or_many():
    assert not is_astray(1.0, 1)
    assert not is_astray(0.125, 5)
    assert is_astray(0.0625, 1)
    assert is_astray(0.0, 1)
    assert is_astray(1.0, 13)
