"""A problem on points: the latent layout, residuals, linearised rows and elimination against dense algebra."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.collocation.collocation import collocate
from gpde.domains import Box
from gpde.equations.linear_operators import operator_text
from gpde.functionals.block_gram import BlockGram, block_gram, join_upper
from gpde.functionals.functionals import gram
from gpde.kernels import Gaussian, Matern
from gpde.operators import laplacian, partial
from gpde.problem.problem import Observations, Problem

SQUARE = Box((0, 0), (1, 1))
RNG = np.random.default_rng(8)


def exact_u(x):
    return jnp.sin(2 * x[0]) * x[1]


def exact_v(x):
    return jnp.exp(-x[0]) + x[1] ** 2


def first(u, v, x):
    return -laplacian(u)(x) + u(x) * v(x) ** 2


def second(u, v, x):
    return 2 * laplacian(v)(x) - partial(u, 0)(x) * v(x) + laplacian(u)(x)


@pytest.fixture(scope="module")
def system():
    """Two fields, two nonlinear equations inside, two conditions on the boundary, noisy and exact data."""
    problem = Problem(
        SQUARE,
        {
            "interior": [
                lambda u, v, x: first(u, v, x) - first(exact_u, exact_v, x),
                lambda u, v, x: second(u, v, x) - second(exact_u, exact_v, x),
            ],
            "boundary": [lambda u, v, x: u(x) - exact_u(x), lambda u, v, x: 3 * v(x) - 3 * exact_v(x)],
        },
        fields=("u", "v"),
        observations=Observations(
            (points := RNG.random((3, 2))),
            np.sin(2 * points[:, 0]) * points[:, 1],
            noise=np.array([0.1, 0.0, 0.2]),
        ),
    )
    return collocate(problem, problem.sample(5, 4))


@eqx.filter_jit
def residual(collocation, latent):
    return collocation.residual(latent)


@eqx.filter_jit
def dense_rows(collocation, latent):
    """The Jacobian of all residuals, by differentiating the whole residual vector."""
    return jax.jacfwd(collocation.residual)(latent)


@eqx.filter_jit
def eliminate(collocation, latent):
    return collocation.eliminate(latent)


@eqx.filter_jit
def linearize(collocation, latent):
    """The linearised equations, and their rows as a matrix."""
    linear = collocation.linearize(latent)
    return linear, linear.rows.times(jnp.eye(latent.size))


def test_the_latent_vector_is_laid_out_operator_by_operator(system):
    symbols = [operator_text(o, ("u", "v"), ("x", "y")) for o in system.functionals.operators]
    assert sorted(symbols) == sorted(["u", "v", "u_x", "Δu", "Δv"])
    sizes = dict(zip(symbols, system.functionals.sizes, strict=True))
    assert sizes == {"u": 5 + 4 + 3, "v": 5 + 4, "u_x": 5, "Δu": 5, "Δv": 5}
    assert system.functionals.size == 36
    assert system.num_points == 5 + 4 + 3
    assert system.num_equations == 2 * 5 + 2 * 4 + 3
    used = np.concatenate([np.asarray(part.indices).ravel() for part in system.parts])
    np.testing.assert_array_equal(np.sort(used), np.arange(36))


def test_the_residual_vanishes_on_the_values_of_the_exact_solution(system):
    latent = eqx.filter_jit(system.measure)((exact_u, exact_v))
    np.testing.assert_allclose(residual(system, latent), 0.0, atol=1e-12)
    assert np.abs(residual(system, np.asarray(latent) + 0.1)).min() > 0


def test_the_linearised_equations_are_the_jacobian(system):
    check_linearised(system, RNG.normal(size=36))


def check_linearised(collocation, latent):
    """Rows and right sides against the Jacobian."""
    linear, rows = linearize(collocation, latent)
    dense = np.asarray(dense_rows(collocation, latent))
    np.testing.assert_allclose(rows, dense, atol=1e-12)
    np.testing.assert_allclose(linear.rhs, dense @ latent - residual(collocation, latent), atol=1e-12)
    return linear


def test_rows_multiply_as_a_dense_matrix_does(system):
    latent = RNG.normal(size=36)
    linear, _ = linearize(system, latent)
    dense = np.asarray(dense_rows(system, latent))
    root = RNG.normal(size=(36, 36))
    matrix, vector, noise = root @ root.T, RNG.normal(size=system.num_equations), RNG.random(system.num_equations)
    transposed, *forms = products(linear.rows, system.layout, matrix, vector, noise)
    np.testing.assert_allclose(transposed, dense.T @ vector, atol=1e-11)
    expected = dense @ matrix @ dense.T
    for conditioned, diagonal in forms:
        np.testing.assert_allclose(np.triu(conditioned), np.triu(expected + np.diag(noise)), rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(diagonal, np.diag(expected), rtol=1e-11)


@eqx.filter_jit
def products(rows, layout, matrix, vector, noise):
    """The transpose of the rows times a vector, and what they make of a matrix as a whole and in blocks."""
    forms = matrix, in_blocks(matrix, layout)
    return rows.transpose_times(vector), *((rows.conditioned(f, noise), rows.conditioned_diagonal(f)) for f in forms)


def in_blocks(matrix, layout):
    """The same matrix in blocks: of parts with themselves and with those after them."""
    blocks = {}
    for (rows, m), (columns, n) in itertools.combinations_with_replacement(layout, 2):
        blocks |= {(i, j): matrix[i : i + m, j : j + n] for i in rows for j in columns}
    return BlockGram(blocks)


def test_blocks_are_the_gram_matrix(system):
    kernels = Gaussian(0.4), Matern(9 / 2, 0.7)
    lengths = {start: num for starts, num in system.layout for start in starts}
    vector, added = RNG.normal(size=36), RNG.random(36)

    @eqx.filter_jit
    def in_both_forms(functionals, vector, added):
        blocks = block_gram(kernels, functionals, system.layout)
        pairs = {(i, j): blocks.between(i, j) for i, j in itertools.product(lengths, repeat=2)}
        other = blocks.upper_triangle(), blocks @ vector, blocks.plus_diagonal(added).upper_triangle()
        return gram(kernels, functionals), blocks.blocks, pairs, *other

    dense, blocks, pairs, upper, product, raised = in_both_forms(system.functionals, vector, added)
    # Inside u, u_x, Δu and v, Δv; on the boundary u and v; u in the data. The fields are independent: no blocks between them.
    inside, boundary = 3 * 3 + 2 * 2 + 3 * 1 + 2 * 1 + 3 * 1, 1 + 1 + 1
    assert len(blocks) == inside + boundary + 1
    dense = np.asarray(dense)
    np.testing.assert_allclose(np.triu(upper), np.triu(dense), rtol=1e-12)
    # Either way round, whichever of the two is stored.
    for (i, j), found in pairs.items():
        expected = dense[i : i + lengths[i], j : j + lengths[j]]
        np.testing.assert_allclose(np.zeros_like(expected) if found is None else found, expected, rtol=1e-12)
    np.testing.assert_allclose(product, dense @ vector, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(np.triu(raised), np.triu(dense + np.diag(added)), rtol=1e-12)


@pytest.mark.parametrize("num_parts", [1, 2, 4, 5, 9])
def test_blocks_join_to_one_matrix_however_many_they_are(num_parts):
    rng = np.random.default_rng(num_parts)
    sizes = rng.integers(1, 5, size=num_parts).tolist()
    starts = (np.cumsum(sizes) - sizes).tolist()
    matrix = np.triu(rng.normal(size=(sum(sizes), sum(sizes))))
    pairs = list(itertools.combinations_with_replacement(zip(starts, sizes, strict=True), 2))
    rng.shuffle(pairs)  # in any order
    blocks = {(i, j): matrix[i : i + m, j : j + n] for (i, m), (j, n) in pairs}

    @jax.jit
    def joined(parts):
        return join_upper(dict(zip(blocks, parts, strict=True)))  # in this order: a dict would come sorted

    np.testing.assert_array_equal(joined(list(blocks.values())), matrix)


def test_values_of_different_operators_that_follow_one_another_stay_apart():
    # u on the left and v on the right: neighbours among the equations and among the latent values.
    problem = Problem(
        SQUARE, {"left": lambda u, v, x: 2 * u(x) - 1, "right": lambda u, v, x: 3 * v(x) ** 2 - x[1]}, fields=("u", "v")
    )
    sides = collocate(problem, problem.sample(points={"left": np.array([[0, 0.2], [0, 0.7]]), "right": np.array([[1, 0.4]])}))
    latent = np.array([0.3, -0.2, 0.5])
    linear, _ = linearize(sides, latent)
    dense = np.asarray(dense_rows(sides, latent))
    matrix = RNG.normal(size=(3, 3))
    matrix = matrix @ matrix.T
    assert sides.functionals.sizes == (2, 1)
    _, _, (conditioned, _) = products(linear.rows, sides.layout, matrix, np.zeros(3), np.zeros(3))
    np.testing.assert_allclose(np.triu(conditioned), np.triu(dense @ matrix @ dense.T), rtol=1e-12, atol=1e-12)


def test_conditions_that_look_at_the_same_operators_are_one_block():
    data = [Observations(RNG.random((n, 2)), np.zeros(n), noise=0.1 * n, name=f"data{n}") for n in (2, 3)]
    problem = Problem(
        SQUARE,
        {"interior": lambda u, x: laplacian(u)(x) - u(x) ** 2, "left": lambda u, x: u(x) ** 3, "right": lambda u, x: 2 * u(x)},
        observations=data,
    )
    several = collocate(problem, problem.sample(4, 3))
    assert len(several.parts) == 5
    assert [num_points for _, num_points in several.layout] == [4, several.num_points - 4]
    linear = check_linearised(several, RNG.normal(size=several.functionals.size))
    assert linear.rows.layout == several.layout


def test_elimination_makes_exact_equations_hold_and_leaves_noisy_data_alone(system):
    assert system.can_eliminate
    latent = RNG.normal(size=36)
    eliminated = eliminate(system, latent)
    left, before = np.asarray(residual(system, eliminated)), np.asarray(residual(system, latent))
    np.testing.assert_allclose(left[~system.noisy], 0.0, atol=1e-10)
    np.testing.assert_allclose(left[system.noisy], before[system.noisy], atol=1e-12)
    np.testing.assert_allclose(eliminate(system, eliminated), eliminated, atol=1e-10)


def test_noise_is_a_standard_deviation_per_value(system):
    np.testing.assert_allclose(np.asarray(system.noise_variance)[-3:], [0.0, 0.01, 0.04])  # exact values come first
    assert not np.any(np.asarray(system.noise_variance)[:-3])
    assert not system.linear
    assert system.order == 2


def test_an_operator_whose_coefficient_vanishes_at_all_probes_is_found_on_the_points():
    def equation(u, x):
        return jnp.maximum(x[0] - 0.999, 0.0) * partial(u, 0, 0)(x) + u(x) - 1

    problem = Problem(Box(0, 1), {"interior": equation})
    assert [operator_text(o, ("u",), ("x",)) for o in problem.conditions[0].reading.operators] == ["u"]
    collocation = collocate(problem, {"interior": np.array([[0.2], [0.4], [0.9995]])})
    assert [operator_text(o, ("u",), ("x",)) for o in collocation.functionals.operators] == ["u", "u_xx"]


def test_an_equation_is_not_solved_for_a_functional_whose_coefficient_changes_between_the_points():
    def equation(u, x):
        return (1 + 1000 * jnp.maximum(x[0] - 0.999, 0.0)) * partial(u, 0, 0)(x) - 1

    problem = Problem(Box(0, 1), {"interior": equation})
    assert problem.conditions[0].reading.eliminated == (0,)
    assert collocate(problem, {"interior": np.array([[0.2], [0.4]])}).can_eliminate
    assert not collocate(problem, {"interior": np.array([[0.2], [0.9995]])}).can_eliminate


def test_an_equation_that_is_nonlinear_at_one_point_only_is_nonlinear():
    def equation(u, x):
        return partial(u, 0, 0)(x) + jnp.where(x[0] > 0.999, u(x) ** 3, u(x)) - 1

    problem = Problem(Box(0, 1), {"interior": equation})
    assert problem.conditions[0].reading.kinds[0].linear
    assert collocate(problem, {"interior": np.array([[0.2], [0.4]])}).linear
    assert not collocate(problem, {"interior": np.array([[0.2], [0.9995]])}).linear


def test_derivatives_can_be_kept_apart():
    problem = Problem(SQUARE, {"interior": lambda u, x: laplacian(u)(x) + u(x) ** 2})
    points = {"interior": RNG.random((3, 2))}
    together, apart = collocate(problem, points), collocate(problem, points, "derivatives")
    assert together.functionals.size == 2 * 3
    assert apart.functionals.size == 3 * 3
    latent = RNG.normal(size=9)  # u, u_xx, u_yy at three points
    summed = np.append(latent[:3], latent[3:6] + latent[6:])
    np.testing.assert_allclose(residual(apart, latent), residual(together, summed), rtol=1e-12)


def test_exact_and_noisy_values_of_one_set_of_observations_are_conditions_of_their_own():
    points, values = RNG.random((6, 2)), RNG.normal(size=6)
    noise = np.array([0.0, 0.1, 0.0, 0.2, 0.0, 0.1])
    problem = Problem(
        SQUARE, {"interior": lambda u, x: laplacian(u)(x)}, observations=Observations(points, values, noise=noise)
    )
    made = collocate(problem, problem.sample(5))
    assert [(p.name, p.noisy, p.num_points) for p in made.parts[1:]] == [("data, exact", False, 3), ("data, noisy", True, 3)]
    # Elimination holds the exact values wherever it starts from, and leaves the noisy ones alone.
    left = np.asarray(residual(made, eliminate(made, RNG.normal(size=made.functionals.size))))
    np.testing.assert_allclose(left[~made.noisy], 0.0, atol=1e-12)
    assert np.abs(left[made.noisy]).min() > 0
