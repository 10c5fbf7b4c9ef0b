"""The gallery: references solve their equations, and agree with solutions found in other ways."""

import functools
import inspect
import subprocess
import sys
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.linalg import solve_sylvester
from scipy.sparse.linalg import spsolve

import gpde
from gpde.domains import SpaceTime
from gpde.gallery import GALLERY, get
from gpde.gallery.burgers import cole_hopf
from gpde.gallery.darcy_inverse import log_permeability
from gpde.gallery.eikonal import exit_time
from gpde.gallery.references.cavity import driven
from gpde.solution.errors import error_points, reference_values

CASES = [
    ("elliptic", {}),
    ("elliptic", {"amplitude": 0}),
    ("burgers", {"viscosity": 0.2}),
    ("burgers", {"viscosity": 0.02}),
    ("burgers", {"viscosity": 0.001}),
    ("eikonal", {"epsilon": 1}),
    ("eikonal", {"epsilon": 0.01}),
    ("poisson", {}),
    ("helmholtz", {"wavenumber": 5}),
    ("wave", {"speed": 2}),
    ("elliptic-3d", {}),
    ("elliptic-disk", {"exchange": 1}),
    ("monge-ampere", {}),
    ("bratu", {"height": 0.3}),
    ("bratu", {"height": 4}),
    ("kovasznay", {}),
    ("heat-l-shape", {}),
    ("eikonal-hole", {}),
]
# References by a spectral method, which are good to about its tolerance times the stiffness.
COMPUTED = [("allen-cahn", {"diffusion": 0.05}), ("gray-scott", {}), ("kuramoto-sivashinsky", {"duration": 1})]


@functools.cache
def built(name, **parameters):
    """A problem of the gallery, whose equations are read once for all tests."""
    return get(name).build(**parameters)


def residuals(problem, part, points, u):
    """The equations on a part, for the function `u` or one for each field, at each of the points."""
    fields = [lambda x, i=i: jnp.stack(jax.tree.leaves(u(x)))[i] for i in range(len(problem.fields))]
    given = problem.equations[part]
    equations = given if isinstance(given, list) else [given]
    takes_normal = len(inspect.signature(equations[0]).parameters) == len(fields) + 2
    told = (points, problem.domain.normal(part, points)) if takes_normal else (points,)
    return jax.jit(jax.vmap(lambda *at: jnp.stack([equation(*fields, *at) for equation in equations])))(*map(jnp.asarray, told))


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_a_reference_satisfies_every_equation_of_its_problem(name, parameters):
    problem = built(name, **parameters)
    assert problem.name == name
    for part, points in problem.sample(60, 80, seed=3).items():
        if part == "interior" and isinstance(problem.domain, SpaceTime):
            points = points[points[:, 0] > 0.05]
        np.testing.assert_allclose(residuals(problem, part, points, problem.reference), 0.0, atol=1e-11)


@pytest.mark.parametrize(("name", "parameters"), COMPUTED)
def test_a_computed_reference_satisfies_every_equation_to_what_its_method_can(name, parameters):
    problem = built(name, **parameters)
    for part, points in problem.sample(20, 20, seed=3).items():
        np.testing.assert_allclose(residuals(problem, part, points, problem.reference), 0.0, atol=2e-6)


def truth(problem, points):
    values = reference_values(problem, points)
    assert values is not None
    return values


def measured(problem):
    return next(c.observations for c in problem.conditions if c.observations is not None)


def test_the_darcy_reference_agrees_with_finite_volumes():
    # Fluxes through the sides of cells around the nodes of a grid: second order, so that two grids give fourth.
    problem = built("darcy-inverse")

    def volumes(num):
        x = np.linspace(0, 1, num + 1)
        half = (x[1:] + x[:-1]) / 2
        conductivity = lambda x, y: np.exp(log_permeability(x, y, np))  # noqa: E731
        one = sparse.csr_matrix(np.diff(np.eye(num + 1), axis=0)[:, 1:-1])
        eye = sparse.identity(num - 1)
        along, across = sparse.kron(one, eye), sparse.kron(eye, one)
        first = sparse.diags(conductivity(half[:, None], x[None, 1:-1]).ravel())
        second = sparse.diags(conductivity(x[1:-1, None], half[None, :]).ravel())
        matrix = num**2 * (along.T @ first @ along + across.T @ second @ across)
        return np.asarray(spsolve(matrix.tocsc(), np.ones((num - 1) ** 2))).reshape(num - 1, num - 1)

    coarse, fine = volumes(64), volumes(128)[1::2, 1::2]
    nodes = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 65)[1:-1]], indexing="ij"), axis=-1).reshape(-1, 2)
    found = truth(problem, nodes)[:, 0]
    np.testing.assert_allclose(found, (fine + (fine - coarse) / 3).ravel(), atol=2e-6)


