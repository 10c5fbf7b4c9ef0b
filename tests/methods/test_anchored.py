"""Anchored batches: their step, their fixed point, weights that raise themselves, coarse to fine, and how far that gets."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.collocation.collocation import collocate
from gpde.domains import Box
from gpde.equations.linear_operators import point_value
from gpde.functionals.functionals import Functionals, gram
from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.methods import FullBatch, MiniBatch
from gpde.methods.base import Setup
from gpde.methods.mini_batch import mean, method
from gpde.methods.mini_batch.factor_cache import BatchRange
from gpde.methods.mini_batch.prediction import LocalPredictor
from gpde.methods.mini_batch.proximal import Anchors
from gpde.methods.mini_batch.rungs import rungs
from gpde.methods.mini_batch.stepping import Record, Stepped, plan, take_steps
from gpde.operators import laplacian, partial
from gpde.outcomes import Outcome
from gpde.problem.observations import Observations
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import reference_values
from gpde.solution.solution import load

# One linear equation in one dimension with both u and u_xx in it, 24 points, batches of 8: maps can be composed densely.
M, NUGGET, RATIO = 8, 1e-6, 50.0


def line(u, x):
    return -partial(u, 0, 0)(x) + (1 + x[0]) * u(x) - jnp.sin(5 * x[0])


LINE = Problem(Box(0.0, 1.0), {"interior": line, "boundary": lambda u, x: u(x) - x[0]})


@pytest.fixture(scope="module")
def work():
    setup = Setup(collocate(LINE, LINE.sample(22, 2, seed=3)), (Gaussian(0.2),), NUGGET)
    return MiniBatch(batch_size=M, rim_ratio=RATIO).prepare(setup)


jitted_gram, linearized = eqx.filter_jit(gram), eqx.filter_jit(lambda problem, *batch: problem.linearized(*batch))


def local_energy(work, points):
    """Mean and precision of a batch's values given its equations, by dense linear algebra."""
    setup, table = work.setup, work.problem.table
    x = jnp.asarray(np.asarray(table.points)[points])
    active = np.asarray(table.active)[points].T.reshape(-1)
    K = np.asarray(jitted_gram(setup.kernels, Functionals(table.operators, (x,) * table.num_operators)))
    K = K + np.diag(np.repeat(NUGGET * np.asarray(work.problem.nugget_scale), M))
    zero = jnp.zeros((M, table.num_operators))
    psi, residual = linearized(work.problem, jnp.asarray(points), zero, jnp.ones((table.num_operators, M)))
    rows = np.concatenate([np.diag(np.asarray(block)) for block in psi[0]], axis=1)[:, active]
    K, b = K[np.ix_(active, active)], -np.asarray(residual)[0]
    gain = np.linalg.solve(rows @ K @ rows.T, rows @ K).T
    mean, S = gain @ b, K - gain @ rows @ K
    return mean[:M], S[:M, :M]


def weights_of(work, size=M):
    metric = work.problem.metric
    assert isinstance(metric, Anchors)
    return np.asarray(metric.metric(size))[0]


def test_half_of_a_batch_is_core_and_a_batch_of_all_points_has_no_rim(work):
    np.testing.assert_array_equal(weights_of(work), [1.0] * 4 + [RATIO] * 4)
    np.testing.assert_array_equal(weights_of(work, 24), np.ones(24))


def affine_step(work, points, weight):
    """A step on a batch as v -> G v + c, formula (1) of the derivation."""
    mean, S = local_energy(work, points)
    held = weight * np.diag(weights_of(work))
    # (S⁻¹ + γD)⁻¹ S⁻¹ without an inverse of S, which is singular where an equation fixes a value.
    share = np.linalg.inv(np.eye(M) + S @ held)
    G, c = np.eye(24), np.zeros(24)
    G[np.ix_(points, points)] = np.eye(M) - share
    c[points] = share @ mean
    return G, c


