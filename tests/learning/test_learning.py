"""Learned kernels: the likelihood against dense linear algebra, numbers against fields drawn from a known kernel."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import gpde
from gpde.learning.learned import Learning
from gpde.learning.likelihood import Patches, of_data, scores
from gpde.learning.search import Limits, Tried, _bend, _directions, _least, polish
from gpde.learning.shape import Shape, scaled

VALUE, SECOND = ((0, (((0,), 1.0),)),), ((0, (((2,), 1.0),)),)


def patches_of(x: np.ndarray, coefficients: np.ndarray, rhs: np.ndarray, noise: float = 0.0) -> Patches:
    """One patch with one equation, a u + b u'' = c, at each point."""
    return Patches(
        operators=(VALUE, SECOND),
        noisy=noise > 0,
        points=jnp.asarray(x[None, :, None]),
        coefficients=jnp.asarray(coefficients[None, :, None, :]),
        rhs=jnp.asarray(rhs[None, :, None]),
        noise_variance=jnp.full((1, len(x), 1), noise),
        used=jnp.ones((1, len(x), 1), dtype=bool),
    )


def dense_covariance(x: np.ndarray, coefficients: np.ndarray, lengthscale: float) -> np.ndarray:
    """The covariance of a u + b u'', from the derivatives of exp(-r²/2ℓ²) on paper."""
    t = (x[:, None] - x[None, :]) / lengthscale
    gauss = np.exp(-(t**2) / 2)
    second, fourth = (t**2 - 1) / lengthscale**2 * gauss, (t**4 - 6 * t**2 + 3) / lengthscale**4 * gauss
    a, b = coefficients.T
    return a[:, None] * gauss * a + (a[:, None] * b + b[:, None] * a) * second + b[:, None] * fourth * b


def test_a_kernel_whose_nugget_drowns_exact_equations_pays_for_what_it_leaves_unmet():
    x, nugget = np.linspace(0, 1, 8), 1e-2
    coefficients, rhs = np.stack([np.ones(8), np.zeros(8)], axis=1), np.arange(8) % 2.0
    shape = Shape((gpde.Gaussian([2.0]),), 1, every_amplitude=False)
    found, _ = scores(shape, jnp.asarray(shape.theta)[None], patches_of(x, coefficients, rhs), jnp.asarray(nugget))
    prior = dense_covariance(x, coefficients, 2.0)
    whole = prior + nugget * np.eye(8)
    unmet = np.sum((rhs - prior @ np.linalg.solve(whole, rhs)) ** 2) / np.sum(rhs**2)
    likelihood = 0.5 * np.log(rhs @ np.linalg.solve(whole, rhs) / 8) + 0.5 * np.linalg.slogdet(whole)[1] / 8
    assert unmet > 0.4  # the flat kernel takes 0, 1, 0, 1, ... for noise
    assert found[0] == pytest.approx(likelihood + np.log1p(unmet / 1e-6), rel=1e-6)


def test_an_equation_with_zero_on_its_right_is_not_taken_for_flat():
    # Patches see one end of the interval, and a constant meets what they see.
    epsilon = 0.05
    problem = gpde.Problem(
        gpde.Box(0.0, 1.0),
        {
            "interior": lambda u, x: epsilon * gpde.partial(u, 0, 0)(x) + gpde.partial(u, 0)(x),
            "left": lambda u, x: u(x),
            "right": lambda u, x: u(x) - 1,
        },
    )
    solution = gpde.solve(problem, num_interior=100, num_boundary=2)
    x = np.linspace(0, 1, 60)
    assert solution.result.successful
    np.testing.assert_allclose(solution(x[:, None]), np.expm1(-x / epsilon) / np.expm1(-1 / epsilon), atol=1e-4)


def test_a_layer_along_one_coordinate_is_found_between_two_hills():
    # Patches miss the layer. With both lengthscales short enough to see it no point has to do with another.
    epsilon = 0.04

    def exact(x):
        layer = (jnp.exp((x[0] - 1) / epsilon) - jnp.exp(-1 / epsilon)) / (1 - jnp.exp(-1 / epsilon))
        return (x[0] - layer) * jnp.sin(jnp.pi * x[1])

    def left_side(u, x):
        return -epsilon * gpde.laplacian(u)(x) + gpde.partial(u, 0)(x)

    equations = {"interior": lambda u, x: left_side(u, x) - left_side(exact, x), "boundary": lambda u, x: u(x)}
    problem = gpde.Problem(gpde.Box((0.0, 0.0), (1.0, 1.0)), equations, reference=exact)
    solution = gpde.solve(problem, num_interior=250, num_boundary=80)
    points = problem.domain.test_points((30, 30))
    assert solution.result.successful
    np.testing.assert_allclose(solution(points), jax.vmap(exact)(jnp.asarray(points)), atol=1e-2)


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_the_likelihood_is_that_of_a_normal_distribution(noise: float):
    generator = np.random.default_rng(0)
    x, nugget = np.linspace(0, 1, 12) + 0.02 * generator.random(12), 1e-6
    coefficients, rhs = np.stack([np.ones(12), generator.random(12)], axis=1), generator.normal(size=12)
    shape = Shape((gpde.Gaussian([0.15]),), 1, every_amplitude=noise > 0)
    found, amplitude = scores(
        shape, jnp.asarray(shape.theta)[None], patches_of(x, coefficients, rhs, noise), jnp.asarray(nugget)
    )
    covariance = dense_covariance(x, coefficients, 0.15)
    covariance += np.diag(nugget * np.diag(covariance))
    if noise > 0:
        covariance, best = covariance + noise * np.eye(12), 1.0
    else:
        best = np.sqrt(rhs @ np.linalg.solve(covariance, rhs) / 12)  # the amplitude of largest likelihood
    quadratic = rhs @ np.linalg.solve(best**2 * covariance, rhs)
    expected = (0.5 * quadratic + 0.5 * np.linalg.slogdet(best**2 * covariance)[1]) / 12
    assert amplitude[0] == pytest.approx(best, rel=1e-6)
    # Without noise a constant ½ is left out, and what a nugget leaves of exact equations is paid for: the test above.
    left = nugget * np.diag(dense_covariance(x, coefficients, 0.15)) * np.linalg.solve(covariance, rhs)
    unit = np.diag(dense_covariance(x, coefficients, 0.15))
    unmet = 0.0 if noise else np.log1p(np.sum(left**2 / unit) / np.sum(rhs**2 / unit) / 1e-6)
    assert found[0] == pytest.approx(expected - (0 if noise else 0.5) + unmet, rel=1e-6)


def test_what_data_say_given_the_equations_is_a_quotient_of_normal_densities():
    generator, nugget, ell = np.random.default_rng(4), 1e-6, 0.3
    x, coefficients, rhs = generator.random(9), generator.random((9, 2)), generator.normal(size=9)
    noise = np.where(np.arange(9) < 5, 0.0, 0.04)
    batch = dataclasses.replace(patches_of(x, coefficients, rhs, 0.1), noise_variance=jnp.asarray(noise[None, :, None]))
    factors, prior = np.array([0.5, 1.0, 4.0]), dense_covariance(x, coefficients, ell)
    found = of_data((gpde.Gaussian(ell),), batch, jnp.asarray(nugget), jnp.asarray(factors))
    for factor, value in zip(factors, found, strict=True):
        both = factor**2 * (prior + nugget * np.diag(np.diagonal(prior)))
        both[5:, 5:] += 0.04 * np.eye(4)
        joint, alone = (multivariate_normal(cov=both[:n, :n]).logpdf(rhs[:n]) for n in (9, 5))
        assert value == pytest.approx(alone - joint - 2 * np.log(2 * np.pi), rel=1e-6)


def test_equations_with_zero_on_their_right_do_not_talk_data_down():
    # Hundreds of equations that u = 0 satisfies, and sixty values that say something else.
    def exact(x):
        slow, fast = jnp.sin(jnp.pi * x[1]), jnp.sin(2 * jnp.pi * x[1])
        return jnp.exp(-x[0]) * slow + 0.5 * jnp.exp(-4 * x[0]) * fast

    generator = np.random.default_rng(3)
    places = generator.random((60, 2))
    values = np.asarray(jax.vmap(exact)(jnp.asarray(places))) + 0.03 * generator.normal(size=60)
    problem = gpde.Problem(
        gpde.SpaceTime((0.0, 1.0), 0.0, 1.0),
        {
            "interior": lambda u, x: gpde.partial(u, 0)(x) - gpde.partial(u, 1, 1)(x) / jnp.pi**2,
            "boundary": lambda u, x: u(x),
        },
        observations=gpde.Observations(places, values, noise=0.03),
    )
    solution = gpde.solve(problem, num_interior=400, num_boundary=100)
    points = problem.domain.test_points((20, 20))
    truth = np.asarray(jax.vmap(exact)(jnp.asarray(points)))
    off = np.abs(solution(points) - truth)
    assert np.sqrt(np.mean(off**2)) < 0.03  # as large as the noise; it was 0.13
    assert np.mean(off <= 1.96 * solution.std(points)) > 0.9


def test_points_without_an_equation_say_nothing():
    generator = np.random.default_rng(1)
    x, coefficients, rhs = generator.random(9), generator.random((9, 2)), generator.normal(size=9)
    shape = Shape((gpde.Matern(5 / 2, [0.3]),), 1, every_amplitude=False)
    whole = patches_of(x, coefficients, rhs)
    fewer = patches_of(x[:7], coefficients[:7], rhs[:7])
    masked = Patches(whole.operators, False, *[getattr(whole, n) for n in ("points", "coefficients", "rhs", "noise_variance")],
                     used=jnp.arange(9)[None, :, None] < 7)  # fmt: skip
    first, second = (scores(shape, jnp.asarray(shape.theta)[None], p, jnp.asarray(1e-8)) for p in (fewer, masked))
    assert np.allclose(first, second, rtol=1e-10)


def random_field(lengthscale: np.ndarray, amplitude: float, seed: int):
    """A draw from a Gaussian kernel: many cosines of random frequency and phase."""
    generator = np.random.default_rng(seed)
    frequency = jnp.asarray(generator.normal(size=(400, len(lengthscale))) / lengthscale)
    phase = jnp.asarray(2 * np.pi * generator.random(400))
    return lambda x: amplitude * np.sqrt(2 / 400) * jnp.sum(jnp.cos(frequency @ x + phase))


@pytest.mark.parametrize("method", [gpde.FullBatch(), gpde.Consensus()])
def test_a_field_drawn_from_a_kernel_gives_its_numbers_back(method: gpde.FullBatch | gpde.Consensus):
    truth = np.array([0.3, 0.1])
    field = random_field(truth, amplitude=5.0, seed=3)

    def helmholtz(u: Any, x: Any) -> Any:
        return u(x) - 0.01 * gpde.laplacian(u)(x) - (field(x) - 0.01 * gpde.laplacian(field)(x))

    problem = gpde.Problem(gpde.Box((0.0, 0.0), (1.0, 1.0)), {"interior": helmholtz, "boundary": lambda u, x: u(x) - field(x)})
    learning = gpde.learn(problem, gpde.Gaussian((0.05, 0.5)), method=method, num_interior=400, num_boundary=100, nugget=1e-10)
    kernel = learning.kernel
    assert isinstance(kernel, gpde.Gaussian)
    assert np.allclose(np.log(kernel.lengthscale), np.log(truth), atol=0.25)
    # One field of ten by three lengthscales tells its amplitude to a factor of two.
    assert np.log(float(kernel.amplitude)) == pytest.approx(np.log(5.0), abs=np.log(2))
    assert learning.tried
    assert "learned Gaussian" in str(learning)


def test_a_start_ten_times_too_smooth_ends_near_the_best_kernel():
    problem = gpde.gallery.get("elliptic").build(amplitude=1.0)
    points = {"num_interior": 160, "num_boundary": 60, "method": gpde.FullBatch(), "nugget": 1e-12}
    grid = problem.domain.test_points((21, 21))
    assert problem.reference is not None
    truth = np.asarray(jax.jit(jax.vmap(problem.reference))(grid))

    def error(kernel: Any) -> float:
        return float(np.sqrt(np.mean((gpde.solve(problem, kernel, **points)(grid) - truth) ** 2)))

    best = min(error(gpde.Gaussian((s, s))) for s in (0.15, 0.2, 0.25, 0.3))
    assert error(gpde.Learned(gpde.Gaussian(2.0))) < 3 * best


def test_the_last_look_goes_downhill_until_nothing_helps():
    x = np.linspace(0, 1, 30)
    rhs = np.sin(9 * x)
    batch = patches_of(x, np.tile([1.0, 0.0], (30, 1)), rhs)
    shape = Shape((gpde.Gaussian([0.02]),), 1, every_amplitude=False)
    limits = Limits(np.log([0.001]), np.log([10.0]))
    tried = polish(shape, [shape.theta], batch, 1e-8, limits, max_tries=30)
    best = min(tried, key=lambda t: t.score)
    around = [
        float(scores(shape, jnp.asarray(best.theta + d)[None], batch, jnp.asarray(1e-8))[0][0]) for d in np.log([0.7, 1.4])
    ]
    assert best.score < tried[0].score
    assert best.score <= min(around) + 1e-6


def test_of_several_starts_the_last_look_goes_on_from_the_best():
    x = np.linspace(0, 1, 30)
    batch = patches_of(x, np.tile([1.0, 0.0], (30, 1)), np.sin(9 * x))
    shape = Shape((gpde.Gaussian([0.02]),), 1, every_amplitude=False)
    limits = Limits(np.log([0.001]), np.log([10.0]))
    near = np.log([0.3])
    tried = polish(shape, [shape.theta, near], batch, 1e-8, limits, max_tries=1)
    assert [t.theta[0] for t in tried[:2]] == [shape.theta[0], near[0]]
    assert tried[1].score < tried[0].score
    assert abs(tried[2].theta[0] - near[0]) < np.log(2.0)


def test_a_score_that_another_linearisation_left_as_it_was_needs_no_other_look():
    x = np.linspace(0, 1, 30)
    batch = patches_of(x, np.tile([1.0, 0.0], (30, 1)), np.sin(9 * x))
    shape = Shape((gpde.Gaussian([0.1]),), 1, every_amplitude=False)
    limits = Limits(np.log([0.001]), np.log([10.0]))
    (first, *_) = polish(shape, [shape.theta], batch, 1e-8, limits, max_tries=5)
    assert len(polish(shape, [shape.theta], batch, 1e-8, limits, 5, before=first.score + 0.01)) == 1
    assert len(polish(shape, [shape.theta], batch, 1e-8, limits, 5, before=first.score + 1.0)) > 1


def test_a_parabola_through_what_was_tried_is_least_where_calculus_says():
    bend, least = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([0.2, -0.1])

    def tried(*places: tuple[float, float]) -> list[Tried]:
        return [Tried("", np.array([*p, 7.0]), float(0.5 * (p - least) @ bend @ (p - least))) for p in map(np.array, places)]

    six = tried((0, 0), (0.3, 0), (-0.3, 0), (0, 0.3), (0, -0.3), (0.3, 0.3))
    found, gain = _least(six, 2, None)
    own = _bend(six, 2)
    assert found is not None
    assert own is not None
    assert np.allclose(own, bend)
    assert np.allclose(found, [*least, 7.0])
    assert np.isclose(gain, min(t.score for t in six))
    # Three do not tell how it bends, unless that is known; along the line of two it is least where its slope there is zero.
    assert _least(six[:3], 2, None)[0] is None
    three, along = _least(six[:2] + six[3:4], 2, bend)[0], _least(six[:2], 2, bend)[0]
    assert three is not None
    assert along is not None
    assert np.allclose(three, [*least, 7.0])
    assert np.allclose(along[1:], [0.0, 7.0])
    assert np.isclose((bend @ (along[:2] - least))[0], 0.0)


def test_scores_that_bend_as_they_did_on_fewer_points_need_fewer_looks():
    x = np.linspace(0, 1, 30)
    batch = patches_of(x, np.tile([1.0, 0.0], (30, 1)), np.sin(9 * x))
    shape = Shape((gpde.Gaussian([0.1]),), 1, every_amplitude=False)
    limits = Limits(np.log([0.001]), np.log([10.0]))
    first = polish(shape, [shape.theta], batch, 1e-8, limits, max_tries=30)
    best = min(first, key=lambda t: t.score)
    again = [polish(shape, [best.theta], batch, 1e-8, limits, 30, earlier=each) for each in ([], first)]
    assert len(again[1]) < len(again[0])
    assert np.isclose(min(t.score for t in again[1]), min(t.score for t in again[0]), atol=0.05)


@pytest.mark.parametrize("num", [1, 2, 3, 4])
def test_the_last_look_asks_in_every_direction_and_its_opposite_and_leaves_amplitudes_alone(num: int):
    directions = np.array(_directions(num + 2, num))
    assert np.linalg.matrix_rank(directions) == num
    assert np.all(directions[:, num:] == 0)
    assert {tuple(np.round(d, 12) + 0.0) for d in directions} == {tuple(np.round(-d, 12) + 0.0) for d in directions}
    assert len({tuple(np.round(d, 12)) for d in directions}) == len(directions)


def test_the_full_gp_learns_from_all_points_that_it_solves_on():
    def front(x: Any) -> Any:
        return jnp.tanh(x[0] / 0.04)

    def value(u: Any, x: Any) -> Any:
        return u(x) - front(x)

    problem = gpde.Problem(gpde.Box(-1.0, 1.0), {"interior": value, "boundary": value})
    numbers: dict[str, Any] = {"num_interior": 700, "num_boundary": 2}
    learning = gpde.learn(problem, gpde.Gaussian([0.5]), method=gpde.FullBatch(), nugget=1e-10, **numbers)
    assert isinstance(learning.kernel, gpde.Gaussian)
    learned = float(learning.kernel.lengthscale[0])
    x = np.concatenate([each[:, 0] for each in problem.sample(**numbers, seed=0).values()])
    rhs = np.tanh(x / 0.04)

    def negative_log_likelihood(lengthscale: float) -> float:
        covariance = dense_covariance(x, np.tile([1.0, 0.0], (len(x), 1)), lengthscale) + 1e-10 * np.eye(len(x))
        dual = np.linalg.solve(covariance, rhs)
        unmet = np.sum((1e-10 * dual) ** 2) / np.sum(rhs**2)
        quadratic = 0.5 * np.log(rhs @ dual / len(x)) + np.log1p(unmet / 1e-6)
        return float(quadratic + 0.5 * np.linalg.slogdet(covariance)[1] / len(x))

    found, *around = [negative_log_likelihood(factor * learned) for factor in (1.0, 0.7, 1.4)]
    assert learning.score == pytest.approx(found, rel=1e-4)
    assert found < min(around)


def test_a_field_is_made_larger_by_all_amplitudes_of_its_sum():
    kernels = (gpde.Gaussian([0.3]) + gpde.Offset(2.0), gpde.Gaussian([0.2]) + gpde.Offset(1.0))
    shape = Shape(kernels, 1, every_amplitude=False)
    (direction,) = shape.field_scales
    first, second = shape.at(jnp.asarray(shape.theta + np.log(10.0) * direction))
    x, y = jnp.array([0.1]), jnp.array([0.4])
    assert float(first(x, y)) == pytest.approx(float(kernels[0](x, y)), rel=1e-12)
    assert float(second(x, y)) == pytest.approx(100 * float(kernels[1](x, y)), rel=1e-12)


def test_the_last_look_finds_an_amplitude_that_noise_tells():
    x = np.linspace(0, 1, 30)
    batch = dataclasses.replace(patches_of(x, np.tile([1.0, 0.0], (30, 1)), 10 * np.sin(9 * x)), noisy=True)
    shape = Shape((gpde.Gaussian([0.3], amplitude=0.1),), 1, every_amplitude=True)
    limits = Limits(np.log([0.3, 1e-6]), np.log([0.3, 1e6]))
    best = min(polish(shape, [shape.theta], batch, 1e-8, limits, max_tries=5), key=lambda t: t.score)
    covariance = dense_covariance(x, np.tile([1.0, 0.0], (30, 1)), 0.3) + 1e-8 * np.eye(30)
    likely = 10 * np.sqrt(np.sin(9 * x) @ np.linalg.solve(covariance, np.sin(9 * x)) / 30)  # where its derivative is zero
    assert 1 / 3 < np.exp(best.theta[1]) / likely < 3


def test_a_field_may_not_vanish_from_the_prior_where_a_rough_solution_has_it():
    kernels = (gpde.Gaussian([0.3]) + gpde.Offset(2.0), gpde.Gaussian([0.2]) + gpde.Offset(1.0))
    shape = Shape(kernels, 1, every_amplitude=False)
    limits = Limits.of(shape, np.ones(1), 100).with_fields_of(shape, np.array([2.0, 0.5]))
    lower, upper = np.exp(limits.lower), np.exp(limits.upper)
    assert np.allclose(lower[3:], 0.25 / 30)
    assert np.allclose(upper[3:], 0.25 * 30)
    assert lower[2] < 1e-5  # the constant beside the first field is as free as before


@pytest.mark.slow
def test_two_fields_that_only_a_boundary_couples_are_both_learned():
    # u'' + k²u = v'' + k²v = 0 with u(0) = 1, v(0) = 0 and u' = kv, v' = -ku at both ends: u = cos kx, v = -sin kx.
    k = 8.0
    problem = gpde.Problem(
        gpde.Box(0.0, 1.0),
        {
            "interior": [
                lambda u, v, x: gpde.partial(u, 0, 0)(x) + k**2 * u(x),
                lambda u, v, x: gpde.partial(v, 0, 0)(x) + k**2 * v(x),
            ],
            "left": [lambda u, v, x: u(x) - 1, lambda u, v, x: v(x)],
            "right": [lambda u, v, x: gpde.partial(u, 0)(x) - k * v(x), lambda u, v, x: gpde.partial(v, 0)(x) + k * u(x)],
        },
        fields=("u", "v"),
    )
    solution = gpde.solve(problem, num_interior=60)
    x = np.linspace(0, 1, 21)[:, None]
    np.testing.assert_allclose(solution(x), np.concatenate([np.cos(k * x), -np.sin(k * x)], axis=1), atol=1e-4)


def test_an_amplitude_multiplies_sums_throughout_and_products_once():
    kernel = scaled(gpde.Gaussian(0.3) * gpde.Matern(5 / 2, 0.2) + gpde.Offset(2.0), 3.0)
    x, y = jnp.array([0.1]), jnp.array([0.4])
    before = gpde.Gaussian(0.3) * gpde.Matern(5 / 2, 0.2) + gpde.Offset(2.0)
    assert float(kernel(x, y)) == pytest.approx(9 * float(before(x, y)), rel=1e-12)


def test_what_cannot_be_learned_is_refused():
    problem = gpde.gallery.get("poisson").build()
    with pytest.raises(ValueError, match="give the kernel to start from"):
        gpde.Learned()
    with pytest.raises(ValueError, match="not Offset"):
        gpde.Learned(gpde.Offset)
    with pytest.raises(ValueError, match="no lengthscale"):
        gpde.solve(problem, gpde.Learned(gpde.Offset(1.0)))
    with pytest.raises(ValueError, match="one kernel per field"):
        gpde.learn(problem, {"v": gpde.Gaussian(0.2)})


@pytest.mark.parametrize(("rounds", "text"), [(1, "kernel learned in 1 round"), (3, "kernel learned in 3 rounds")])
def test_one_round_is_not_several(rounds: int, text: str):
    assert Learning(("u",), (gpde.Gaussian(0.2),), 0.0, [], rounds, 0.0).note == text
