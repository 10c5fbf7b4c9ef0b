"""Error estimates and the amplitude of error bars, against true errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
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