def in_order(work, values, weight, num_sweeps):
    """Sweeps in which every batch is stepped in the order of its row."""
    num = 24
    progress = Stepped(values, jnp.ones(num, bool), jnp.zeros(num, int), Record(jnp.zeros(num), jnp.zeros(num, int)))
    steps, groups = plan(work.batches, np.arange(num), 1, num)
    for _ in range(num_sweeps):
        progress = take_steps(
            work.problem,
            None,
            steps,
            progress,
            jnp.asarray(groups),
            jnp.asarray(0),
            jnp.asarray(weight),
            jnp.asarray(NUGGET),
            0,
        )
    return progress.values


def test_iterating_on_a_linear_problem_ends_at_the_fixed_point_solved_for_directly(work):
    weight = 30.0
    G, c = np.eye(24), np.zeros(24)
    for points in np.asarray(work.batches):
        step, shift = affine_step(work, points, weight)
        G, c = step @ G, step @ c + shift
    expected = np.linalg.solve(np.eye(24) - G, c)
    assert np.abs(np.linalg.eigvals(G)).max() < 1
    reached = np.asarray(in_order(work, jnp.zeros((24, work.problem.table.num_operators)), weight, 60))[:, 0]
    np.testing.assert_allclose(reached, expected, atol=1e-6 * np.abs(expected).max())
    # What is left of the error falls with every sweep by the spectral radius.
    zero = jnp.zeros((24, work.problem.table.num_operators))
    early, late = (np.abs(np.asarray(in_order(work, zero, weight, num))[:, 0] - expected).max() for num in (8, 12))
    np.testing.assert_allclose(late / early, np.abs(np.linalg.eigvals(G)).max() ** 4, rtol=0.1)
    # Where it rests for large weights, (2): fewer than all of it depends on the order, and less the larger the weight.
    total, pull = np.zeros((24, 24)), np.zeros(24)
    for points in np.asarray(work.batches):
        mean, S = local_energy(work, points)
        free = np.diag(S) > 1e-12
        row = np.zeros((M, M))
        row[np.ix_(free, free)] = np.linalg.inv(S[np.ix_(free, free)])
        row = row / weights_of(work)[:, None]
        total[np.ix_(points, points)] += row
        pull[points] += row @ mean
    fixed = np.asarray(work.problem.table.part) > 0
    total[fixed], pull[fixed] = np.eye(24)[fixed], np.asarray(work.problem.table.points)[fixed, 0]
    limit = np.linalg.solve(total, pull)
    distances = []
    for large in (1e7, 1e8):
        G, c = np.eye(24), np.zeros(24)
        for points in np.asarray(work.batches):
            step, shift = affine_step(work, points, large)
            G, c = step @ G, step @ c + shift
        distances.append(np.abs(np.linalg.solve(np.eye(24) - G, c) - limit).max())
    assert distances[1] < 0.3 * distances[0] < 0.3 * np.abs(limit).max()


def test_with_the_core_as_all_of_the_batch_it_is_the_uniform_method_on_values():
    setup = Setup(collocate(LINE, LINE.sample(22, 2, seed=3)), (Gaussian(0.2),), NUGGET)
    sizes = setup.collocation.functionals.sizes
    own = np.concatenate([np.full(sizes[0], 1.0 + NUGGET), np.full(sum(sizes[1:]), 1e20)])
    reached = []
    for metric in ("anchored", own):
        method = MiniBatch(batch_size=M, num_steps=200, proximal_weight=10.0, proximal_metric=metric, core_share=1.0)
        work = method.prepare(setup)
        state = method.init(work, None, seed=0)
        for _ in range(20):
            state, *_ = method.step(work, state)
        reached.append(np.asarray(state.values)[:, 0])
    np.testing.assert_allclose(reached[0], reached[1], atol=1e-9)


