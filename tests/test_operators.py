"""Differential operators against derivatives worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.operators import biharmonic, directional, divergence, gradient, hessian, laplacian, partial

POINTS = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (7, 3)))


def u(x):
    r"""$x^3 \sin(2y) + e^z y^2$."""
    return x[0] ** 3 * jnp.sin(2 * x[1]) + jnp.exp(x[2]) * x[1] ** 2


def at_points(field):
    return np.asarray(jax.jit(jax.vmap(field))(POINTS))


x, y, z = np.asarray(POINTS).T
GRADIENT = np.stack(
    [3 * x**2 * np.sin(2 * y), 2 * x**3 * np.cos(2 * y) + 2 * y * np.exp(z), np.exp(z) * y**2],
    axis=1,
)
LAPLACIAN = 6 * x * np.sin(2 * y) - 4 * x**3 * np.sin(2 * y) + 2 * np.exp(z) + np.exp(z) * y**2


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ((0,), GRADIENT[:, 0]),
        ((-1,), GRADIENT[:, 2]),
        ((0, 1), 6 * x**2 * np.cos(2 * y)),
        ((1, 0), 6 * x**2 * np.cos(2 * y)),
        ((0, 0, 0), 6 * np.sin(2 * y)),
        ((2, 1, 1, 2), 2 * np.exp(z)),
    ],
)
def test_a_partial_derivative_is_taken_once_for_each_coordinate_named(axes, expected):
    np.testing.assert_allclose(at_points(partial(u, *axes)), expected, atol=1e-12)


def test_the_gradient_holds_the_first_derivatives():
    np.testing.assert_allclose(at_points(gradient(u)), GRADIENT, atol=1e-12)


def test_the_hessian_is_symmetric_and_its_trace_is_the_laplacian():
    second = at_points(hessian(u))
    np.testing.assert_allclose(second, np.swapaxes(second, 1, 2), atol=1e-12)
    np.testing.assert_allclose(np.trace(second, axis1=1, axis2=2), LAPLACIAN, atol=1e-12)
    np.testing.assert_allclose(at_points(laplacian(u)), LAPLACIAN, atol=1e-12)


def test_the_laplacian_can_leave_coordinates_out():
    np.testing.assert_allclose(at_points(laplacian(u, axes=(2,))), np.exp(z) * y**2, atol=1e-12)


def test_the_divergence_of_a_weighted_gradient_obeys_the_product_rule():
    def weight(x):
        return 1 + x[0] * x[1]

    flux = divergence(lambda x: weight(x) * gradient(u)(x))
    expected = (1 + x * y) * LAPLACIAN + y * GRADIENT[:, 0] + x * GRADIENT[:, 1]
    np.testing.assert_allclose(at_points(flux), expected, atol=1e-12)


def test_the_biharmonic_operator_is_the_laplacian_twice():
    # Term by term of Δ² (x³ sin 2y + e^z y²).
    expected = -48 * x * np.sin(2 * y) + 16 * x**3 * np.sin(2 * y) + 4 * np.exp(z) + np.exp(z) * y**2
    np.testing.assert_allclose(at_points(biharmonic(u)), expected, atol=1e-11)


def test_a_direction_is_a_vector_or_a_field_of_vectors():
    along = at_points(directional(u, np.array([1.0, -2.0, 0.5])))
    np.testing.assert_allclose(along, GRADIENT @ [1.0, -2.0, 0.5], atol=1e-12)
    radial = at_points(directional(u, lambda x: x))
    np.testing.assert_allclose(radial, np.sum(GRADIENT * np.asarray(POINTS), axis=1), atol=1e-12)


def test_operators_mix_with_the_derivatives_of_jax():
    np.testing.assert_allclose(
        at_points(lambda x: partial(lambda y: jax.grad(u)(y)[0], 1)(x)), 6 * x**2 * np.cos(2 * y), atol=1e-12
    )
    np.testing.assert_allclose(at_points(jax.grad(partial(u, 0)))[:, 1], 6 * x**2 * np.cos(2 * y), atol=1e-12)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (lambda: partial(u), "name at least one coordinate"),
        (lambda: partial(u, 3), "`partial`: coordinate 3 does not exist: points have 3 coordinates"),
        (lambda: divergence(u), r"`divergence`: the flux has shape \(\).*Did you mean `divergence\(gradient\(u\)\)`"),
        (lambda: directional(u, np.ones(2)), r"`directional`: the direction has shape \(2,\), the points \(3,\)"),
    ],
)
def test_a_misused_operator_says_what_it_needs(operator, message):
    with pytest.raises(ValueError, match=message):
        operator()(POINTS[0])
