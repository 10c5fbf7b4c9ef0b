"""Error estimates and the amplitude of error bars, against true errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import directional, laplacian
from gpde.solution import companion
from gpde.solution.report import report

PROBLEM = gpde.gallery.get("elliptic").build(amplitude=1.0)
POINTS = {"num_interior": 300, "num_boundary": 100, "nugget": 1e-12}


def distance(solution: gpde.Solution, grid: np.ndarray) -> np.ndarray:
    assert PROBLEM.reference is not None
    return np.abs(solution(grid) - np.asarray(jax.jit(jax.vmap(PROBLEM.reference))(grid)))


def true_error(solution: gpde.Solution) -> float:
    return float(np.sqrt(np.mean(distance(solution, PROBLEM.domain.test_points((20, 20))) ** 2)))


def test_the_estimate_follows_the_error_over_kernels_good_and_bad():
    found = [gpde.solve(PROBLEM, gpde.Gaussian(s), method=gpde.FullBatch(), **POINTS) for s in (0.1, 0.2, 0.5)]
    errors = np.array([true_error(solution) for solution in found])
    estimates = np.array([solution.error_estimate() for solution in found])
    assert errors.max() > 100 * errors.min()  # there is something to follow
    assert np.all((estimates < 2 * errors) & (estimates > errors / 2))


def test_calibrated_error_bars_do_not_depend_on_the_amplitude_that_was_given():
    one, ten = (gpde.solve(PROBLEM, gpde.Gaussian(0.2, amplitude=a), method=gpde.FullBatch(), **POINTS) for a in (1.0, 10.0))
    grid = PROBLEM.domain.test_points((10, 10))
    assert np.allclose(ten.std(grid), 10 * one.std(grid), rtol=1e-2)
    assert np.allclose(ten.std(grid, calibrated=True), one.std(grid, calibrated=True), rtol=0.1)
    assert 0.9 <= np.mean(distance(one, grid) < 1.96 * one.std(grid, calibrated=True)) <= 0.99


def test_too_many_points_for_a_companion_leave_the_residuals_at_points_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(companion, "_MOST_FUNCTIONALS", 500)
    solution = gpde.solve(PROBLEM, gpde.Gaussian(0.2), method=gpde.FullBatch(), **POINTS)
    assert true_error(solution) / 5 < solution.error_estimate() < 5 * true_error(solution)


def test_where_there_is_no_reference_the_report_has_an_estimate():
    unknown = gpde.Problem(
        domain=gpde.Box(0.0, 1.0),
        equations={
            "interior": lambda u, x: gpde.laplacian(u)(x) + jnp.pi**2 * jnp.sin(jnp.pi * x[0]),
            "boundary": lambda u, x: u(x),
        },
    )
    solution = gpde.solve(unknown, gpde.Gaussian(0.2), num_interior=12, num_boundary=2, nugget=1e-12)
    x = np.linspace(0, 1, 101)[:, None]
    error = np.sqrt(np.mean((solution(x) - np.sin(np.pi * x[:, 0])) ** 2))
    assert error / 5 < report(solution)["error_estimate"] < 5 * error


def test_on_a_surface_errors_are_looked_at_on_the_surface():
    def on_the_circle(u, x, n):  # the Laplacian of the unit circle
        return laplacian(u)(x) - directional(directional(u, n), n)(x) - directional(u, n)(x)

    def exact(x):
        return jnp.sin(2 * x[0]) * x[1]

    def equation(u, x, n):
        return u(x) - on_the_circle(u, x, n) - exact(x) + on_the_circle(exact, x, n)

    problem = gpde.Problem(gpde.Ball((0.0, 0.0), 1.0), {"circle": equation})
    solution = gpde.solve(problem, gpde.Gaussian(1.0), num_boundary=24, nugget=1e-12)
    points = problem.domain.sample("circle", 200, seed=9)
    error = np.asarray(solution(points) - jax.jit(jax.vmap(exact))(points))
    assert solution.error_estimate() == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.8)
    assert np.mean(np.abs(error) < 1.96 * solution.std(points, calibrated=True)) > 0.8