def test_one_batch_of_all_points_is_the_full_gp_and_says_it_converged():
    problem = get("elliptic").build(amplitude=0.5)
    arguments: dict[str, Any] = {"kernel": Gaussian(0.3), "num_interior": 30, "num_boundary": 20, "nugget": 1e-8}
    full = solve(problem, method=FullBatch(constraints="eliminate", tolerance=1e-12), **arguments)
    mini = solve(problem, method=MiniBatch(batch_size=64, num_steps=100), **arguments)
    # It came to rest, before its steps were done; thirty points resolve little.
    assert mini.result.outcome is full.result.outcome is Outcome.NOT_RESOLVED
    x = np.random.default_rng(0).random((40, 2))
    np.testing.assert_allclose(mini(x), full(x), atol=1e-5)


def truth_at(problem, x):
    found = reference_values(problem, x)
    assert found is not None
    return found[:, 0]


# Runs on the same points with batches of the same size share what is compiled.
M_ELLIPTIC = 24
ELLIPTIC: dict[str, Any] = {"num_interior": 320, "num_boundary": 80, "nugget": 1e-10, "kernel": Gaussian(0.3)}


def root_mean_square(difference):
    return np.sqrt(np.mean(difference**2))


@pytest.mark.slow
def test_without_a_prior_mean_a_run_comes_nearer_than_with_the_uniform_metric_and_tells_its_sweeps(monkeypatch):
    # 400 points: one thinned set of 100, then all.
    monkeypatch.setattr(method, "prior_mean", lambda setup, latent: "the full GP did not come to rest")
    problem = get("elliptic").build(amplitude=0.5)
    settings: dict[str, Any] = {"batch_size": M_ELLIPTIC, "num_steps": 5000}
    mini = solve(problem, method=MiniBatch(**settings), **ELLIPTIC)
    uniform = solve(problem, method=MiniBatch(**settings, proximal_metric="gram-diagonal"), **ELLIPTIC)
    x = problem.domain.grid((25, 25))
    truth = truth_at(problem, x)
    errors = [root_mean_square(s(x) - truth) for s in (mini, uniform)]
    assert errors[0] < 0.01
    assert errors[0] < 0.1 * errors[1]
    sweeps = [sweep for info in mini.history for sweep in info["sweeps"]]
    assert [sweep["num_points"] for sweep in sweeps[:2]] == [100, 100]
    assert sweeps[-1]["num_points"] == 400
    weights = [sweep["weight"] for sweep in sweeps]
    assert weights == sorted(weights)
    assert weights[-1] > 100 * weights[0]
    # Ended where it was, on the thinned set, a run has a solution everywhere all the same.
    short = solve(problem, method=MiniBatch(batch_size=M_ELLIPTIC, num_steps=250), **ELLIPTIC)
    assert {sweep["num_points"] for info in short.history for sweep in info["sweeps"]} == {100}
    assert np.abs(short(x) - truth).max() < 0.5
    assert short.result.outcome is Outcome.NOT_AT_REST
    assert not short.result.successful


def test_the_full_gp_on_half_of_the_points_is_the_prior_mean_and_a_few_sweeps_come_near_that_on_all(tmp_path):
    problem = get("elliptic").build(amplitude=0.5)
    arguments: dict[str, Any] = {**ELLIPTIC, "nugget": 1e-12}
    mini = solve(problem, method=MiniBatch(batch_size=40, num_steps=6000, tolerance=1e-6), **arguments)
    full = solve(problem, method=FullBatch(), **arguments)
    x = problem.domain.grid((25, 25))
    truth = truth_at(problem, x)
    predictor = mini.predictor
    assert isinstance(predictor, LocalPredictor)
    assert predictor.mean is not None
    alone = predictor.mean.table(predictor.kernels, [point_value(0, 2)], x)[:, 0]
    coarse, reached, best = (root_mean_square(values - truth) for values in (alone, mini(x), full(x)))
    assert mini.result.outcome is Outcome.CONVERGED
    assert reached < 3 * best
    assert reached < 0.3 * coarse  # it is the batches that come near
    # What they add is not counted as known: the variance is that of the process which made the mean.
    assert np.all(mini.std(x) > 0.999 * full.std(x))
    assert 190 < len(predictor.seen.points) < 210
    own, of_full = (np.mean(np.abs(mini(x) - truth) <= 1.96 * std) for std in (mini.std(x), full.std(x)))
    assert own > 3 * of_full  # the lengthscale is not the solution's, so that either is too small
    mini.save(tmp_path / "u.npz")
    np.testing.assert_array_equal(load(tmp_path / "u.npz")(x), mini(x))


