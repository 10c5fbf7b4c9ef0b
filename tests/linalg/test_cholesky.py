"""The linear algebra of Gram matrices against dense formulas."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.functionals.block_gram import add_diagonal
from gpde.functionals.functionals import Functionals, gram
from gpde.kernels import Gaussian
from gpde.linalg.cholesky import cholesky_solve, factor, half_solve, large_factor, nugget_scale

RNG = np.random.default_rng(0)
POINTS = jnp.asarray(RNG.random((6, 2)))
VALUE = ((0, (((0, 0), 1.0),)),)
LAPLACIAN = ((0, (((2, 0), 1.0), ((0, 2), 1.0))),)


def positive_definite(size):
    root = RNG.normal(size=(size, size))
    return jnp.asarray(root @ root.T + np.eye(size))


def test_the_nugget_of_an_operator_is_relative_to_its_prior_variance():
    # ΔΔ'κ at r = 0 is d(d+2)/σ⁴ for the Gaussian kernel (numerics: r⁴ - 2(d+2)σ²r² + d(d+2)σ⁴ over σ⁸).
    lengthscale, amplitude = 0.2, 1.5
    functionals = Functionals((VALUE, LAPLACIAN), (POINTS, POINTS[:3]))
    scale = nugget_scale((Gaussian(lengthscale, amplitude=amplitude),), functionals)
    expected = amplitude**2 * np.append(np.ones(6), np.full(3, 8 / lengthscale**4))
    np.testing.assert_allclose(scale, expected, rtol=1e-12)


def test_a_factor_is_lower_triangular_and_multiplies_back():
    matrix = positive_definite(5)
    lower, good = factor(matrix)
    assert good
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(lower @ lower.T, matrix, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 5, 300])
def test_the_factor_of_a_large_matrix_is_made_from_its_upper_triangle(size):
    matrix = positive_definite(size)
    lower, good = jax.jit(large_factor)(jnp.triu(matrix))
    assert good
    np.testing.assert_allclose(np.tril(lower), np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(matrix @ cholesky_solve(lower, matrix[0]), matrix[0], rtol=1e-8, atol=1e-8)


def test_the_factor_of_a_large_matrix_can_be_the_first_thing_a_process_asks_of_lapack():
    code = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
from gpde.linalg.cholesky import large_factor
lower, good = jax.jit(large_factor)(jnp.asarray([[4.0, 2.0], [0.0, 5.0]]))
assert good and abs(lower[1, 1] - 2) < 1e-12 and abs(lower[1, 0] - 1) < 1e-12
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("spoil", [lambda m: m - 100 * jnp.eye(5), lambda m: m.at[0, 0].set(-1.0), lambda m: m * jnp.nan])
@pytest.mark.parametrize("factorisation", [factor, jax.jit(large_factor)])
def test_a_matrix_without_a_factor_is_reported(spoil, factorisation):
    _, good = factorisation(spoil(positive_definite(5)))
    assert not good


def test_a_gram_matrix_of_repeated_points_needs_its_nugget():
    twice = Functionals((VALUE,), (jnp.concatenate([POINTS, POINTS]),))
    kernels = (Gaussian(0.5),)
    matrix = gram(kernels, twice)
    assert not factor(add_diagonal(matrix, jnp.full(12, -1e-14)))[1]
    assert factor(add_diagonal(matrix, 1e-8 * nugget_scale(kernels, twice)))[1]


def test_solves_agree_with_the_inverse():
    matrix, rhs = positive_definite(6), jnp.asarray(RNG.normal(size=(6, 2)))
    lower, _ = factor(matrix)
    np.testing.assert_allclose(cholesky_solve(lower, rhs), np.linalg.inv(matrix) @ rhs, rtol=1e-9)
    half = half_solve(lower, rhs[:, 0])
    np.testing.assert_allclose(half @ half, rhs[:, 0] @ np.linalg.inv(matrix) @ rhs[:, 0], rtol=1e-9)


def test_a_diagonal_is_added_to_the_diagonal_alone():
    matrix, diagonal = positive_definite(4), jnp.arange(4.0)
    np.testing.assert_array_equal(add_diagonal(matrix, diagonal), np.asarray(matrix) + np.diag(np.arange(4.0)))
