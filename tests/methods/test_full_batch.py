"""The full GP against kriging and a general-purpose optimiser, its three forms against each other, and its failures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from gpde.domains import Box
from gpde.gallery import get
from gpde.kernels import Gaussian, Matern
from gpde.methods import FullBatch
from gpde.operators import partial
from gpde.outcomes import Outcome
from gpde.problem.problem import Observations, Problem
from gpde.solution._solve import solve

LENGTHSCALE = 0.15
FINE = np.linspace(0, 1, 41)[:, None]
INTERIOR = np.linspace(0.05, 0.95, 13)[:, None]
ENDS = np.array([[0.0], [1.0]])
POINTS = {"interior": INTERIOR, "boundary": ENDS}
FORMS = ("eliminate", "relax", "linearize")


def cubic(u, x):
    return -partial(u, 0, 0)(x) + 20 * u(x) ** 3 - 30 * jnp.sin(3 * x[0])


def ends(u, x):
    return u(x) - x[0]


@pytest.fixture(scope="module")
def linear_problem():
    equations = {"interior": lambda u, x: -partial(u, 0, 0)(x) + 4 * u(x) - jnp.cos(5 * x[0]), "boundary": ends}
    return Problem(Box(0, 1), equations)


@pytest.fixture(scope="module")
def nonlinear_problem():
    return Problem(Box(0, 1), {"interior": cubic, "boundary": ends})


# --- the covariances of u and u'' under the Gaussian kernel, by hand ----------------------------------------------------


def kernel(x, y):
    return np.exp(-0.5 * ((x - y.T) / LENGTHSCALE) ** 2)


def second(x, y):
    """Of u(x) and u''(y), or the other way round: the kernel is even."""
    r = x - y.T
    return (r**2 / LENGTHSCALE**4 - 1 / LENGTHSCALE**2) * kernel(x, y)


def fourth(x, y):
    """Of u''(x) and u''(y)."""
    r = x - y.T
    return (r**4 / LENGTHSCALE**8 - 6 * r**2 / LENGTHSCALE**6 + 3 / LENGTHSCALE**4) * kernel(x, y)


def prior():
    """The Gram matrix of (u on the ends, u inside, u'' inside), and its block nugget."""
    a, b = ENDS, INTERIOR
    rows = [
        [kernel(a, a), kernel(a, b), second(a, b)],
        [kernel(b, a), kernel(b, b), second(b, b)],
        [second(b, a), second(b, b), fourth(b, b)],
    ]
    scale = np.concatenate([np.ones(2 + 13), np.full(13, 3 / LENGTHSCALE**4)])
    return np.block(rows), scale


def to(x):
    """The covariance of u(x) with the same functionals."""
    return np.hstack([kernel(x, ENDS), kernel(x, INTERIOR), second(x, INTERIOR)])


def test_a_linear_problem_is_solved_by_the_kriging_formula(linear_problem):
    nugget = 1e-8
    solution = solve(linear_problem, Gaussian(LENGTHSCALE), points=POINTS, nugget=nugget)
    gram, _ = prior()
    rows = np.zeros((15, 28))  # u on the ends, 4u - u'' inside
    rows[:2, :2] = np.eye(2)
    rows[2:, 2:15], rows[2:, 15:] = 4 * np.eye(13), -np.eye(13)
    rhs = np.append(ENDS, np.cos(5 * INTERIOR))
    matrix = rows @ gram @ rows.T
    matrix += nugget * np.diag(np.diag(matrix))
    weights = np.linalg.solve(matrix, rhs)
    np.testing.assert_allclose(solution(FINE), to(FINE) @ rows.T @ weights, atol=1e-9)
    assert solution.result.num_steps == 1
    assert not solution.result.failed

    # And its standard deviation is that of the conditioned process.
    cross = to(FINE) @ rows.T
    variance = 1 - np.sum(cross * np.linalg.solve(matrix, cross.T).T, axis=1)
    np.testing.assert_allclose(solution.std(FINE), np.sqrt(np.maximum(variance, 0)), atol=1e-5)


def test_elimination_finds_the_constrained_minimum_that_a_general_optimiser_finds(nonlinear_problem):
    nugget = 1e-6
    gram, scale = prior()
    inverse = np.linalg.inv(gram + nugget * np.diag(scale))

    def latent(inside):
        # u'' = 20 u³ - 30 sin 3x takes the equation's place, the boundary values that of the ends.
        return np.concatenate([ENDS[:, 0], inside, 20 * inside**3 - 30 * np.sin(3 * INTERIOR[:, 0])])

    def objective(inside):
        z = latent(inside)
        slope = inverse @ z
        return 0.5 * z @ slope, slope[2:15] + 60 * inside**2 * slope[15:]

    found = minimize(objective, np.zeros(13), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    expected = to(FINE) @ inverse @ latent(found.x)

    solution = solve(
        nonlinear_problem,
        Gaussian(LENGTHSCALE),
        points=POINTS,
        nugget=nugget,
        method=FullBatch(constraints="eliminate", tolerance=1e-10),
    )
    np.testing.assert_allclose(solution(FINE), expected, atol=2e-7)
    assert solution.history[-1]["objective"] == pytest.approx(found.fun, rel=1e-9)


def test_relaxation_finds_the_penalised_minimum_that_a_general_optimiser_finds(nonlinear_problem):
    nugget, weight = 1e-6, 1e-3
    gram, scale = prior()
    lower = np.linalg.cholesky(gram + nugget * np.diag(scale))

    def objective(white):  # in coordinates z = L w in which the prior term is |w|²
        z = lower @ white
        inside, bent = z[2:15], z[15:]
        left = np.append(z[:2] - ENDS[:, 0], -bent + 20 * inside**3 - 30 * np.sin(3 * INTERIOR[:, 0]))
        slope = np.concatenate([left[:2], 60 * inside**2 * left[2:], -left[2:]]) / weight
        return 0.5 * white @ white + 0.5 * left @ left / weight, white + lower.T @ slope

    found = minimize(objective, np.zeros(28), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 20_000})
    solution = solve(
        nonlinear_problem,
        Gaussian(LENGTHSCALE),
        points=POINTS,
        nugget=nugget,
        method=FullBatch(constraints="relax", regularization=weight, tolerance=1e-10),
    )
    np.testing.assert_allclose(solution(FINE), to(FINE) @ np.linalg.solve(lower.T, found.x), atol=1e-6)
    assert solution.history[-1]["objective"] == pytest.approx(found.fun, rel=1e-8)


# --- the three forms ---------------------------------------------------------------------------------------------------


def test_in_a_well_conditioned_setting_elimination_and_linearisation_agree(nonlinear_problem):
    one, other = (
        solve(
            nonlinear_problem, Gaussian(0.06), points=POINTS, nugget=1e-13, method=FullBatch(constraints=form, tolerance=1e-10)
        )(FINE)
        for form in ("eliminate", "linearize")
    )
    np.testing.assert_allclose(one, other, atol=1e-8)


def test_relaxation_tends_to_elimination_as_the_equations_weigh_more(nonlinear_problem):
    settings = {"kernel": Gaussian(0.06), "points": POINTS, "nugget": 1e-13}
    strict = solve(nonlinear_problem, **settings, method=FullBatch(constraints="eliminate", tolerance=1e-10))(FINE)
    gaps = []
    for weight in (1e-2, 1e-4, 1e-6, 1e-8):
        method = FullBatch(constraints="relax", regularization=weight, tolerance=1e-10)
        gaps.append(np.abs(solve(nonlinear_problem, **settings, method=method)(FINE) - strict).max())
    # The gap is proportional to the regularization.
    assert gaps[0] > 1e-6
    assert np.all(np.array(gaps[1:]) < 0.02 * np.array(gaps[:-1]) + 1e-9)


def test_the_three_forms_differ_by_less_than_the_error_and_by_ever_less_as_the_nugget_falls():
    problem = get("elliptic").build()
    grid = problem.domain.grid((40, 40))
    assert problem.reference is not None
    truth = np.asarray(jax.vmap(problem.reference)(grid))
    gaps = []
    for nugget in (1e-8, 1e-10, 1e-12):
        values = {
            form: solve(problem, num_interior=150, num_boundary=60, nugget=nugget, method=FullBatch(constraints=form))(grid)
            for form in FORMS
        }
        error = min(np.abs(v - truth).max() for v in values.values())
        gaps.append(max(np.abs(values[form] - values["eliminate"]).max() for form in FORMS))
        assert gaps[-1] < error
    assert gaps[0] > gaps[1] > gaps[2]


def test_linearisation_is_the_default_and_needs_no_constant_coefficient():
    problem = Problem(
        Box(0, 1),
        {"interior": lambda u, x: (1 + x[0]) * partial(u, 0, 0)(x) - 1, "boundary": lambda u, x: u(x)},
    )
    assert FullBatch().form == "linearize"
    solution = solve(problem, Gaussian(0.3), points=POINTS)
    # (1 + x) u'' = 1 with u(0) = u(1) = 0: u = (1 + x) log(1 + x) - 2 x log 2.
    x = FINE[:, 0]
    np.testing.assert_allclose(solution(FINE), (1 + x) * np.log1p(x) - 2 * x * np.log(2), atol=1e-5)
    with pytest.raises(ValueError, match=r'the equation on .*interior.* Use `constraints="linearize"`'):
        solve(problem, Gaussian(0.3), points=POINTS, method=FullBatch(constraints="eliminate"))


@pytest.mark.parametrize("form", FORMS)
def test_noisy_observations_are_weighed_by_their_variance_in_every_form(form):
    # Data alone: Gaussian process regression, k(k + σ²)⁻¹ y.
    noise = np.where(np.arange(13) % 2, 0.3, 0.05)
    values = np.sin(6 * INTERIOR[:, 0])
    problem = Problem(Box(0, 1), {}, observations=Observations(INTERIOR, values, noise=noise))
    solution = solve(problem, Gaussian(LENGTHSCALE), nugget=1e-12, method=FullBatch(constraints=form))
    matrix = kernel(INTERIOR, INTERIOR) + np.diag(noise**2)
    np.testing.assert_allclose(solution(FINE), kernel(FINE, INTERIOR) @ np.linalg.solve(matrix, values), atol=1e-8)
    cross = kernel(FINE, INTERIOR)
    variance = 1 - np.sum(cross * np.linalg.solve(matrix, cross.T).T, axis=1)
    np.testing.assert_allclose(solution.std(FINE), np.sqrt(variance), atol=1e-7)


# --- how runs end ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def easy_problem():
    return Problem(Box(0, 1), {"interior": lambda u, x: partial(u, 0, 0)(x) - 1, "boundary": lambda u, x: u(x)})


def test_a_failed_factorisation_raises_the_nugget_and_the_result_says_so(easy_problem):
    solution = solve(
        easy_problem, Gaussian(3.0), num_interior=40, num_boundary=2, nugget=1e-20, method=FullBatch(max_escalations=9)
    )
    assert solution.result.successful
    assert solution.result.nugget is not None
    assert 1e-17 < solution.result.nugget < 1e-11
    assert f"the nugget was raised from 1.0e-20 to {solution.result.nugget:.1e}" in str(solution.result)
    assert solution.history[-1]["nugget"] == solution.result.nugget
    np.testing.assert_allclose(solution(FINE), FINE[:, 0] * (FINE[:, 0] - 1) / 2, atol=1e-5)


def test_the_nugget_is_raised_at_most_as_often_as_stated(easy_problem):
    method = FullBatch(max_escalations=1)
    solution = solve(easy_problem, Gaussian(3.0), num_interior=40, num_boundary=2, nugget=1e-20, method=method)
    assert solution.result.outcome is Outcome.NOT_POSITIVE_DEFINITE
    assert solution.result.failed
    assert "Raise `nugget`" in str(solution.result)
    assert solution.result.nugget == pytest.approx(1e-19)
    np.testing.assert_array_equal(solution(FINE), np.zeros(41))
    with pytest.raises(ValueError, match=r"`std`: the covariance .* is not positive definite"):
        solution.std(FINE)


@pytest.mark.parametrize("form", FORMS)
def test_an_equation_that_is_not_finite_at_the_start_ends_the_run_without_nan(form):
    equations = {"interior": lambda u, x: partial(u, 0, 0)(x) + jnp.log(u(x)), "boundary": lambda u, x: u(x) - 1}
    method, zero = FullBatch(constraints=form), jnp.zeros_like
    problem = Problem(Box(0, 1), equations)
    solution = solve(problem, Gaussian(0.3), points=POINTS, method=method, initial=lambda x: zero(x[0]))
    assert solution.result.outcome is Outcome.NOT_FINITE
    assert "log, sqrt, division" in str(solution.result)
    assert np.isfinite(solution(FINE)).all()
    assert np.isfinite(solution.latent).all()


def test_from_its_boundary_values_where_it_is_finite_the_same_equation_is_solved():
    # u'' + log u = 0 with u = 1 on both ends: u = 1.
    equations = {"interior": lambda u, x: partial(u, 0, 0)(x) + jnp.log(u(x)), "boundary": lambda u, x: u(x) - 1}
    problem = Problem(Box(0, 1), equations)
    solution = solve(problem, Gaussian(0.3), points=POINTS)
    assert solution.result.outcome is Outcome.CONVERGED
    np.testing.assert_allclose(solution(FINE), 1.0, atol=1e-4)


def test_a_run_out_of_steps_keeps_its_last_iterate(nonlinear_problem):
    short = solve(nonlinear_problem, Gaussian(LENGTHSCALE), points=POINTS, method=FullBatch(max_steps=2))
    assert short.result.outcome is Outcome.MAX_STEPS
    assert not short.result.successful
    assert len(short.history) == short.result.num_steps == 2
    assert np.any(short(FINE))


def test_the_objective_falls_with_every_step_of_elimination(nonlinear_problem):
    method = FullBatch(constraints="eliminate")
    history = solve(nonlinear_problem, Gaussian(LENGTHSCALE), points=POINTS, nugget=1e-8, method=method).history
    objectives = [step["objective"] for step in history]
    assert np.all(np.diff(objectives) <= 1e-9 * objectives[0])
    assert history[-1]["step"] < 1e-4
    assert history[-1]["residual"] < 1e-8
    assert all(set(step) >= {"objective", "residual", "step", "damping", "nugget", "seconds"} for step in history)


def test_gauss_newton_converges_fast_near_the_solution(nonlinear_problem):
    history = solve(nonlinear_problem, Gaussian(LENGTHSCALE), points=POINTS, method=FullBatch(tolerance=1e-9)).history
    steps = np.array([step["step"] for step in history])
    assert len(steps) < 12
    assert steps[-1] < 0.05 * steps[-2]


@pytest.mark.parametrize(("nu", "rate"), [(5 / 2, 1.6), (7 / 2, 3.4)])
def test_errors_fall_at_the_rate_of_the_kernels_smoothness(nu, rate):
    # -u'' = f in the native space H^(nu + 1/2): measured rates are 1.8 and 3.8.
    def source(x):
        return jnp.pi**2 * jnp.sin(jnp.pi * x[0])

    problem = Problem(Box(0, 1), {"interior": lambda u, x: partial(u, 0, 0)(x) + source(x), "boundary": lambda u, x: u(x)})

    def error(num):
        points = {"interior": np.linspace(0, 1, num + 1)[1:-1, None], "boundary": ENDS}
        solution = solve(problem, Matern(nu, 0.5), points=points, nugget=1e-14)
        return np.abs(solution(FINE) - np.sin(np.pi * FINE[:, 0])).max()

    assert np.log2(error(32) / error(64)) > rate