def test_a_prior_mean_that_solves_some_of_linear_equations_does_not_change_the_minimiser_of_all(work):
    # One batch of all 24 points; the mean is the minimiser for the equations of every other point, by dense linear algebra.
    problem, table = work.problem, work.problem.table
    points, some = jnp.arange(24), np.arange(24) % 2 == 0
    functionals = Functionals(table.operators, (table.points,) * table.num_operators)
    K = np.asarray(jitted_gram(work.setup.kernels, functionals))
    active = np.asarray(table.active).T.reshape(-1)
    zero = jnp.zeros((24, table.num_operators))
    psi, residual = linearized(problem, points, zero, jnp.ones((table.num_operators, 24)))
    rows = np.concatenate([np.diag(np.asarray(block)) for block in psi[0]], axis=1)[some] * active
    z = K @ rows.T @ np.linalg.solve(rows @ K @ rows.T, -np.asarray(residual)[0][some])
    values = jnp.asarray(np.where(active, z, 0.0).reshape(-1, 24).T)
    with_mean = eqx.tree_at(lambda p: p.mean, problem, values)
    take = eqx.filter_jit(lambda p: p.step(p.batch(points, jnp.asarray(1e-12), jnp.asarray(0.0)), zero, jnp.asarray(0.0)))
    without, found = take(problem).values, take(with_mean).values
    assert np.abs(values - without)[:, 0].max() > 1e-5  # the mean is not the minimiser itself
    np.testing.assert_allclose(found[:, 0], without[:, 0], atol=1e-8)


@pytest.mark.slow
def test_equations_that_cannot_be_eliminated_hold_as_closely_as_in_the_full_gp():
    def left_side(u, x):
        return -partial(lambda y: u(y) ** 3, 0, 0)(x) + u(x)

    def exact(x):
        return 1.5 + jnp.sin(4 * x[0]) / 2

    equations = {"interior": lambda u, x: left_side(u, x) - left_side(exact, x), "boundary": lambda u, x: u(x) - exact(x)}
    problem = Problem(Box(0.0, 1.0), equations, reference=exact)
    arguments: dict[str, Any] = {"kernel": Gaussian(0.3), "num_interior": 38, "num_boundary": 2, "nugget": 1e-12}
    mini = solve(problem, method=MiniBatch(batch_size=12, num_steps=2000), **arguments)
    full = solve(problem, method=FullBatch(), **arguments)
    assert mini.result.outcome is Outcome.CONVERGED
    x = np.linspace(0, 1, 50)[:, None]
    truth = truth_at(problem, x)
    assert np.abs(mini(x) - truth).max() < 10 * np.abs(full(x) - truth).max() + 1e-9
    assert np.abs(mini.residual(mini.points["interior"])).max() < 1e-3  # of terms near a hundred


def test_bounds_are_kept_by_runs_whose_weights_raise_themselves_from_a_prior_mean():
    # An arch, 30 x (1 - x) / 2 nearly, under a ceiling.
    arch = Problem(LINE.domain, {"interior": lambda u, x: line(u, x) - 30.0, "boundary": lambda u, x: u(x)})
    setup = Setup(collocate(arch, arch.sample(22, 2, seed=3)), (Gaussian(0.2),), NUGGET)
    bounded = MiniBatch(batch_size=M, rim_ratio=RATIO, num_steps=240, bounds={"u": (-1.0, 2.0)})
    work = bounded.prepare(setup)
    state = bounded.init(work, None, seed=0)
    assert np.asarray(work.problem.mean)[:, 0].max() > 3.0  # the prior mean knows of no bounds
    for _ in range(10):
        state, *_ = bounded.step(work, state)
    assert np.asarray(state.values)[:, 0].max() == 2.0