def test_data_of_inverse_problems_are_the_truth_and_noise_of_the_size_they_say():
    for name in ("burgers-inverse", "darcy-inverse"):
        problem = built(name)
        data, again = measured(problem), measured(get(name).build())
        scores = (data.values - truth(problem, data.points)[:, 0]) / data.noise
        assert 0.8 < np.std(scores) < 1.2
        assert abs(np.mean(scores)) < 3 / np.sqrt(len(scores))
        np.testing.assert_array_equal(again.values, data.values)


def test_the_viscosity_is_found_within_two_percent_and_two_of_its_standard_deviations():
    found = gpde.solve(built("burgers-inverse")).parameters["nu"]
    assert abs(found.value - 0.1) < 0.002
    assert abs(found.value - 0.1) < 2 * found.std


def test_error_bars_of_the_permeability_cover_it():
    problem = built("darcy-inverse")
    solution, places = gpde.solve(problem, num_interior=200, num_boundary=60), error_points(problem)
    exact, found = truth(problem, places)[:, 1], solution(places)[:, 1]
    covered = np.mean(np.abs(found - exact) < 1.96 * solution.std(places)[:, 1])
    assert 0.85 <= covered <= 1.0
    assert np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)) < 0.35


def test_the_cavity_reference_agrees_with_the_published_table():
    # Ghia, Ghia and Shin, J. Comput. Phys. 48 (1982), Table I, Re = 100: u on the vertical line through the centre, under a
    # lid of speed 1. Their own error is about 0.005 (Botella and Peyret 1998).
    y = np.array([0.0547, 0.1016, 0.1719, 0.2813, 0.4531, 0.5, 0.6172, 0.7344, 0.8516, 0.9531])
    u = np.array([-0.03717, -0.06434, -0.10150, -0.15662, -0.21090, -0.20581, -0.13641, 0.00332, 0.23151, 0.68717])
    stream = driven(100.0, np.ones_like, num=20)
    slopes = jax.jit(jax.vmap(jax.grad(stream)))(jnp.stack([jnp.full(len(y), 0.5), jnp.asarray(y)], axis=1))
    np.testing.assert_allclose(slopes[:, 1], u, atol=0.006)


@pytest.mark.parametrize("name", GALLERY)
def test_defaults_fit_the_domain_and_the_listing_agrees_with_the_code(name):
    entry, problem = get(name), built(name)
    assert problem.defaults.grid is not None
    assert problem.reference is not None
    assert len(problem.defaults.grid) == problem.domain.dim
    assert len(problem.sample()["interior"]) == problem.defaults.num_interior
    signature = inspect.signature(import_module(f"gpde.gallery.{name.replace('-', '_')}").build)
    defaults = {parameter.name: parameter.default for parameter in signature.parameters.values()}
    assert defaults == {key: parameter.default for key, parameter in entry.parameters.items()}
    short = built(name, **dict(COMPUTED).get(name, {}))  # whose reference another test has computed
    values = reference_values(short, short.domain.test_points((5,) * short.domain.dim))
    assert values is not None
    assert values.shape[1] == len(problem.fields)
    assert np.isfinite(values).all()


def test_the_elliptic_right_side_is_the_one_derived_by_hand():
    points = np.random.default_rng(0).random((50, 2))
    slow, fast = (np.prod(np.sin(n * np.pi * points), axis=1) for n in (1, 4))
    by_hand = 2 * np.pi**2 * slow + 4 * 32 * np.pi**2 * fast + (slow + 4 * fast) ** 3
    residual_of_zero = residuals(built("elliptic", amplitude=4.0), "interior", points, lambda x: 0.0 * x[0])
    np.testing.assert_allclose(-residual_of_zero[:, 0], by_hand, rtol=1e-12)


def test_the_poisson_right_side_is_the_one_derived_by_hand():
    points = np.random.default_rng(0).random((50, 2))
    by_hand = 5 * np.pi**2 * np.sin(np.pi * points[:, 0]) * np.sin(2 * np.pi * points[:, 1]) - 2
    residual_of_zero = residuals(built("poisson"), "interior", points, lambda x: 0.0 * x[0])
    np.testing.assert_allclose(-residual_of_zero[:, 0], by_hand, rtol=1e-12)


