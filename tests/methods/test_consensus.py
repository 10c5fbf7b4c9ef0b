"""Consensus: the full GP in the limit of one patch, no statistical error, prediction without seams."""

import dataclasses
import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde.collocation.collocation import collocate
from gpde.collocation.cover import cover, partition, spread_centres
from gpde.collocation.thinning import nested_subsets
from gpde.equations.linear_operators import point_value
from gpde.linalg import AbstractLinearSolver, Direct, Solved
from gpde.methods.consensus import method as consensus
from gpde.methods.consensus import patch, system
from gpde.methods.consensus.method import Consensus
from gpde.methods.consensus.prediction import BlendedPatches
from gpde.methods.consensus.reach import num_levels
from gpde.methods.consensus.stretch import learned_stretch
from gpde.methods.consensus.system import sample_values
from gpde.methods.full_batch.method import FullBatch
from gpde.operators import laplacian, partial
from gpde.outcomes import Outcome
from gpde.solution.errors import reference_values


def exact(x):
    return jnp.sin(2 * x[0]) * jnp.cos(x[1]) + 0.5 * x[0] ** 2


def equation(u, x):
    return -laplacian(u)(x) + u(x) ** 3 - (-laplacian(exact)(x) + exact(x) ** 3)


SQUARE = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={"interior": equation, "boundary": lambda u, x: u(x) - exact(x)},
    reference=exact,
)
GRID = SQUARE.domain.grid((15, 15))
TRUTH = np.asarray(jax.vmap(exact)(jnp.asarray(GRID)))
# Short lengthscale and few, well-spread points: the covariances are far from singular and the nugget does not matter.
WELL_CONDITIONED = {
    "kernel": gpde.Gaussian(0.07),
    "num_interior": 50,
    "num_boundary": 24,
    "nugget": 1e-13,
    "sampling": "halton",
}


@pytest.fixture(scope="module")
def small():
    return gpde.solve(
        SQUARE, gpde.Gaussian(0.4), num_interior=150, num_boundary=60, method=Consensus(batch_size=40), nugget=1e-12
    )


def test_one_patch_of_all_points_is_the_full_gp():
    whole = gpde.solve(SQUARE, method=Consensus(batch_size=74, tolerance=1e-10), **WELL_CONDITIONED)
    full = gpde.solve(SQUARE, method=FullBatch(constraints="linearize", tolerance=1e-10), **WELL_CONDITIONED)
    assert not whole.result.failed
    assert np.abs(whole(GRID) - full(GRID)).max() < 1e-8
    assert np.abs(whole.latent - full.latent).max() < 1e-8 * np.abs(full.latent).max()


@pytest.mark.slow
def test_larger_patches_come_closer_to_the_full_gp():
    settings = {"kernel": gpde.Gaussian(0.3), "num_interior": 150, "num_boundary": 60, "nugget": 1e-11}
    full = gpde.solve(SQUARE, method=FullBatch(), **settings)(GRID)
    distances = [
        np.sqrt(np.mean((gpde.solve(SQUARE, method=Consensus(batch_size=m), **settings)(GRID) - full) ** 2))
        for m in (12, 30, 90)
    ]
    assert distances[0] > 3 * distances[1] > 9 * distances[2]


def test_the_error_is_small_in_few_steps_from_zero(small):
    assert small.result.successful
    assert len(small.history) <= 10
    assert np.abs(small(GRID) - TRUTH).max() < 1e-5


def test_no_step_raises_the_merit(small):
    merits = [info["objective"] for info in small.history]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(merits[1:]))
    assert all(info["linear_residual"] < 1e-6 for info in small.history)


def test_dirichlet_values_are_kept_exactly(small):
    boundary = small.points["boundary"]
    values = small.latent[150 : 150 + 60]  # the values of u come first, those of the interior before the boundary's
    assert np.abs(values - np.asarray(jax.vmap(exact)(jnp.asarray(boundary)))).max() < 1e-14


