"""Solutions: values, operators and residuals against a plain sum of kernels, and error bars against dense kriging."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.methods import representer
from gpde.operators import gradient, laplacian, partial
from gpde.problem.problem import Observations, Problem
from gpde.solution._solve import solve

SQUARE = Box((0, 0), (1, 1))
LENGTHSCALE = 0.4
RNG = np.random.default_rng(2)
PLACES = RNG.random((9, 2))


def source(x):
    return 1.0 + x[0] * x[1]


@pytest.fixture(scope="module")
def solution():
    """-Δu + u³ = f on 20 points, u = 0 on 12."""
    equations = {"interior": lambda u, x: -laplacian(u)(x) + u(x) ** 3 - source(x), "boundary": lambda u, x: u(x)}
    problem = Problem(SQUARE, equations, name="small")
    return solve(problem, Gaussian(LENGTHSCALE), num_interior=20, num_boundary=12, nugget=1e-8, seed=1)


def sum_of_kernels(solution):
    r"""$u = \sum_j w_j \kappa(\cdot, \phi_j)$ as a plain function, with the Laplacian of the kernel taken by autodiff."""
    weights = solution.predictor.weights
    functionals = solution.predictor.functionals
    values, laplacians = functionals.points  # operators u and Δu, in this order

    def kernel(x, y):
        return jnp.exp(-0.5 * jnp.sum((x - y) ** 2) / LENGTHSCALE**2)

    def u(x):
        of_values = jax.vmap(lambda y: kernel(x, y))(values)
        of_laplacians = jax.vmap(lambda y: jnp.trace(jax.hessian(kernel, argnums=1)(x, y)))(laplacians)
        return jnp.concatenate([of_values, of_laplacians]) @ weights

    return u


def at_places(function):
    return np.asarray(jax.jit(jax.vmap(function))(jnp.asarray(PLACES)))


def test_a_solution_is_its_sum_of_kernels(solution):
    np.testing.assert_allclose(solution(PLACES), at_places(sum_of_kernels(solution)), atol=1e-10)


@pytest.mark.parametrize(
    "operator",
    [
        laplacian,
        gradient,
        lambda u: lambda x: u(x) ** 2 + jnp.sin(partial(u, 0)(x)) * x[1],
        lambda u: lambda x: {"flux": -gradient(u)(x), "value": u(x)}["flux"],
    ],
    ids=["laplacian", "gradient", "nonlinear", "flux"],
)
def test_operators_are_those_of_the_sum_of_kernels(solution, operator):
    expected = at_places(operator(sum_of_kernels(solution)))
    found = solution.apply(operator, PLACES)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_an_operator_that_acts_near_one_side_only_is_applied_there(solution):
    # Its coefficient vanishes at the first thousand points and more.
    where = np.stack([np.linspace(0, 1, 1500), np.full(1500, 0.5)], axis=1)
    found = solution.apply(lambda u: lambda x: jnp.maximum(x[0] - 0.95, 0.0) * partial(u, 1, 1)(x) + u(x), where)
    expected = np.maximum(where[:, 0] - 0.95, 0.0) * solution.apply(lambda u: partial(u, 1, 1), where) + solution(where)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_residual_is_that_of_the_function_and_not_of_the_latent_values(solution):
    h = 1e-3
    east, north = np.array([h, 0.0]), np.array([0.0, h])
    near = sum(solution(PLACES + step) for step in (east, -east, north, -north))
    by_differences = -(near - 4 * solution(PLACES)) / h**2 + solution(PLACES) ** 3 - (1 + PLACES[:, 0] * PLACES[:, 1])
    residual = solution.residual(PLACES)
    np.testing.assert_allclose(residual, by_differences, atol=2e-4)
    assert np.abs(residual).max() > 1e-3  # between the points the equation is left over: with twenty of them visibly
    assert np.abs(solution.residual(solution.points["interior"])).max() < 1e-4
    np.testing.assert_allclose(solution.residual(solution.points["boundary"], "boundary"), 0.0, atol=1e-5)


def test_evaluation_in_chunks_gives_the_same(solution, monkeypatch):
    whole = solution(PLACES), solution.std(PLACES), solution.apply(gradient, PLACES)
    monkeypatch.setattr(representer, "_CHUNK_ENTRIES", 4 * solution.predictor.functionals.size)
    chunked = solution(PLACES), solution.std(PLACES), solution.apply(gradient, PLACES)
    for one, other in zip(whole, chunked, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_memory_is_bounded_by_the_chunk(monkeypatch):
    monkeypatch.setattr(representer, "_CHUNK_ENTRIES", 100)
    sizes = []

    def evaluate(points):
        sizes.append(len(points))
        return points[:, :1]

    points = RNG.random((23, 2))
    np.testing.assert_array_equal(representer.in_chunks(evaluate, points, entries_per_point=10), points[:, :1])
    assert sizes == [10, 10, 10]  # the last one is padded, so that one shape is compiled


def test_the_standard_deviation_vanishes_at_data_and_is_the_priors_far_away(solution):
    assert solution.std(solution.points["boundary"]).max() < 2e-4
    np.testing.assert_allclose(solution.std(np.array([[50.0, 50.0], [-30.0, 0.0]]), extrapolate=True), 1.0, rtol=1e-12)
    assert np.all(solution.std(PLACES) < 0.2)


def test_the_standard_deviation_is_that_of_the_problem_linearised_at_the_solution(solution):
    # One functional per equation: δ on the boundary, -Δ + 3u² inside, with u frozen at the solution.
    inside, boundary = (solution.points[part] for part in ("interior", "boundary"))
    slope = 3 * solution(inside) ** 2

    def squares(a, b):
        return np.sum((a[:, None] - b[None]) ** 2, axis=-1)

    def k(a, b):
        return np.exp(-0.5 * squares(a, b) / LENGTHSCALE**2)

    def lap(a, b):
        return (squares(a, b) / LENGTHSCALE**4 - 2 / LENGTHSCALE**2) * k(a, b)

    def laplap(a, b):
        s, q = LENGTHSCALE, squares(a, b)
        return (q**2 - 8 * s**2 * q + 8 * s**4) / s**8 * k(a, b)

    def with_equations(a):
        return np.hstack([k(a, boundary), -lap(a, inside) + k(a, inside) * slope])

    interior_block = laplap(inside, inside) - lap(inside, inside) * slope - slope[:, None] * lap(inside, inside)
    interior_block += slope[:, None] * k(inside, inside) * slope
    mixed = -lap(boundary, inside) + k(boundary, inside) * slope
    matrix = np.block([[k(boundary, boundary), mixed], [mixed.T, interior_block]])
    matrix += 1e-8 * np.diag(np.diag(matrix))
    cross = with_equations(PLACES)
    variance = 1 - np.sum(cross * np.linalg.solve(matrix, cross.T).T, axis=1)
    np.testing.assert_allclose(solution.std(PLACES) ** 2, variance, atol=1e-8)


def test_a_solution_remembers_how_it_was_found(solution):
    assert not solution.result.failed
    assert solution.result.method == "full-batch"
    assert len(solution.history) == solution.result.num_steps
    assert solution.seconds.run > 0
    assert solution.seconds.compile >= 0
    assert solution.settings["seed"] == 1
    assert solution.settings["nugget"] == 1e-8
    assert {part: len(points) for part, points in solution.points.items()} == {"interior": 20, "boundary": 12}
    assert solution.latent.shape == (20 + 20 + 12,)
    assert solution.kernels["u"].lengthscale == LENGTHSCALE


def test_latent_values_are_those_of_the_solution_up_to_the_nugget(solution):
    # Operator by operator: u inside and on the boundary, then Δu.
    values = solution.latent[:32]
    everywhere = np.concatenate([solution.points["interior"], solution.points["boundary"]])
    np.testing.assert_allclose(values, solution(everywhere), atol=1e-6)


class Frame:
    """A data frame as far as gpde looks at one, with `columns` as pandas and polars have it."""

    def __init__(self, columns):
        self.columns, self.data = list(columns), columns

    def __getitem__(self, name):
        return self.data[name]


def test_a_data_frame_gives_its_coordinates_by_name(solution):
    frame = Frame({"id": ["a"] * 9, "Y": PLACES[:, 1], " x": list(PLACES[:, 0])})
    np.testing.assert_array_equal(solution(frame), solution(PLACES))
    np.testing.assert_array_equal(solution.std(frame), solution.std(PLACES))
    np.testing.assert_array_equal(solution.apply(gradient, frame), solution.apply(gradient, PLACES))


# --- other problems ----------------------------------------------------------------------------------------------------


def test_a_neumann_condition_holds_at_its_end():
    # -u'' = 2 with u(0) = 0 and u'(1) = 1: u = 3x - x².
    equations = {
        "interior": lambda u, x: -partial(u, 0, 0)(x) - 2,
        "left": lambda u, x: u(x),
        "right": lambda u, x: partial(u, 0)(x) - 1,
    }
    solution = solve(Problem(Box(0, 1), equations), Gaussian(0.7), num_interior=12, num_boundary=2, sampling="grid")
    x = np.linspace(0, 1, 21)
    np.testing.assert_allclose(solution(x), 3 * x - x**2, atol=1e-5)
    np.testing.assert_allclose(solution.apply(lambda u: partial(u, 0), [1.0]), 1.0, atol=1e-6)


def test_a_problem_in_three_dimensions():
    def exact(x):
        return jnp.sin(x[0]) * jnp.cos(x[1]) + x[2] ** 2

    equations = {
        "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
        "boundary": lambda u, x: u(x) - exact(x),
    }
    problem = Problem(Box((0, 0, 0), (1, 1, 1)), equations)
    solution = solve(problem, Gaussian(1.0), num_interior=60, num_boundary=90, sampling="sobol")
    places = RNG.random((30, 3))
    np.testing.assert_allclose(solution(places), jax.jit(jax.vmap(exact))(places), atol=1e-3)


def test_two_fields_are_solved_together_and_come_in_two_columns():
    # The oscillator u' = v, v' = -u with u(0) = 0, v(0) = 1.
    equations = {
        "interior": [lambda u, v, x: partial(u, 0)(x) - v(x), lambda u, v, x: partial(v, 0)(x) + u(x)],
        "left": [lambda u, v, x: u(x), lambda u, v, x: v(x) - 1],
    }
    problem = Problem(Box(0, 3), equations, fields=("u", "v"))
    solution = solve(problem, {"u": Gaussian(1.0), "v": Gaussian(1.2)}, num_interior=25, num_boundary=1, sampling="grid")
    x = np.linspace(0, 3, 31)
    np.testing.assert_allclose(solution(x), np.stack([np.sin(x), np.cos(x)], axis=1), atol=1e-4)
    assert solution.std(x).shape == (31, 2)
    assert solution.residual(x).shape == (31, 2)
    np.testing.assert_allclose(solution.apply(lambda u, v: lambda y: u(y) ** 2 + v(y) ** 2, x), 1.0, atol=2e-4)


def test_observations_stand_in_for_a_boundary_condition():
    # u'' = 0 with noisy looks at u and one exact look at its slope: dense conditioning by hand.
    where, seen = np.array([[0.2], [0.8], [0.85]]), np.array([0.3, 0.7, 0.9])
    problem = Problem(
        Box(0, 1),
        {"interior": lambda u, x: partial(u, 0, 0)(x)},
        observations=[
            Observations(where, seen, noise=0.1),
            Observations(np.array([[0.5]]), np.array([0.4]), operator=lambda u: partial(u, 0), name="slope"),
        ],
    )
    solution = solve(problem, Gaussian(0.5), num_interior=30, sampling="grid", nugget=1e-10)
    # With u'' = 0 inside and slope 0.4 only the level is free: a Gaussian of unit scale seen three times with noise 0.1.
    x = np.linspace(0, 1, 11)
    np.testing.assert_allclose(np.diff(solution(x)) / 0.1, 0.4, atol=1e-3)
    level = np.mean(seen - 0.4 * (where[:, 0] - 0.5))
    np.testing.assert_allclose(solution([0.5])[0], level, atol=0.02)
    np.testing.assert_allclose(solution.std([0.5])[0], 0.1 / np.sqrt(3), rtol=0.1)
