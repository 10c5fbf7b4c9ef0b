"""Equations at single points, and on average over a part of the domain."""

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import At, Mean, Parameter, Problem, directional, laplacian, partial
from gpde.collocation.collocation import collocate
from gpde.functionals.functionals import gram

LINE = gpde.Box(0.0, 1.0)
WAVE, LEVEL = gpde.Gaussian(0.3), gpde.Gaussian(0.3) + gpde.Offset(2.0)
PLACES = np.linspace(0, 1, 41)[:, None]
METHODS = gpde.FullBatch(), gpde.Consensus(batch_size=24)
BOTH = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def neumann(**changes):
    """-u'' = π² cos πx with u' = 0 at both ends: u = cos πx and any constant."""
    return Problem(
        LINE,
        {
            "interior": lambda u, x: partial(u, 0, 0)(x) + jnp.pi**2 * jnp.cos(jnp.pi * x[0]),
            "boundary": lambda u, x, n: directional(u, n)(x),
        },
        **changes,
    )


def with_mean():
    return neumann(constraints=Mean("interior", lambda u, x: u(x) - 0.7))


@functools.cache
def solved_with_mean(method):
    return gpde.solve(with_mean(), LEVEL, method=method, num_interior=40, nugget=1e-12)


@pytest.mark.parametrize("method", [*METHODS, gpde.MiniBatch(batch_size=16, num_steps=2000)], ids=lambda method: method.name)
def test_a_mean_fixes_the_constant_that_neumann_conditions_leave_open(method):
    solution = solved_with_mean(method)
    off = solution(PLACES) - (np.cos(np.pi * PLACES[:, 0]) + 0.7)
    assert np.abs(off).max() < 1e-4
    assert solution.std(PLACES).max() < 1e-2  # of a constant that nothing fixes it is about 2
    assert not any("constant" in note for note in solution.result.notes)


@BOTH
def test_a_pinned_value_fixes_it_too(method):
    problem = neumann(constraints=At(0.5, lambda u, x: u(x) - 0.7))
    solution = gpde.solve(problem, LEVEL, method=method, num_interior=40, nugget=1e-12)
    assert np.abs(solution(PLACES) - (np.cos(np.pi * PLACES[:, 0]) + 0.7)).max() < 1e-4


@BOTH
def test_an_eigenvalue_is_a_scalar_that_a_norm_makes_unique(method):
    """Of u'' + λu = 0 with u = 0 at the ends and the mean of u² one half: sin πx and λ = π²."""
    problem = Problem(
        LINE,
        {"interior": lambda u, x, rate: partial(u, 0, 0)(x) + rate * u(x), "boundary": lambda u, x: u(x)},
        parameters={"rate": Parameter(8.0)},
        constraints=Mean("interior", lambda u, x: u(x) ** 2 - 0.5, num_nodes=24),
    )
    solution = gpde.solve(
        problem, WAVE, method=method, num_interior=30, nugget=1e-10, initial=lambda x: 3.5 * x[0] * (1 - x[0])
    )
    assert solution.result.successful
    assert abs(solution.parameters["rate"].value - np.pi**2) < 1e-4
    assert np.abs(solution(PLACES) - np.sin(np.pi * PLACES[:, 0])).max() < 1e-4


def test_equations_at_points_may_be_nonlinear_and_several():
    problem = Problem(
        LINE,
        {"interior": lambda u, x: partial(u, 0, 0)(x) - 2.0},
        constraints=At([[0.5]], [lambda u, x: u(x) ** 2 - 0.0625, lambda u, x: partial(u, 0)(x) - 1.0]),
    )
    solution = gpde.solve(problem, LEVEL, num_interior=20, nugget=1e-12, initial=lambda x: x[0] ** 2)
    assert np.abs(solution(PLACES) - PLACES[:, 0] ** 2).max() < 1e-5