@pytest.mark.slow
def test_the_start_decides_which_of_two_solutions_is_found():
    # u'' + eᵘ = 0 with u(0) = u(1) = 0: u(½) = 2 ln cosh(θ/4) with θ = √2 cosh(θ/4), which has two roots.
    problem = Problem(
        Box(0.0, 1.0), {"interior": lambda u, x: partial(u, 0, 0)(x) + jnp.exp(u(x)), "boundary": lambda u, x: u(x)}
    )
    arguments: dict[str, Any] = {"kernel": Gaussian(0.15), "num_interior": 58, "num_boundary": 2, "nugget": 1e-12}
    for height, start in [(0.1405, 0.0), (4.0915, 3.7)]:
        found = solve(
            problem, method=MiniBatch(batch_size=24), initial=lambda x, start=start: start * jnp.sin(jnp.pi * x[0]), **arguments
        )
        assert found.result.successful
        np.testing.assert_allclose(found(np.array([[0.5]])), height, atol=1e-3)


def test_noisy_data_that_made_the_prior_mean_are_not_counted_twice(monkeypatch):
    # One batch of all points: with a mean that half of the equations and all data have made it has the same minimiser.
    monkeypatch.setattr(mean, "MOST_POINTS", 14)
    data = Observations(np.array([[0.3], [0.6], [0.9]]), np.array([0.5, -0.4, 0.1]), noise=0.1)
    problem = Problem(LINE.domain, {"interior": line}, observations=[data])  # nothing but data fixes the solution
    setup = Setup(collocate(problem, problem.sample(22, seed=3)), (Gaussian(0.2),), 1e-12)
    work = MiniBatch(batch_size=30).prepare(setup)
    table, everything = work.problem.table, jnp.arange(25)
    zero, small = jnp.zeros((25, table.num_operators)), jnp.asarray(1e-12)
    take = eqx.filter_jit(lambda p: p.step(p.batch(everything, small, jnp.asarray(0.0)), zero, jnp.asarray(0.0)))
    without = take(work.problem).values[:, 0]
    found = mean.prior_mean(setup, None)
    assert isinstance(found, mean.PriorMean)
    assert {22, 23, 24} < set(found.coarse.points) < set(range(25))
    work.take_mean(found)
    assert np.abs(np.asarray(work.problem.mean)[:, 0] - without).max() > 1e-4  # the mean is not the minimiser itself
    np.testing.assert_allclose(take(work.problem).values[:, 0], without, atol=1e-6)
    twice = eqx.tree_at(lambda p: p.weighed, work.problem, jnp.zeros_like(work.problem.weighed))
    assert np.abs(take(twice).values[:, 0] - without).max() > 1e-2


def test_a_run_that_goes_astray_begins_again_with_one_weight_for_all_of_a_batch(work):
    values = jnp.zeros((24, work.problem.table.num_operators))
    phase = work.course.begin(values, 24)
    first, values, _, _ = work.course.after(phase, values + 1e-3, phase.found, 24)
    again, values, _, done = work.course.after(first, values + 1.0, phase.found, 24)
    assert (first.ratio, again.ratio, done) == (RATIO, 1.0, False)
    np.testing.assert_array_equal(values[:22, 0], 0.0)  # inside: where it began
    # With one weight there is nothing else to go back to.
    assert work.course.back(again, values) is None


@pytest.mark.slow
def test_on_the_elliptic_example_of_the_paper_it_converges():
    problem = get("elliptic").build()
    mini = solve(problem, method=MiniBatch(num_steps=20_000), num_interior=900, num_boundary=300, nugget=1e-13)
    assert mini.result.outcome is Outcome.CONVERGED
    x = np.random.default_rng(3).random((500, 2))
    assert root_mean_square(mini(x) - truth_at(problem, x)) < 4e-7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["helmholtz", "wave"])