@pytest.mark.parametrize("viscosity", [0.2, 0.02, 0.001])
def test_cole_hopf_agrees_with_hopfs_formula_on_a_fine_grid(viscosity):
    # u = mean of (x - y)/t under exp(-((x - y)²/2t + ∫₀ʸ u(0, ·)) / 2ν): another integrand, by another rule.
    def hopf(t, x):
        # The integrand peaks at most t max|u| = t away from x, with a width of about sqrt(2νt).
        radius = t + 12 * np.sqrt(2 * viscosity * t)
        y = np.linspace(x - radius, x + radius, 40_001)
        action = (x - y) ** 2 / (2 * t) + (np.cos(np.pi * y) - 1) / np.pi
        weights = np.exp((action.min() - action) / (2 * viscosity))
        return np.sum((x - y) / t * weights) / np.sum(weights)

    rng = np.random.default_rng(1)
    points = np.column_stack([rng.uniform(0.01, 1.0, 100), rng.uniform(-1, 1, 100)])
    points[:20, 1] *= viscosity  # inside the front
    expected = [hopf(t, x) for t, x in points]
    np.testing.assert_allclose(jax.jit(jax.vmap(cole_hopf(viscosity)))(points), expected, atol=1e-11)


@pytest.mark.parametrize("viscosity", [0.2, 0.02, 0.001, 1e-4])
def test_cole_hopf_starts_from_the_initial_sine(viscosity):
    x = np.linspace(-1, 1, 21)
    values = jax.jit(jax.vmap(cole_hopf(viscosity)))(np.stack([np.zeros(21), x], axis=1))
    np.testing.assert_allclose(values, -np.sin(np.pi * x), atol=1e-14)


def chebyshev(num):
    """Chebyshev points on [0, 1] and their differentiation matrix (Trefethen, Spectral Methods in MATLAB, p. 54)."""
    x = np.cos(np.pi * np.arange(num + 1) / num)
    scale = np.r_[2.0, np.ones(num - 1), 2.0] * (-1.0) ** np.arange(num + 1)
    matrix = np.outer(scale, 1 / scale) / (x[:, None] - x[None, :] + np.eye(num + 1))
    return (x + 1) / 2, 2 * (matrix - np.diag(matrix.sum(axis=1)))


@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_the_eikonal_reference_agrees_with_chebyshev_collocation(epsilon):
    # v = 1 - w with ε² Δw - w = -1 and w = 0 on the boundary; r² log r in the corners limits the spectral method.
    x, derivative = chebyshev(64)
    second = epsilon**2 * (derivative @ derivative)[1:-1, 1:-1]
    w = solve_sylvester(second - np.eye(63), second.T, -np.ones((63, 63)))
    points = np.stack(np.meshgrid(x[1:-1], x[1:-1], indexing="ij"), axis=-1).reshape(-1, 2)[::7]
    expected = -epsilon * np.log(1 - w).ravel()[::7]
    np.testing.assert_allclose(jax.jit(jax.vmap(exit_time(epsilon)))(jnp.asarray(points)), expected, atol=1e-7)


@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_the_eikonal_reference_lies_below_the_distance_to_the_sides_by_at_most_epsilon_log_4(epsilon):
    # The square is left sooner than any of its four half-planes, and no sooner than all four together.
    points = np.random.default_rng(2).random((200, 2))
    distance = np.minimum(points, 1 - points).min(axis=1)
    gap = distance - jax.jit(jax.vmap(exit_time(epsilon)))(jnp.asarray(points))
    assert np.all(gap > -1e-12)
    assert np.all(gap < epsilon * np.log(4) + 1e-12)


def test_the_eikonal_reference_solves_its_equation_in_the_corners_too():
    problem = get("eikonal").build(epsilon=0.1)
    near = [[10.0**-a, 10.0**-b] for a in range(1, 9) for b in range(1, 9)]
    points = np.concatenate([near, 1 - np.array(near), np.random.default_rng(4).random((50, 2))])
    np.testing.assert_allclose(residuals(problem, "interior", points, problem.reference), 0.0, atol=1e-12)


def test_listing_the_gallery_does_not_import_jax():
    program = "import sys, gpde.gallery; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: get("burger"),
            "no problem 'burger' in the gallery. Did you mean 'burgers'\\? It has elliptic,",
        ),
        (lambda: get("zzz"), "no problem 'zzz' in the gallery. It has elliptic"),
        (lambda: get("burgers").build(nu=0.1), "`burgers` has no parameter `nu`; it takes `viscosity`"),
        (lambda: get("poisson").build(epsilon=1.0), "it takes no parameters"),
        (lambda: get("burgers").build(viscosity=0.0), "`viscosity` is finite and above zero; got 0.0"),
        (lambda: get("eikonal").build(epsilon=-1.0), "`epsilon` is finite and above zero; got -1.0"),
        (lambda: get("burgers-inverse").build(viscosity=0.01), "`viscosity` is finite and at least 0.05; got 0.01"),
        (lambda: get("elliptic").build(amplitude=float("nan")), "`amplitude` is finite; got nan"),
    ],
)
def test_a_bad_request_says_what_the_gallery_has(call, message):
    with pytest.raises(ValueError, match=message):
        call()