def test_prediction_has_no_seams(small):
    # Along a line the blended solution's jumps between neighbouring samples are those of a smooth function: second
    # differences stay near h² u'', far below the error a jump between patches would make.
    t = np.linspace(0.1, 0.9, 4001)
    line = np.stack([t, 0.37 + 0.2 * t], axis=1)
    second = np.abs(np.diff(small(line), 2))
    error = np.abs(small(line) - np.asarray(jax.vmap(exact)(jnp.asarray(line)))).max()
    assert second.max() < 4 * (t[1] - t[0]) ** 2 + 0.1 * error


def test_operators_of_the_solution_are_those_of_the_truth(small):
    interior = SQUARE.domain.sample("interior", 40, seed=5)
    expected = np.asarray(jax.vmap(laplacian(exact))(jnp.asarray(interior)))
    assert np.abs(small.apply(laplacian, interior) - expected).max() < 2e-2
    assert np.abs(small.residual(interior)).max() < 2e-2


def test_std_draws_its_samples_once_for_a_solution(small, monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(1)
        return sample_values(*arguments)

    monkeypatch.setattr("gpde.methods.consensus.prediction.sample_values", counted)
    again = dataclasses.replace(small, predictor=jax.tree.map(lambda leaf: leaf, small.predictor))
    first, second = again.std(GRID[:3]), again.std(GRID[:5])
    assert len(calls) == 1
    assert np.array_equal(first, second[:3])


def test_std_is_small_near_points_and_grows_away_from_them(small):
    near = small.points["interior"][:20]
    far = np.array([[3.0, 3.0]])
    assert small.std(near).max() < 1e-4
    assert small.std(far, extrapolate=True)[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("batch_size", [85, 20])
def test_error_bars_are_those_of_the_full_gp_when_data_are_noisy(batch_size):
    # The equation leaves two constants open, which 25 noisy values settle: values at the points are uncertain together.
    rng = np.random.default_rng(0)
    places = rng.random((25, 1))
    data = gpde.Observations(places, np.sin(4 * places[:, 0]) + 0.05 * rng.standard_normal(25), noise=0.05)
    problem = gpde.Problem(
        domain=gpde.Box(0.0, 1.0),
        equations={"interior": lambda u, x: -laplacian(u)(x) + u(x) ** 3 - 16 * jnp.sin(4 * x[0])},
        observations=data,
    )
    settings = {"num_interior": 60, "sampling": "grid", "nugget": 1e-10}
    full = gpde.solve(problem, gpde.Matern(7 / 2, 0.3), method=FullBatch(), **settings)
    consensus = gpde.solve(problem, gpde.Matern(7 / 2, 0.3), method=Consensus(batch_size=batch_size), **settings)
    points = problem.domain.grid((30,))
    ratio = consensus.std(points) / full.std(points)
    # Drawn from 64 samples, so one standard deviation is known to 9 %; given the values at the points it would be 1e-3 of this.
    assert ratio.min() > 0.7
    assert ratio.max() < 1.6


@pytest.mark.slow
def test_error_bars_are_those_of_the_full_gp_where_points_are_too_few():
    problem = gpde.gallery.get("burgers").build()
    settings = {"num_interior": 400, "num_boundary": 150, "nugget": 1e-10}
    points = problem.domain.sample("interior", 50, seed=1)
    full = gpde.solve(problem, method=FullBatch(), **settings)
    consensus = gpde.solve(problem, method=Consensus(batch_size=48), **settings)
    assert 0.5 < np.median(consensus.std(points) / full.std(points)) < 2.0
    assert (consensus.std(points) == consensus.std(points)).all()


def test_a_linear_problem_takes_one_step():
    problem = gpde.Problem(
        gpde.Box((0.0, 0.0), (1.0, 1.0)),
        {"interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x), "boundary": lambda u, x: u(x) - exact(x)},
    )
    solution = gpde.solve(
        problem, gpde.Gaussian(0.4), num_interior=120, num_boundary=50, method=Consensus(batch_size=40), nugget=1e-12
    )
    assert len(solution.history) == 1
    assert np.abs(solution(GRID) - TRUTH).max() < 1e-5


def test_a_neumann_condition_is_an_equation_of_the_patches():
    problem = gpde.Problem(
        gpde.Box((0.0, 0.0), (1.0, 1.0)),
        {
            "interior": equation,
            "left": lambda u, x: partial(u, 0)(x) - partial(exact, 0)(x),
            "boundary": lambda u, x: u(x) - exact(x),
        },
    )
    solution = gpde.solve(
        problem, gpde.Gaussian(0.4), num_interior=150, num_boundary=60, method=Consensus(batch_size=40), nugget=1e-12
    )
    assert solution.result.successful
    assert np.abs(solution(GRID) - TRUTH).max() < 1e-4


def test_two_fields_are_solved_together():
    def v_exact(x):
        return jnp.cos(x[0] + x[1])

    def first(u, v, x):
        rhs = -laplacian(exact)(x) + exact(x) * v_exact(x)
        return -laplacian(u)(x) + u(x) * v(x) - rhs

    def second(u, v, x):
        rhs = -laplacian(v_exact)(x) + exact(x) ** 2
        return -laplacian(v)(x) + u(x) ** 2 - rhs

    problem = gpde.Problem(
        gpde.Box((0.0, 0.0), (1.0, 1.0)),
        {
            "interior": (first, second),
            "boundary": (lambda u, v, x: u(x) - exact(x), lambda u, v, x: v(x) - v_exact(x)),
        },
        fields=("u", "v"),
    )
    solution = gpde.solve(
        problem, gpde.Gaussian(0.4), num_interior=120, num_boundary=50, method=Consensus(batch_size=40), nugget=1e-12
    )
    values = solution(GRID)
    assert np.abs(values[:, 0] - TRUTH).max() < 1e-4
    assert np.abs(values[:, 1] - np.asarray(jax.vmap(v_exact)(jnp.asarray(GRID)))).max() < 1e-4


def test_noisy_observations_are_smoothed_not_interpolated():
    points = SQUARE.domain.sample("interior", 60, seed=9)
    noise = 0.05 * np.random.default_rng(3).normal(size=60)
    values = np.asarray(jax.vmap(exact)(jnp.asarray(points))) + noise
    problem = gpde.Problem(
        gpde.Box((0.0, 0.0), (1.0, 1.0)),
        {"interior": equation},
        observations=gpde.Observations(points, values, noise=0.05),
    )
    settings = {"kernel": gpde.Gaussian(0.5), "num_interior": 80, "nugget": 1e-10}
    consensus = gpde.solve(problem, method=Consensus(batch_size=140), **settings)
    full = gpde.solve(problem, method=FullBatch(), **settings)
    assert np.abs(consensus(points) - values).max() > 0.02
    assert np.abs(consensus(GRID) - full(GRID)).max() < 1e-3


def test_every_point_lies_in_two_patches_and_is_owned_by_one_that_holds_it():
    points = np.random.default_rng(0).uniform(size=(400, 2)) ** 2  # dense in one corner, gaps in the other
    patches = cover(points, 20, 60)
    assert patches.coverage.min() >= 2
    assert all(i in patches.members[patches.owner[i]] for i in range(400))
    owned = patches.owned()
    listed = np.sort(np.concatenate([patches.members[c, row[row >= 0]] for c, row in enumerate(owned)]))
    assert np.array_equal(listed, np.arange(400))


def test_far_members_of_a_patch_are_the_nearest_of_thinned_subsets_that_it_does_not_hold():
    points = np.random.default_rng(2).uniform(size=(900, 2))
    subsets = nested_subsets(points, 2, 2)
    assert [len(subset) for subset in subsets] == [225, 56]
    assert set(subsets[1]) <= set(subsets[0])
    patches = cover(points, 10, 300, far=subsets)
    assert patches.members.shape[1] == 30
    assert "30 points, 20 of them farther out" in patches.text()
    assert patches.coverage.min() >= 2
    for centre, members in zip(points[patches.centres[:20]], patches.members[:20], strict=True):
        held = set(members[:10])
        assert len(set(members)) == 30
        for level, subset in enumerate(subsets):
            order = subset[np.argsort(np.linalg.norm(points[subset] - centre, axis=1))]
            expected = [point for point in order if point not in held][:10]
            assert set(members[10 * (1 + level) : 10 * (2 + level)]) == set(expected)
            held |= set(expected)


def test_a_subset_that_runs_out_gives_every_patch_the_same_number_of_points():
    points = np.random.default_rng(2).uniform(size=(60, 2))
    patches = cover(points, 10, 20, far=[np.arange(12)])
    assert 10 < patches.members.shape[1] <= 20
    assert all(len(set(members)) == len(members) for members in patches.members)


def levels_of(equation, num_interior, lengthscale):
    problem = gpde.Problem(gpde.Box((0.0, 0.0), (1.0, 1.0)), {"interior": equation, "boundary": lambda u, x: u(x)})
    collocation = collocate(problem, problem.sample(num_interior, 100))
    return num_levels(collocation, (gpde.Gaussian(lengthscale),), 64)


def test_patches_reach_where_points_are_dense_against_the_lengthscale_and_the_order_is_high():
    second, fourth = (lambda u, x: laplacian(u)(x)), (lambda u, x: laplacian(laplacian(u))(x))
    assert levels_of(second, 9000, 0.2) == 0  # a patch has a radius of 0.23 lengthscales
    assert levels_of(fourth, 9000, 0.2) == 2
    assert levels_of(fourth, 9000, 0.05) == 0
    assert levels_of(second, 9000, 4.0) > 0


def test_points_with_known_values_fill_a_quarter_of_a_patch_at_most_and_are_the_nearest():
    rng = np.random.default_rng(4)
    side = np.stack([np.linspace(0, 1, 100), np.zeros(100)], axis=1)  # a boundary sampled more densely than the inside
    points, known = np.concatenate([rng.uniform(size=(300, 2)), side]), np.arange(400) >= 300
    patches, plain = cover(points, 20, 100, known), cover(points, 20, 100)
    assert known[plain.members].sum(axis=1).max() > 10
    assert known[patches.members].sum(axis=1).max() == 5
    assert patches.coverage.min() >= 2
    for centre, members in zip(patches.centres, patches.members, strict=True):
        distance = np.linalg.norm(points - points[centre], axis=1)
        for kind in (known, ~known):
            held = np.intersect1d(members, np.flatnonzero(kind))
            left = np.setdiff1d(np.flatnonzero(kind), members)
            assert len(held) == 0 or distance[held].max() <= distance[left].min()
    tiny = cover(points, 2, 100, known)
    assert tiny.coverage.min() >= 1
    # Where there is nothing to take their place, or they may fill a patch, they stay.
    few = cover(points[290:], 20, 50, known[290:])
    assert known[290:][few.members].sum(axis=1).max() > 5
    assert np.array_equal(cover(points, 20, 100, known, known_share=1.0).members, plain.members)


def test_a_partition_holds_every_point_once_in_cells_of_equal_size():
    points = np.random.default_rng(1).normal(size=(103, 3))
    cells = partition(points, 8)
    assert np.array_equal(np.sort(np.concatenate(cells)), np.arange(103))
    assert {len(cell) for cell in cells} <= {12, 13}
    assert len(spread_centres(points, 8)) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 1}, "batch_size"),
        ({"num_patches": 0}, "num_patches"),
        ({"linear_solver": "magic"}, "linear_solver"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_settings_name_the_argument(settings, message):
    with pytest.raises(ValueError, match=message):
        Consensus(**settings)


@pytest.mark.parametrize("linear_solver", ["direct", "schwarz"])
def test_nothing_is_open_where_every_value_is_given(linear_solver):
    problem = gpde.Problem(gpde.Box(0.0, 1.0), {"interior": lambda u, x: u(x) - jnp.sin(x[0])})
    method = Consensus(batch_size=8, linear_solver=linear_solver)
    solution = gpde.solve(problem, gpde.Gaussian(0.5), num_interior=20, method=method, nugget=1e-12)
    points = problem.domain.grid((11,))
    assert solution.result.successful
    assert np.abs(solution(points) - np.sin(points[:, 0])).max() < 1e-3
    assert np.isfinite(solution.std(points)).all()


class Failing(AbstractLinearSolver):
    """As a direct solver answers where there is no factor."""

    name: ClassVar[str] = "failing"

    def compute(self, matrix, coordinates, component, previous=None):
        return Direct().compute(matrix, coordinates, component)

    def solve(self, matrix, prepared, rhs, tolerance):
        return Solved(np.full_like(rhs, np.nan), np.nan, 0)


def test_a_system_that_is_not_definite_ends_the_run_with_the_right_advice():
    method = Consensus(batch_size=40, linear_solver=Failing())
    solution = gpde.solve(SQUARE, gpde.Gaussian(0.4), num_interior=150, num_boundary=60, method=method, nugget=1e-12)
    assert solution.result.failed
    assert "Raise `nugget`" in str(solution.result)
    assert np.isfinite(solution(GRID)).all()
    with pytest.raises(ValueError, match="not positive definite together"):
        solution.std(GRID)


def test_the_iteration_takes_over_where_the_factor_would_be_large_unless_one_is_named(monkeypatch):
    settings = {"kernel": gpde.Gaussian(0.4), "num_interior": 150, "num_boundary": 60, "nugget": 1e-12}

    def solvers(name):
        solution = gpde.solve(SQUARE, method=Consensus(batch_size=40, linear_solver=name), **settings)
        assert isinstance(solution.predictor, BlendedPatches)
        return solution.history[-1]["linear_solver"], solution.predictor.linear_solver.name

    assert solvers(None) == ("direct", "direct")
    assert solvers("schwarz") == ("schwarz", "direct")  # error bars need a factor where there can be one
    monkeypatch.setattr("gpde.methods.consensus.system.LARGEST_FACTOR", 100)
    assert solvers(None) == ("schwarz", "schwarz")
    assert solvers("direct") == ("direct", "direct")


# --- nothing ends well with NaN ------------------------------------------------------------------------------------------


LINE = gpde.Problem(
    gpde.Box(0.0, 1.0),
    {"interior": lambda u, x: -laplacian(u)(x) + u(x) ** 3 - jnp.sin(x[0]), "boundary": lambda u, x: u(x)},
)
ON_LINE = LINE.domain.grid((11,))


@pytest.mark.parametrize("always", [False, True])
def test_a_patch_that_cannot_be_factored_again_takes_a_larger_nugget_or_ends_the_run(monkeypatch, always):
    # `localize` is another program than `reduce`, with other rounding: here some of its factorisations fail.
    def failing(shared, members, values, nuggets, stretch, owned):
        weights, at_owned, *good = original(shared, members, values, nuggets, stretch, owned)
        fails = (nuggets < 1e-9) | always
        broken = [np.where(fails[:, None, None], np.nan, np.asarray(a)) for a in (weights, at_owned)]
        return *broken, *(np.asarray(g) & ~fails for g in good)

    original = system._localize_patches
    monkeypatch.setattr(system, "_localize_patches", failing)
    solution = gpde.solve(
        LINE, gpde.Gaussian(0.3), num_interior=20, num_boundary=2, nugget=1e-10, method=Consensus(batch_size=8)
    )
    assert np.isfinite(solution(ON_LINE)).all()
    assert np.isfinite(solution.latent).all()
    if always:
        assert solution.result.outcome is Outcome.NOT_POSITIVE_DEFINITE
    else:
        assert solution.result.outcome is Outcome.CONVERGED
        assert "patches took a larger nugget, up to 1.0e-09" in str(solution.result)


@pytest.mark.parametrize("linear_solver", ["direct", "schwarz"])
def test_an_equation_that_is_not_finite_ends_the_run_with_the_right_advice(linear_solver):
    problem = gpde.Problem(
        gpde.Box(0.0, 1.0),
        {"interior": lambda u, x: partial(u, 0, 0)(x) + jnp.log(u(x)), "boundary": lambda u, x: u(x) + 1},
    )
    method = Consensus(batch_size=8, linear_solver=linear_solver)
    solution = gpde.solve(problem, gpde.Gaussian(0.3), num_interior=20, num_boundary=2, nugget=1e-10, method=method)
    assert solution.result.outcome is Outcome.NOT_FINITE
    assert np.isfinite(solution(ON_LINE)).all()


def test_after_a_first_step_that_was_shortened_the_function_has_the_values():
    # Newton's method for log u = log 0.001 from u = 1 goes to -5.9, where there is no logarithm: an eighth of that is taken.
    problem = gpde.Problem(gpde.Box(0.0, 1.0), {"interior": lambda u, x: jnp.log(u(x)) - jnp.log(0.001)})
    solution = gpde.solve(
        problem, gpde.Gaussian(0.1), num_interior=12, sampling="grid", nugget=1e-12, initial=lambda x: 1.0 + 0 * x[0],
        method=Consensus(batch_size=12, max_steps=1),
    )  # fmt: skip
    assert solution.history[0]["damping"] == 0.125
    np.testing.assert_allclose(solution(solution.points["interior"]), solution.latent, rtol=1e-6)
    np.testing.assert_allclose(solution.latent, 1 - np.log(1000) / 8, rtol=1e-6)


def test_a_step_to_where_the_equations_are_not_finite_is_not_the_limit_of_rounding(monkeypatch):
    # No step is accepted, and all of them are short: that is convergence only where the equations are numbers.
    original = consensus.shortened

    def rejecting(*arguments):
        damped, _ = original(*arguments)
        nothing = damped._replace(accepted=jnp.asarray(False), damping=jnp.asarray(0.0), objective=jnp.asarray(jnp.nan))
        return nothing, jnp.asarray(jnp.nan)

    settings = {"num_interior": 20, "num_boundary": 2, "nugget": 1e-10, "method": Consensus(batch_size=8)}
    there = gpde.solve(LINE, gpde.Gaussian(0.3), **settings)
    monkeypatch.setattr(consensus, "shortened", rejecting)
    solution = gpde.solve(LINE, gpde.Gaussian(0.3), initial=there, **settings)
    assert solution.result.outcome is Outcome.NOT_FINITE


def test_error_bars_where_every_value_is_given_but_patches_have_no_factor_are_refused(monkeypatch):
    problem = gpde.Problem(gpde.Box(0.0, 1.0), {"interior": lambda u, x: u(x) - jnp.sin(x[0])})
    solution = gpde.solve(problem, gpde.Gaussian(0.3), num_interior=20, method=Consensus(batch_size=8), nugget=1e-10)
    monkeypatch.setattr("gpde.methods.consensus.system._MAX_ESCALATIONS", 0)
    assert isinstance(solution.predictor, BlendedPatches)
    without = eqx.tree_at(lambda s: s.nuggets, solution.predictor, jnp.full(20, -1.0))  # covariances without a diagonal
    with pytest.raises(ValueError, match="20 patches are not positive definite"):
        without.variances((point_value(0, 1),), ON_LINE)


@pytest.mark.parametrize("method", [Consensus(batch_size=20), FullBatch()])
def test_a_dirichlet_condition_whose_coefficient_vanishes_at_a_point_says_nothing_there(method):
    bottom = np.stack([np.linspace(0, 1, 8), np.zeros(8)], axis=1)  # with the corner, where x u = x exact is 0 = 0
    problem = gpde.Problem(
        gpde.Box((0.0, 0.0), (1.0, 1.0)),
        {
            "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
            "bottom": lambda u, x: x[0] * (u(x) - exact(x)),
            "boundary": lambda u, x: u(x) - exact(x),
        },
    )
    points = {
        "interior": problem.domain.sample("interior", 60, sampling="halton"),
        "bottom": bottom,
        "boundary": problem.sample_part("boundary", 24, "halton"),
    }
    solution = gpde.solve(problem, gpde.Gaussian(0.5), points=points, nugget=1e-10, method=method)
    assert solution.result.outcome is Outcome.CONVERGED
    assert np.isfinite(solution.latent).all()
    assert np.abs(solution(GRID) - TRUTH).max() < 1e-3


def interior_layer(width):
    """A layer in a smooth field, tanh((x - 0.4) / width) + sin 3x, by an equation that is not linear."""

    def exact(x):
        return jnp.tanh((x[0] - 0.4) / width) + jnp.sin(3 * x[0])

    def operator(u, x):
        return -(width**2) * laplacian(u)(x) + u(x) ** 3

    equations = {"interior": lambda u, x: operator(u, x) - operator(exact, x), "boundary": lambda u, x: u(x) - exact(x)}
    return gpde.Problem(gpde.Box(0.0, 1.0), equations, reference=exact)


def test_patches_at_a_front_learn_shorter_lengthscales_than_elsewhere_and_come_closer_to_the_truth():
    problem, grid = interior_layer(0.03), np.linspace(0, 1, 301)[:, None]
    truth = reference_values(problem, grid)
    assert truth is not None
    errors, solution = {}, None
    for local in (False, True):
        method = Consensus(batch_size=16, local_lengthscales=local)
        solution = gpde.solve(problem, gpde.Gaussian(0.2), num_interior=150, num_boundary=2, method=method)
        errors[local] = np.sqrt(np.mean((solution(grid) - truth[:, 0]) ** 2))
    assert solution is not None
    assert isinstance(solution.predictor, BlendedPatches)
    centres, lengthscales = np.asarray(solution.predictor.centres)[:, 0], 0.2 * np.asarray(solution.predictor.stretch)[:, 0]
    assert np.median(lengthscales[np.abs(centres - 0.4) < 0.05]) < 0.05
    assert np.median(lengthscales[np.abs(centres - 0.4) > 0.2]) > 0.2
    assert errors[True] < errors[False] / 5


@pytest.mark.parametrize(("lengthscale", "at_rest", "longest"), [(0.05, False, 2.5), (0.05, True, 4.2), (1.0, False, 0.0)])
def test_no_patch_makes_its_lengthscale_longer_than_it_can_tell_and_none_shorter_than_the_kernels_for_being_small(
    lengthscale, at_rest, longest
):
    points = np.linspace(0, 1, 61)[:, None]
    nothing = jnp.zeros((61, 0))
    equations = patch.Equations(
        (point_value(0, 1),), 1, jnp.asarray(points), jnp.zeros((61, 0, 1)), nothing, nothing, jnp.zeros((61, 0), dtype=bool)
    )
    coordinates = points / lengthscale
    patches = cover(coordinates, 9, 61, np.zeros(61, dtype=bool), 1.0, ())
    radius = np.array([np.abs(points[m] - points[c]).max() for m, c in zip(patches.members, patches.centres, strict=True)])
    smooth, nuggets, ones = points + 1.0, np.full(len(radius), 1e-8), np.ones((len(radius), 1))
    found = learned_stretch(
        equations, (gpde.Gaussian(lengthscale),), patches, smooth, nuggets, ones, coordinates, False, at_rest
    )
    # A straight line is best explained by the longest lengthscale that is allowed, or tried: 5.6 times the first.
    inner = slice(12, -12)  # ends of the line have larger patches, whose lengthscales are mixed with those of their neighbours
    np.testing.assert_allclose(lengthscale * found[inner, 0], np.maximum(lengthscale, longest * radius[inner]), rtol=1e-3)


@pytest.mark.parametrize(("changing", "rounds"), [(False, 3), (True, 5)])
def test_patches_learn_their_lengthscales_again_until_that_moves_no_value(monkeypatch, changing, rounds):
    calls: list[float] = []

    def learned(equations, kernels, cover, values, nuggets, stretch, coordinates, later, at_rest):
        calls.append(1.0)
        return np.full_like(stretch, (0.1 if len(calls) % 2 else 0.4) if changing else 0.9)

    monkeypatch.setattr(consensus, "learned_stretch", learned)
    method = Consensus(batch_size=8, local_lengthscales=True)
    problem = gpde.Problem(
        gpde.Box(0.0, 1.0), {"interior": lambda u, x: laplacian(u)(x) + 40 * jnp.sin(9 * x[0]), "boundary": lambda u, x: u(x)}
    )
    gpde.solve(problem, gpde.Gaussian(0.3), method=method, num_interior=25, num_boundary=2)
    assert len(calls) == rounds


def test_patches_with_lengthscales_of_their_own_have_the_misfit_of_a_dense_gaussian():
    points = np.random.default_rng(0).uniform(size=(6, 1))
    values = np.sin(3 * points[:, 0])
    nothing = jnp.zeros((6, 0))
    identity = point_value(0, 1)
    equations = patch.Equations(
        (identity,), 1, jnp.asarray(points), jnp.zeros((6, 0, 1)), nothing, nothing, jnp.zeros((6, 0), dtype=bool)
    )
    kernels = patch.stretched_all((gpde.Gaussian(0.1),), jnp.array([3.0]))
    found = patch.misfit(equations, kernels, jnp.arange(6), jnp.asarray(values), jnp.asarray(1e-8))
    covariance = np.exp(-0.5 * ((points - points.T) / 0.3) ** 2) + 1e-8 * np.eye(6)
    quadratic = values @ np.linalg.solve(covariance, values)
    expected = 0.5 * np.log(quadratic / 6) + 0.5 * np.linalg.slogdet(covariance)[1] / 6
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_equations_that_a_point_does_not_have_say_nothing_whatever_stands_in_their_place():
    rng = np.random.default_rng(1)
    points, values, members = rng.uniform(size=(5, 1)), rng.normal(size=5), jnp.arange(5)
    bend: Any = ((0, (((2,), 1.0),)),)
    used = np.array([[True, True], [True, False], [False, False], [True, False], [False, True]])
    plain = patch.Equations(
        (point_value(0, 1), bend), 1, jnp.asarray(points), jnp.asarray(rng.normal(size=(5, 2, 2)) * used[..., None]),
        jnp.asarray(rng.normal(size=(5, 2)) * used), jnp.full((5, 2), 0.01), jnp.asarray(used),
    )  # fmt: skip
    filled = eqx.tree_at(
        lambda e: (e.coefficients, e.rhs, e.noise_variance),
        plain,
        (
            jnp.where(used[..., None], plain.coefficients, 3.0),
            jnp.where(used, plain.rhs, 7.0),
            jnp.where(used, plain.noise_variance, 0.0),
        ),
    )

    @eqx.filter_jit
    def answers(equations):
        patch_of = equations, (gpde.Gaussian(0.3),), members
        nugget, samples = jnp.asarray(1e-8), jnp.ones((5, 1))
        return (
            patch.misfit(*patch_of, jnp.asarray(values), nugget),
            *patch.reduce(*patch_of, jnp.asarray(values), nugget),
            *patch.localize(*patch_of, jnp.asarray(values), nugget),
            patch.draw(*patch_of, nugget, samples),
            patch.patch_variances(*patch_of, nugget, (bend,), jnp.asarray([0.4]), samples),
        )

    for expected, found in zip(answers(plain), answers(filled), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    # And it is the Gaussian given those that are used, by dense linear algebra: b and w together.
    covariance = covariance_on_a_line(points, np.asarray(plain.coefficients), used)
    joint = np.concatenate([np.asarray(plain.rhs).T[used.T], values])
    covariance += np.diag(1e-8 * np.diag(covariance) + np.repeat([0.01, 0.0], [used.sum(), 5]))
    quadratic, size = joint @ np.linalg.solve(covariance, joint), len(joint)
    expected = 0.5 * np.log(quadratic / size) + 0.5 * np.linalg.slogdet(covariance)[1] / size
    np.testing.assert_allclose(answers(filled)[0], expected, rtol=1e-6)


def covariance_on_a_line(points, coefficients, used):
    """The covariance of used equations a·(u, u'') and of the values u at points on a line, for Gaussian(0.3)."""
    r = (points - points.T) / 0.3
    k = np.exp(-0.5 * r**2)
    derivatives = {(0, 0): k, (0, 1): (r**2 - 1) / 0.3**2 * k, (1, 1): (r**4 - 6 * r**2 + 3) / 0.3**4 * k}
    rows = [(point, coefficients[point, e]) for e in range(2) for point in range(len(points)) if used[point, e]]
    rows += [(point, np.array([1.0, 0.0])) for point in range(len(points))]
    return np.array(
        [
            [sum(a[i] * b[j] * derivatives[min(i, j), max(i, j)][p, q] for i in range(2) for j in range(2)) for q, b in rows]
            for p, a in rows
        ]
    )