def test_equations_on_which_rims_held_harder_lead_astray_come_near_the_full_gp(name):
    problem = get(name).build()
    x = np.random.default_rng(3).uniform(problem.domain.lower, problem.domain.upper, (500, 2))
    truth = truth_at(problem, x)
    mini, full = (solve(problem, method=method) for method in (MiniBatch(), FullBatch()))
    assert mini.result.outcome is Outcome.CONVERGED
    assert root_mean_square(mini(x) - truth) < 10 * root_mean_square(full(x) - truth)


def test_two_runs_one_after_the_other_give_the_bits_of_one():
    problem = get("elliptic").build(amplitude=0.5)

    def run(num_steps, **more):
        return solve(problem, method=MiniBatch(batch_size=M_ELLIPTIC, num_steps=num_steps), **ELLIPTIC, **more)

    half = run(600)
    np.testing.assert_array_equal(run(700, initial=half).latent, run(1300).latent)


def test_sets_of_points_are_nested_keep_every_part_and_their_batches_stay_inside():
    rng = np.random.default_rng(0)
    coordinates = np.concatenate([5 * rng.random((1600, 2)), np.stack([5 * rng.random(400), np.zeros(400)], axis=1)])
    part = np.repeat([0, 1], [1600, 400])
    sets, batches = rungs(coordinates, part, 20, nested=True)
    assert [len(rung.points) for rung in sets] == [500, 2000]
    assert set(sets[0].points) < set(sets[1].points)
    assert np.sum(part[sets[0].points]) == pytest.approx(100, abs=5)
    assert [rung.rows for rung in sets] == [BatchRange(0, 500), BatchRange(500, 2000)]
    assert set(batches[:500].reshape(-1)) <= set(sets[0].points)
    np.testing.assert_array_equal(batches[500:, 0], np.arange(2000))
    # Four times as far apart a kernel could not follow the thinned set.
    assert len(rungs(4 * coordinates, part, 20, nested=True)[0]) == 1


def test_weights_that_raise_themselves_need_sweeps_to_go_by():
    with pytest.raises(ValueError, match="weights that raise themselves go by sweeps"):
        MiniBatch(sampler="uniform", proximal_weight="raising(1e3)")
    with pytest.raises(ValueError, match="a factor > 1"):
        MiniBatch(proximal_weight="raising(1e3, 1)")
    with pytest.raises(ValueError, match="`core_share` is a share of the batch"):
        MiniBatch(core_share=1.5)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [1, 2])
def test_a_system_and_a_fourth_order_equation_come_near_the_full_gp(fields):
    if fields == 2:
        problem = Problem(
            Box((0.0, 0.0), (1.0, 1.0)),
            {
                "interior": [
                    lambda u, v, x: -laplacian(u)(x) + v(x) - 3.0,
                    lambda u, v, x: -laplacian(v)(x) + u(x) ** 2 - x[0],
                ],
                "boundary": [lambda u, v, x: u(x) - x[0], lambda u, v, x: v(x)],
            },
            fields=("u", "v"),
        )
        arguments: dict[str, Any] = {"kernel": Gaussian(0.4), "num_interior": 200, "num_boundary": 80, "nugget": 1e-10}
    else:
        problem = Problem(
            Box(0.0, 1.0),
            {
                "interior": lambda u, x: partial(u, 0, 0, 0, 0)(x) + u(x) ** 3 - 100.0,
                "boundary": [lambda u, x: u(x), lambda u, x: partial(u, 0)(x)],
            },
        )
        arguments = {"kernel": Gaussian(0.2), "num_interior": 98, "num_boundary": 2, "nugget": 1e-12}
    full = solve(problem, method=FullBatch(), **arguments)
    mini = solve(problem, method=MiniBatch(batch_size=32, num_steps=8000), **arguments)
    x = np.random.default_rng(0).random((50, problem.domain.dim))
    assert np.abs(mini(x) - full(x)).max() < 1e-3 * np.abs(full(x)).max()