def test_the_row_of_a_mean_is_the_weighted_sum_of_the_rows_of_its_points():
    plain = Problem(LINE, {"interior": lambda u, x: partial(u, 0, 0)(x), "boundary": lambda u, x: u(x)})
    points = plain.sample(6, 2)
    nodes, weights = LINE.quadrature("interior", 5)
    kernels = (WAVE,)

    @eqx.filter_jit
    def algebra(collocation, latent, vector):
        rows, prior = collocation.linearize(latent).rows, gram(kernels, collocation.functionals)
        conditioned = rows.conditioned(prior, jnp.zeros(collocation.num_equations))
        product = rows.times(prior) @ rows.transpose_times(vector)
        return conditioned, collocation.residual(latent), rows.conditioned_diagonal(prior), product

    def matrix(constraint):
        collocation = collocate(Problem(plain.domain, plain.equations, constraints=constraint), points)
        latent = np.linspace(0.0, 1.0, collocation.functionals.size)
        found = algebra(collocation, latent, np.arange(1.0, 1.0 + collocation.num_equations))
        conditioned, residual, diagonal, product = map(np.asarray, found)
        whole = np.triu(conditioned)
        return whole + np.triu(whole, 1).T, residual, diagonal, product

    by_point, at_points, _, _ = matrix(At(nodes, lambda u, x: u(x) ** 2))
    summed, at_mean, diagonal, product = matrix(Mean("interior", lambda u, x: u(x) ** 2, num_nodes=5))
    together = np.zeros((len(summed), len(by_point)))
    together[:-1, : len(summed) - 1] = np.eye(len(summed) - 1)
    together[-1, len(summed) - 1 :] = weights
    expected = together @ by_point @ together.T
    assert np.allclose(summed, expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(at_mean, together @ at_points, rtol=1e-13, atol=1e-15)
    assert np.allclose(diagonal, np.diag(expected), rtol=1e-12)
    assert np.allclose(product, expected @ np.arange(1.0, 1.0 + len(summed)), rtol=1e-11)


@pytest.mark.parametrize(
    ("domain", "part", "function", "mean"),
    [
        (gpde.Box((0, 1), (2, 2)), "interior", lambda x: x[:, 0] ** 3 * x[:, 1], 3.0),
        (gpde.Box((0, 1), (2, 2)), "boundary", lambda x: x[:, 0], 1.0),
        (LINE, "boundary", lambda x: x[:, 0], 0.5),
        (gpde.Ball((1, 0), 2), "interior", lambda x: (x[:, 0] - 1) ** 2, 1.0),
        (gpde.Ball((0, 0), 2), "boundary", lambda x: x[:, 0] ** 2, 2.0),
        (gpde.Ellipsoid((0, 0), (1, 3)), "interior", lambda x: x[:, 1] ** 2, 9 / 4),
        (gpde.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]), "interior", lambda x: x[:, 0], 5 / 6),
        (gpde.SpaceTime((0, 2), 0, 3), "final", lambda x: x[:, 0] * x[:, 1] ** 2, 4.0),
    ],
    ids=["box", "sides", "ends", "disk", "circle", "ellipse", "polygon", "time"],
)
def test_means_of_polynomials_are_exact(domain, part, function, mean):
    points, weights = domain.quadrature(part, 60)
    assert domain.contains(points).all()
    assert np.isclose(weights.sum(), 1.0, rtol=1e-14)
    assert np.isclose(weights @ function(points), mean, rtol=1e-12)


def test_a_domain_without_a_map_has_means_by_many_points():
    points, weights = (gpde.Box((0, 0), (2, 2)) - gpde.Ball((0, 0), 1)).quadrature("interior", 500)
    area = 4 - np.pi / 4
    assert np.isclose(weights @ points[:, 0], (4 - 1 / 3) / area, rtol=5e-3)


def test_mini_batches_without_a_prior_mean_refuse_means_and_consensus_those_of_derivatives():
    problem = neumann(constraints=Mean("interior", lambda u, x: u(x)))
    for method in (gpde.MiniBatch(coarse_to_fine=False), gpde.MiniBatch(proximal_weight=1e3)):
        with pytest.raises(ValueError, match=r"mean is one for all points.*gpde\.FullBatch"):
            gpde.solve(problem, LEVEL, method=method, num_interior=20)
    flux = neumann(constraints=Mean("interior", lambda u, x: partial(u, 0)(x) + 2.0))
    with pytest.raises(ValueError, match=r"'mean' is a mean of derivatives, and patches share values alone"):
        gpde.solve(flux, LEVEL, method=gpde.Consensus(), num_interior=20)


def test_what_was_understood_names_constraints():
    text = neumann(constraints=[At(0.5, lambda u, x: u(x)), Mean("interior", lambda u, x: u(x) ** 2, num_nodes=8)]).text()
    assert "pinned (1 points)" in text
    assert "mean (8 points)" in text
    assert "the equation on 'mean': nonlinear, on average" in text


def test_a_solution_with_a_mean_comes_back_from_its_file(tmp_path):
    solution = solved_with_mean(METHODS[1])
    solution.save(tmp_path / "u.npz")
    loaded = gpde.load(tmp_path / "u.npz", problem=with_mean())
    assert np.array_equal(loaded(PLACES), solution(PLACES))
    assert np.array_equal(loaded.std(PLACES), solution.std(PLACES))
    other = neumann(constraints=Mean("interior", lambda u, x: u(x) - 1.0))
    with pytest.raises(ValueError, match="was solved for another problem"):
        gpde.load(tmp_path / "u.npz", problem=other)


def test_a_march_refuses_constraints():
    strip = gpde.SpaceTime((0.0, 1.0), 0.0, 1.0)
    equations = {"interior": lambda u, x: partial(u, 0)(x) - laplacian(u)(x), "initial": lambda u, x: u(x)}
    problem = Problem(strip, equations, constraints=Mean("final", lambda u, x: u(x)))
    with pytest.raises(ValueError, match=r"`march`: `constraints` hold at times of their own"):
        gpde.march(problem, windows=2)
