"""Functionals: their values on known functions, and their covariances as derivatives of the kernel in both arguments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.functionals.functionals import Functionals, block, covariance, gram, measure, prior_variances
from gpde.kernels import Gaussian, Matern
from gpde.operators import laplacian, partial

RNG = np.random.default_rng(3)
POINTS = jnp.asarray(RNG.random((4, 2)))
MORE = jnp.asarray(RNG.random((3, 2)))

VALUE = ((0, (((0, 0), 1.0),)),)
LAPLACIAN = ((0, (((2, 0), 1.0), ((0, 2), 1.0))),)
MIXED = ((0, (((1, 0), 1.0),)), (1, (((0, 1), -2.0),)))  # u_x - 2 v_y
VALUE_OF_V = ((1, (((0, 0), 1.0),)),)

KERNELS = (Gaussian(0.7), Matern(9 / 2, 0.9, amplitude=1.3))
ON_POINTS = {VALUE: lambda u, v: u, LAPLACIAN: lambda u, v: laplacian(u), VALUE_OF_V: lambda u, v: v}
ON_POINTS[MIXED] = lambda u, v: lambda x: partial(u, 0)(x) - 2 * partial(v, 1)(x)


def u(x):
    return jnp.sin(x[0]) * x[1] ** 2


def v(x):
    return jnp.exp(x[0] * x[1])


def test_functionals_measure_a_function_by_its_derivatives():
    functionals = Functionals((LAPLACIAN, MIXED), (POINTS, MORE))
    x, y = np.asarray(POINTS).T
    laplacian_by_hand = -np.sin(x) * y**2 + 2 * np.sin(x)
    a, b = np.asarray(MORE).T
    mixed_by_hand = np.cos(a) * b**2 - 2 * a * np.exp(a * b)
    np.testing.assert_allclose(measure(functionals, (u, v)), np.append(laplacian_by_hand, mixed_by_hand), rtol=1e-12)


@pytest.mark.parametrize("left", ON_POINTS)
@pytest.mark.parametrize("right", ON_POINTS)
def test_a_covariance_is_the_kernel_differentiated_in_both_arguments(left, right):
    # The fields are independent: cov(L(u, v)(x), L'(u, v)(y)) = L_x L'_y applied to the pair (k_u, 0) plus (0, k_v).
    def only(field, section):
        return [section if index == field else lambda _: jnp.zeros(()) for index in range(2)]

    def pair(x, y):
        total = 0.0
        for field, kernel in enumerate(KERNELS):

            def along_y(x, field=field, kernel=kernel):
                return ON_POINTS[right](*only(field, lambda y: kernel(x, y)))(y)

            total = total + ON_POINTS[left](*only(field, along_y))(x)
        return total

    expected = jax.jit(jax.vmap(lambda x: jax.vmap(lambda y: pair(x, y))(MORE)))(POINTS)
    found = eqx.filter_jit(block)(KERNELS, left, right, POINTS, MORE)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_fields_are_independent_a_priori():
    np.testing.assert_array_equal(block(KERNELS, LAPLACIAN, VALUE_OF_V, POINTS, MORE), np.zeros((4, 3)))


def test_a_gram_matrix_is_the_covariance_of_functionals_with_themselves():
    functionals = Functionals((VALUE, LAPLACIAN, MIXED), (POINTS, MORE, POINTS))
    matrix = eqx.filter_jit(gram)(KERNELS, functionals)
    both = eqx.filter_jit(covariance)(KERNELS, functionals, functionals)
    np.testing.assert_allclose(matrix, both, rtol=1e-12, atol=1e-11)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0
    np.testing.assert_allclose(np.concatenate(prior_variances(KERNELS, functionals)), np.diag(matrix), rtol=1e-12)


def test_functionals_know_their_sizes():
    functionals = Functionals((VALUE, LAPLACIAN), (POINTS, MORE))
    assert functionals.sizes == (4, 3)
    assert functionals.size == 7
