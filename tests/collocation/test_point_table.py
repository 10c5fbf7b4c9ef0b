"""Batches of points: the point-major view agrees with the collocation it was made of."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.collocation.collocation import collocate
from gpde.collocation.point_table import point_table
from gpde.domains import Box
from gpde.methods.mini_batch.sampling import drawn_batches, drawn_centres
from gpde.methods.mini_batch.schedules import Constant, Geometric, Polynomial, levels
from gpde.methods.mini_batch.stepping import plan
from gpde.operators import laplacian
from gpde.problem.constraints import Mean
from gpde.problem.problem import Observations, Problem


def made():
    rng = np.random.default_rng(0)
    problem = Problem(
        Box((0.0, 0.0), (1.0, 1.0)),
        {"interior": lambda u, x: -2 * laplacian(u)(x) + u(x) ** 3 - x[0], "boundary": lambda u, x: u(x) - x[1]},
        observations=Observations(rng.random((4, 2)), rng.normal(size=4), noise=0.1),
    )
    return collocate(problem, problem.sample(7, 5, seed=1))


COLLOCATION = made()
TABLE = point_table(COLLOCATION)
LATENT = jnp.asarray(np.random.default_rng(3).normal(size=COLLOCATION.functionals.size))
EVERYTHING = jnp.arange(TABLE.num_points)
RESIDUAL = eqx.filter_jit(COLLOCATION.residual)


def by_point_of(function):
    return eqx.filter_jit(eqx.filter_vmap(function))


def test_latent_values_go_to_points_and_back():
    np.testing.assert_array_equal(TABLE.scatter(TABLE.gather(LATENT)), LATENT)
    assert np.all(np.asarray(TABLE.gather(LATENT))[~np.asarray(TABLE.active)] == 0)


def test_residuals_by_point_are_those_of_the_collocation():
    by_point = by_point_of(TABLE.residual)(EVERYTHING, TABLE.gather(LATENT))
    np.testing.assert_allclose(np.asarray(by_point)[:, 0], RESIDUAL(LATENT), rtol=1e-13)


def test_a_point_with_fewer_equations_than_others_has_slots_without_one():
    problem = Problem(
        Box(0.0, 1.0),
        {"interior": [lambda u, x: laplacian(u)(x), lambda u, x: u(x) - 1.0], "boundary": lambda u, x: u(x) - x[0]},
        observations=Observations(np.array([[0.5]]), np.array([3.0])),
    )
    table = point_table(collocate(problem, problem.sample(2, 2)))
    np.testing.assert_array_equal(table.has_equation, [[True, True]] * 2 + [[True, False]] * 3)
    residuals = by_point_of(table.residual)(jnp.arange(5), jnp.full((5, 2), 7.0))
    assert np.all(np.asarray(residuals)[~np.asarray(table.has_equation)] == 0)
    assert float(residuals[-1, 0]) == 4.0


def test_a_mean_is_no_equation_of_its_points_whatever_stands_in_its_place():
    problem = Problem(
        Box(0.0, 1.0),
        {"interior": lambda u, x: laplacian(u)(x)},
        constraints=Mean("interior", lambda u, x: u(x) ** 2 - 0.5, num_nodes=3),
    )
    table = point_table(collocate(problem, problem.sample(2, 0)))
    np.testing.assert_array_equal(table.has_equation, [[True]] * 2 + [[False]] * 3)
    filled = eqx.tree_at(lambda t: t.rhs, table, jnp.where(table.has_equation, table.rhs, 9.0))
    for each in (table, filled):
        places, values = jnp.arange(5), jnp.full((5, table.num_operators), 7.0)
        assert np.all(np.asarray(by_point_of(each.residual)(places, values))[2:] == 0)
        assert np.all(np.asarray(by_point_of(each.gradient)(places, values))[2:] == 0)


def test_gradients_by_point_are_those_of_the_collocation():
    gradients = np.asarray(by_point_of(TABLE.gradient)(EVERYTHING, TABLE.gather(LATENT)))[:, 0]
    rows = eqx.filter_jit(lambda latent: COLLOCATION.linearize(latent).rows.times(jnp.eye(latent.size)))(LATENT)
    dense = np.zeros((TABLE.num_points, COLLOCATION.functionals.size + 1))
    np.put_along_axis(dense, np.asarray(TABLE.latent), gradients, axis=1)
    dense[:, -1] = 0
    np.testing.assert_allclose(dense[:, :-1], rows, rtol=1e-13)


def test_elimination_by_point_is_that_of_the_collocation_and_leaves_noisy_data_alone():
    by_point = TABLE.scatter(by_point_of(TABLE.eliminate)(EVERYTHING, TABLE.gather(LATENT)))
    np.testing.assert_allclose(by_point, eqx.filter_jit(COLLOCATION.eliminate)(LATENT), rtol=1e-13)
    left, before = np.asarray(RESIDUAL(by_point)), np.asarray(RESIDUAL(LATENT))
    np.testing.assert_allclose(left[~COLLOCATION.noisy], 0.0, atol=1e-13)
    np.testing.assert_array_equal(left[COLLOCATION.noisy], before[COLLOCATION.noisy])


def test_centres_without_replacement_are_permutations_of_all_points_wherever_calls_are_cut():
    whole = drawn_centres(13, 0, 39, seed=5, replacement=False)
    for first in (0, 13, 26):
        assert sorted(whole[first : first + 13]) == list(range(13))
    cut = np.concatenate([drawn_centres(13, first, 10, seed=5, replacement=False) for first in (0, 10, 20)])
    np.testing.assert_array_equal(cut, whole[:30])
    assert np.any(whole[:13] != whole[13:26])


def test_uniform_batches_hold_every_point_equally_often():
    drawn = np.asarray(drawn_batches("uniform", 20, 5, first=0, num=4000, seed=1))
    assert all(len(set(batch)) == 5 for batch in drawn)
    counts = np.bincount(drawn.reshape(-1), minlength=20)
    assert np.abs(counts - 1000).max() < 150  # five standard deviations


def test_a_plan_keeps_the_order_of_steps_that_share_points_and_groups_are_disjoint():
    rng = np.random.default_rng(2)
    table = np.stack([rng.choice(60, 4, replace=False) for _ in range(30)])
    rows = rng.integers(30, size=80)
    made, num_groups = plan(jnp.asarray(table), rows, num_lanes=4, max_steps=100)
    groups = np.asarray(made.groups)
    assert np.all(groups[num_groups:] == -1)
    steps = groups[groups >= 0]
    assert sorted(steps) == list(range(80))
    group_of = {int(step): g for g, group in enumerate(groups) for step in group if step >= 0}
    assert num_groups < 60
    for later in range(80):
        for earlier in range(later):
            if set(table[rows[later]]) & set(table[rows[earlier]]):
                assert group_of[earlier] < group_of[later]


def test_schedules_are_piecewise_constant():
    assert [level.weight for level in levels(3.0, 10)] == [3.0]
    geometric = levels("geometric(1e2, 1e6, 5)", 1000)
    np.testing.assert_allclose([level.weight for level in geometric], [1e2, 1e3, 1e4, 1e5, 1e6])
    assert [level.first for level in geometric] == [0, 200, 400, 600, 800]
    assert levels(Geometric(1.0, 8.0, 4), 40) == levels("geometric(1, 8, 4)", 40)
    polynomial = levels(Polynomial(2.0, 1.5, levels=2), 100)
    np.testing.assert_allclose([level.weight for level in polynomial], [2 * 25**1.5, 2 * 75**1.5])
    assert [level.weight for level in levels(lambda step: step + 1, 80)] == [5 + 10 * level + 1 for level in range(8)]
    assert levels(Constant(2.0), 7) == levels("constant(2)", 7) == levels("2", 7)


@pytest.mark.parametrize("weight", ["linear(1, 2)", "geometric(1)", "geometric(a, b)", "much", True])
def test_what_is_no_schedule_is_refused_with_an_example(weight):
    with pytest.raises(ValueError, match="`proximal_weight` must be a number, a function of the step, a schedule"):
        levels(weight, 10)
