"""Kernels: derivatives against Taylor arithmetic on formulas written out here, limits on the diagonal, bad requests."""

import functools
import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jax.tree_util import Partial

from gpde.kernels import AbstractKernel, FunctionKernel, Gaussian, Matern, Offset, Terms, as_kernel, identity, order

PERIOD = 8.0
VALUE, LAPLACIAN = identity(2), (((2, 0), 1.0), ((0, 2), 1.0))
HEAT = (((1, 0), 1.0), ((0, 2), -0.02))
MIXED = (((1, 1), 1.0), ((0, 1), -0.3))
NUS = (5 / 2, 7 / 2, 9 / 2, 11 / 2)

# Rasmussen & Williams (2006), eq. (4.16), written out.
MATERN_POLYNOMIALS = {
    5 / 2: ((1, 1), (1, 1), (1, 3)),
    7 / 2: ((1, 1), (1, 1), (2, 5), (1, 15)),
    9 / 2: ((1, 1), (1, 1), (3, 7), (2, 21), (1, 105)),
    11 / 2: ((1, 1), (1, 1), (4, 9), (1, 9), (1, 63), (1, 945)),
}


class Series:
    r"""$\sum_{ij} c_{ij} s^i t^j$ up to degree n in each, one per pair: derivatives by arithmetic alone.

    In extended precision where the machine has it, since high derivatives of a square root cancel.
    """

    def __init__(self, coefficients):
        self.c = np.asarray(coefficients, np.longdouble)

    def __add__(self, other):
        return Series(self.c + (other if isinstance(other, Series) else self.constant(other)).c)

    def __sub__(self, other):
        return self + -1.0 * other

    def __mul__(self, other):
        if not isinstance(other, Series):
            return Series(self.c * other)
        result, n = np.zeros_like(self.c), self.c.shape[1]
        for i, j in np.ndindex(n, n):
            result[:, i:, j:] += self.c[:, i, j, None, None] * other.c[:, : n - i, : n - j]
        return Series(result)

    __radd__, __rmul__ = __add__, __mul__

    def constant(self, value):
        c = np.zeros_like(self.c)
        c[:, 0, 0] = value
        return Series(c)

    def compose(self, coefficient):
        r"""$g(c_{00} + h) = \sum_k g_k h^k$ with $g_k = g^{(k)}(c_{00}) / k!$; $h$ is nilpotent."""
        start = self.c[:, 0, 0]
        h = self - self.constant(start)
        result, power = self.constant(coefficient(start, 0)), self.constant(1.0)
        for k in range(1, 2 * self.c.shape[1] - 1):
            power = power * h
            result = result + Series(power.c * np.asarray(coefficient(start, k))[:, None, None])
        return result

    def exp(self):
        return self.compose(lambda x, k: np.exp(x) / math.factorial(k))

    def sqrt(self):
        return self.compose(lambda x, k: math.prod((0.5 - i) / (i + 1) for i in range(k)) * np.sqrt(x) / x**k)

    def cos(self):
        return self.compose(lambda x, k: (np.cos(x), -np.sin(x), -np.cos(x), np.sin(x))[k % 4] / math.factorial(k))


def squares(x, y, scales):
    return [(a - b) * (a - b) * (1 / l**2) for a, b, l in zip(x, y, scales, strict=True)]


def squares_around(x, y, scales):
    r"""Coordinate 0 is a circle of circumference PERIOD: its chord squared is $2 R^2 (1 - \cos(r / R))$."""
    radius = PERIOD / (2 * np.longdouble(np.pi))
    chord = -2 * radius**2 * (((x[0] - y[0]) * (1 / radius)).cos() + -1.0)
    return [chord * (1 / scales[0] ** 2), *squares(x[1:], y[1:], scales[1:])]


def gaussian(squares):
    return (-0.5 * functools.reduce(Series.__add__, squares)).exp()


def matern(nu, squares):
    t = (2 * nu * functools.reduce(Series.__add__, squares)).sqrt()
    value, power = t.constant(1.0), t.constant(1.0)
    for numerator, denominator in MATERN_POLYNOMIALS[nu][1:]:
        power = power * t
        value = value + power * (np.longdouble(numerator) / denominator)
    return value * (-1.0 * t).exp()


def inner(x, y):
    return functools.reduce(Series.__add__, [a * b for a, b in zip(x, y, strict=True)])


def linear(x, y):
    return 1.0 + jnp.sum(x * y)


def bell_curve(scales, x, y):
    return jnp.exp(-jnp.sum(((x - y) / scales) ** 2) / 2)


class Case(NamedTuple):
    kernel: Callable[..., AbstractKernel]
    formula: Callable  # of two lists of coordinates and the lengthscales
    highest: int = 4


CASES = {
    "gaussian": Case(lambda s: Gaussian(s, amplitude=1.5), lambda *a: 2.25 * gaussian(squares(*a))),
    **{
        f"matern {nu}": Case(lambda s, nu=nu: Matern(nu, s), lambda *a, nu=nu: matern(nu, squares(*a)), min(4, int(nu)))
        for nu in NUS
    },
    "periodic gaussian": Case(lambda s: Gaussian(s, period={0: PERIOD}), lambda *a: gaussian(squares_around(*a))),
    "periodic matern": Case(lambda s: Matern(9 / 2, s, period={0: PERIOD}), lambda *a: matern(9 / 2, squares_around(*a))),
    "sum": Case(lambda s: Gaussian(s) + Matern(9 / 2, s), lambda *a: gaussian(squares(*a)) + matern(9 / 2, squares(*a))),
    "around a constant": Case(lambda s: Gaussian(s) + Offset(3.0), lambda *a: gaussian(squares(*a)) + 9.0),
    "product": Case(lambda s: Gaussian(s) * Matern(9 / 2, s), lambda *a: gaussian(squares(*a)) * matern(9 / 2, squares(*a))),
    "product that is not stationary": Case(
        lambda s: FunctionKernel(linear) * Gaussian(s),
        lambda x, y, s: (inner(x, y) + 1.0) * gaussian(squares(x, y, s)),
        2,
    ),
    "function": Case(
        lambda s: FunctionKernel(Partial(bell_curve, s)),
        lambda *a: gaussian(squares(*a)),
        2,
    ),
}


def directional_power(direction, n) -> Terms:
    r"""$(v \cdot \nabla)^n$ as terms, by the multinomial theorem: for a generic $v$ each $\partial^\alpha$ is in it."""
    alphas = [alpha for alpha in product(range(n + 1), repeat=len(direction)) if sum(alpha) == n]
    ways = [math.factorial(n) / math.prod(map(math.factorial, alpha)) for alpha in alphas]
    return tuple((a, w * math.prod(v**i for v, i in zip(direction, a, strict=True))) for a, w in zip(alphas, ways, strict=True))


LEFT, RIGHT = (0.8, -0.7, 0.5), (0.6, 0.9, -0.4)


def truth(formula, x, y, scales, n):
    r"""$(v \cdot \nabla_x)^i (w \cdot \nabla_y)^j \kappa$ for $i, j \le n$, from $\kappa(x + sv, y + tw)$."""

    def line(starts, slope, place):
        c = np.zeros((len(starts), n + 1, n + 1))
        c[:, 0, 0], c[(slice(None), *place)] = starts, slope
        return Series(c)

    along_x = [line(x[:, a], LEFT[a], (1, 0)) for a in range(x.shape[1])]
    along_y = [line(y[:, a], RIGHT[a], (0, 1)) for a in range(x.shape[1])]
    factorials = np.array([math.factorial(i) for i in range(n + 1)])
    return formula(along_x, along_y, np.asarray(scales, np.longdouble)).c * np.outer(factorials, factorials)


@functools.partial(jax.jit, static_argnums=3)
def closed_form(kernel, x, y, orders):
    v, w = LEFT[: x.shape[1]], RIGHT[: x.shape[1]]

    def covariances(x, y):
        return [kernel.covariance(directional_power(v, i), directional_power(w, j), x, y) for i, j in orders]

    return jax.vmap(covariances)(x, y)


@st.composite
def pairs(draw, dim, num=6):
    """Points whose scaled distance lies in [0.3, 3], where differentiating the formula is itself exact to rounding."""
    scales = draw(arrays(float, dim, elements=st.floats(0.5, 1.2)))
    x = draw(arrays(float, (num, dim), elements=st.floats(-1, 1)))
    angles = draw(arrays(float, (num, 2), elements=st.floats(0.0, 2 * math.pi)))
    radii = draw(arrays(float, (num, 1), elements=st.floats(0.3, 3.0)))
    theta, phi = angles.T
    sphere = np.stack([np.cos(theta), np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi)], axis=1)
    circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    directions = {1: np.sign(np.cos(theta) + 1e-3)[:, None], 2: circle, 3: sphere}[dim]
    return x, x + radii * scales * directions, scales


def gram(kernel, operators, points):
    rows = [
        [jax.vmap(lambda x, a=a, b=b: jax.vmap(lambda y: kernel.covariance(a, b, x, y))(points))(points) for b in operators]
        for a in operators
    ]
    return jnp.block(rows)


AUTODIFF = ("function", "product that is not stationary")
# These take up to half a minute to compile.
SLOW = [("product", 2), ("product", 3)]
# In space one of each kind is looked at on every run: the others are made of the same derivatives of $|x - y|^2$, and differ in
# a function of one number that lines and planes show as well.
IN_SPACE = ("gaussian", "matern 2.5", "matern 5.5", "periodic matern", *AUTODIFF)


def in_dimensions(names):
    cases = [(name, dim) for name in names for dim in (1, 2, 3) if (name, dim) not in SLOW]
    return [
        pytest.param(name, dim, marks=[pytest.mark.slow] if dim == 3 and name not in IN_SPACE else []) for name, dim in cases
    ]


@pytest.mark.parametrize(("name", "dim"), in_dimensions(CASES))
def test_derivatives_of_a_kernel_are_those_of_its_formula(name, dim):
    n = CASES[name].highest
    orders = {1: ((0, 0), (1, 0), (1, 2), (4, 0), (n, n)), 2: ((0, 0), (1, 0), (1, 2), (4, 0), (n, n)), 3: ((4, 0), (n, n))}
    if name in AUTODIFF:  # where compiling takes longest
        orders |= {2: ((0, 0), (1, 0), (1, 2), (n, n)), 3: ((1, 0), (1, 2))}
    check_derivatives(name, dim, orders[dim])


@pytest.mark.parametrize(("name", "dim"), SLOW)
def test_low_derivatives_of_a_product_are_those_of_its_formula(name, dim):
    check_derivatives(name, dim, ((1, 0), (1, 2), (2, 2)) if dim == 2 else ((1, 0), (1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dim"), SLOW)
def test_high_derivatives_of_a_product_are_those_of_its_formula(name, dim):
    check_derivatives(name, dim, ((2, 2), (4, 0), (4, 4)))


def check_derivatives(name, dim, orders):
    case = CASES[name]

    @settings(max_examples=10)
    @given(pairs(dim))
    def check(drawn):
        x, y, scales = drawn
        expected = truth(case.formula, x, y, scales, 4)
        actual = closed_form(case.kernel(scales), jnp.asarray(x), jnp.asarray(y), orders)
        for (i, j), values in zip(orders, actual, strict=True):
            error = np.max(np.abs(np.asarray(values) - expected[:, i, j])) / np.max(np.abs(expected[:, i, j]))
            assert error < 1e-10, f"derivatives ({i}, {j}): {error}"

    check()


def test_operators_with_several_terms_act_on_both_arguments():
    scales, points = jnp.array([0.3, 0.5]), jnp.array([[0.1, 0.7], [0.35, 0.2]])
    block = jax.jit(gram, static_argnums=1)
    expected = block(FunctionKernel(Partial(bell_curve, scales)), (HEAT, MIXED), points)
    np.testing.assert_allclose(block(Gaussian(scales), (HEAT, MIXED), points), expected, rtol=1e-12, atol=1e-12)


def moment(gamma, scales, profile):
    r"""$\partial^\gamma \kappa(0) = F^{(m)}(0) \prod_a (\gamma_a - 1)!! \, \ell_a^{-\gamma_a}$, $m = |\gamma|/2$, all even."""
    if any(n % 2 for n in gamma):
        return 0.0
    return profile(sum(gamma) // 2) * math.prod(math.prod(range(1, n, 2)) / l**n for n, l in zip(gamma, scales, strict=True))


def matern_profile(nu):
    return lambda m: (-nu) ** m / math.prod(nu - i for i in range(1, m + 1))


PROFILES = [(Gaussian, lambda m: (-1.0) ** m), *((functools.partial(Matern, nu), matern_profile(nu)) for nu in NUS)]
SPLITS = [((1, 0), (1, 0)), ((2, 0), (0, 0)), ((1, 1), (1, 1)), ((2, 0), (0, 2)), ((1, 0), (2, 0)), ((0, 2), (0, 2))]


@pytest.mark.parametrize(("make", "profile"), PROFILES)
def test_derivatives_on_the_diagonal_have_their_closed_form(make, profile):
    scales, x = (0.2, 0.5), jnp.array([0.3, -1.1])
    kernel = make(scales)
    p = 5 if kernel.smoothness is None else kernel.smoothness
    for alpha, beta in [*SPLITS, ((p, 0), (p, 0)), ((p - 1, 1), (1, p - 1)), ((2 * p, 0), (0, 0))]:
        gamma = tuple(i + j for i, j in zip(alpha, beta, strict=True))
        expected = (-1) ** sum(beta) * moment(gamma, scales, profile)
        size = abs(profile((sum(gamma) + 1) // 2)) * math.prod(l**-n for n, l in zip(gamma, scales, strict=True))
        actual = kernel.covariance(((alpha, 1.0),), ((beta, 1.0),), x, x)
        assert actual == pytest.approx(expected, rel=1e-13, abs=1e-13 * size)
        # Close by, at distances that overflow t^(-9), underflow t^2 or are just small, the value goes on continuously.
        for distance in (1e-7, 1e-15, 1e-16, 1e-30, 1e-160, 1e-300):
            y = x * 0 + distance * jnp.array([0.2, -0.3])
            near = kernel.covariance(((alpha, 1.0),), ((beta, 1.0),), x * 0, y)
            assert near == pytest.approx(expected, rel=1e-5, abs=max(1e3 * distance, 1e-13) * size)


def test_matern_laplacians_on_the_diagonal_have_their_known_values():
    kernel, x = Matern(5 / 2, 0.2), jnp.array([0.3, 0.4])
    assert kernel.covariance(LAPLACIAN, VALUE, x, x) == pytest.approx(-250 / 3, rel=1e-14)
    assert kernel.covariance(LAPLACIAN, LAPLACIAN, x, x) == pytest.approx(125000 / 3, rel=1e-14)


@pytest.mark.parametrize(("make", "profile"), PROFILES)
def test_a_periodic_kernel_on_the_diagonal_knows_its_circumference(make, profile):
    # q = (1 - cos wr)/(wl)^2 = r^2/(2 l^2) - w^2 r^4/(24 l^2) + ...
    l, w, second = 0.4, 2 * math.pi / 1.5, (((2,), 1.0),)
    kernel = make(l, period={0: 1.5})
    for y in (0.0, 1.5, -3.0):
        x, y = jnp.array([0.0]), jnp.array([y])
        assert kernel.covariance(second, identity(1), x, y) == pytest.approx(profile(1) / l**2, rel=1e-12)
        fourth = 3 * profile(2) / l**4 - profile(1) * w**2 / l**2
        assert kernel.covariance(second, second, x, y) == pytest.approx(fourth, rel=1e-12)


KERNELS = {
    "gaussian": (Gaussian((0.3, 0.4), amplitude=2.0), LAPLACIAN),
    "matern": (Matern(5 / 2, 0.3), LAPLACIAN),
    "periodic": (Matern(7 / 2, 0.3, period={1: 1.0}), LAPLACIAN),
    "sum": (Gaussian(0.3) + Matern(5 / 2, (0.2, 0.5)), LAPLACIAN),
    "product": (Gaussian(0.3) * Matern(5 / 2, (0.2, 0.5)), VALUE),
    "not stationary": (FunctionKernel(linear) * Matern(5 / 2, 0.3), VALUE),
}


@pytest.mark.parametrize(("kernel", "operator"), KERNELS.values(), ids=KERNELS)
def test_a_gram_of_functionals_is_symmetric_and_positive_semidefinite(kernel, operator):
    points = jnp.asarray(np.random.default_rng(3).random((7, 2)))
    matrix = np.asarray(jax.jit(gram, static_argnums=1)(kernel, (HEAT, operator), points))
    scale = np.sqrt(np.diag(matrix))
    correlation = matrix / np.outer(scale, scale)
    np.testing.assert_allclose(correlation, correlation.T, rtol=0, atol=1e-14)
    assert np.linalg.eigvalsh(correlation)[0] > -1e-13


@pytest.mark.parametrize("kernel", [Gaussian(0.3, period={1: 1.0}), Matern(5 / 2, 0.3, period={1: 1.0})])
def test_a_periodic_kernel_repeats_along_its_coordinate_alone(kernel):
    x, y = jnp.array([0.1, 0.2]), jnp.array([0.3, 0.75])
    here = kernel.covariance(LAPLACIAN, HEAT, x, y)
    assert jnp.allclose(kernel.covariance(LAPLACIAN, HEAT, x, y + jnp.array([0.0, 2.0])), here, rtol=1e-12)
    assert not jnp.allclose(kernel.covariance(LAPLACIAN, HEAT, x, y + jnp.array([2.0, 0.0])), here, rtol=1e-2)


def test_operators_that_cancel_have_no_covariance():
    # d/dx d/dy k + k'' = 0, and the merged operator is empty.
    left, right = (((1,), 1.0),), (((1,), 1.0), ((0,), 0.0))
    x, y = jnp.array([0.3]), jnp.array([0.1])
    both = Gaussian(0.2).covariance(left, right, x, y) + Gaussian(0.2).covariance((((2,), 1.0),), identity(1), x, y)
    assert abs(both) < 1e-14
    wave = (((2, 0), 1.0), ((0, 2), -1.0))
    null = (((0, 0), 0.0),)
    assert Gaussian(0.2).covariance(wave, null, jnp.zeros(2), jnp.ones(2)) == 0.0
    assert (Gaussian(0.2) * Gaussian(0.3)).covariance(wave, null, jnp.zeros(2), jnp.ones(2)) == 0.0


@pytest.mark.parametrize("make", [Gaussian, functools.partial(Matern, 5 / 2)])
def test_covariances_can_be_differentiated_in_the_lengthscale_also_on_the_diagonal(make):
    def laplacians(lengthscale, y):
        return make(lengthscale).covariance(LAPLACIAN, LAPLACIAN, jnp.zeros(2), y)

    for y in (jnp.array([0.1, 0.2]), jnp.zeros(2)):
        slope = jax.jit(jax.grad(laplacians))(0.3, y)
        difference = (laplacians(0.3 + 1e-5, y) - laplacians(0.3 - 1e-5, y)) / 2e-5
        assert slope == pytest.approx(float(difference), rel=1e-6)


def test_covariances_compile_to_elementwise_work():
    kernel = Matern(9 / 2, (0.2, 0.3), period={0: 1.0})
    program = str(jax.make_jaxpr(lambda x: gram(kernel, (VALUE, LAPLACIAN), x))(jnp.zeros((5, 2))))
    assert "gather" not in program
    assert "dot_general" not in program


def test_smoothness_is_that_of_the_roughest_part():
    assert Gaussian(0.2).smoothness is None
    assert [Matern(nu, 0.2).smoothness for nu in NUS] == [2, 3, 4, 5]
    assert (Gaussian(0.2) + Matern(7 / 2, 0.2)).smoothness == 3
    assert (Matern(9 / 2, 0.2) * Matern(7 / 2, 0.2)).smoothness == 3
    assert (Gaussian(0.2) * Gaussian(0.2)).smoothness is None
    assert FunctionKernel(linear, smoothness=1).smoothness == 1


def test_lengthscales_are_given_per_coordinate():
    assert Matern(5 / 2, 0.2).lengthscales(3).tolist() == [0.2] * 3
    assert (Gaussian((0.1, 0.6)) + Gaussian((0.2, 0.4))).lengthscales(2).tolist() == [0.1, 0.4]
    assert jnp.allclose((Gaussian(0.3) * Gaussian(0.4)).lengthscales(2), 0.24)
    assert FunctionKernel(linear).lengthscales(2).tolist() == [1.0, 1.0]
    assert FunctionKernel(linear, lengthscale=(2, 3)).lengthscales(2).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("needed", [3, 4, 5])
def test_a_kernel_too_rough_for_an_operator_names_the_matern_that_would_do(needed):
    kernel = Matern(5 / 2, 0.2)
    kernel.check_smoothness(2)
    with pytest.raises(ValueError, match=rf"`gpde\.Matern\({2 * needed + 1}/2, \.\.\.\)`"):
        kernel.check_smoothness(needed)
    Matern((2 * needed + 1) / 2, 0.2).check_smoothness(needed)


def test_a_kernel_too_rough_for_any_matern_is_sent_to_the_gaussian():
    with pytest.raises(ValueError, match=r"use `gpde\.Gaussian"):
        Matern(11 / 2, 0.2).check_smoothness(6)
    Gaussian(0.2).check_smoothness(6)


def test_a_derivative_that_does_not_exist_is_refused_and_not_invented():
    x = jnp.zeros(2)
    biharmonic = (((4, 0), 1.0), ((2, 2), 2.0), ((0, 4), 1.0))
    assert order(biharmonic) == 4
    assert jnp.isfinite(Matern(5 / 2, 0.2).covariance(biharmonic, VALUE, x, x))
    for kernel in (Matern(5 / 2, 0.2), Gaussian(0.2) * Matern(7 / 2, 0.2), FunctionKernel(linear, smoothness=2)):
        with pytest.raises(ValueError, match="derivatives, but an operator of order"):
            kernel.covariance(biharmonic, biharmonic, x, x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0.0), "`Gaussian`: `lengthscale` must be positive and finite, not 0.0"),
        (lambda: Gaussian((0.1, -1.0)), "`Gaussian`: `lengthscale` must be positive"),
        (lambda: Gaussian(()), "`Gaussian`: `lengthscale` must be positive"),
        (lambda: Gaussian(np.ones((2, 2))), "one number or one per coordinate, not an array of shape"),
        (lambda: Gaussian(0.1, amplitude=math.inf), "`Gaussian`: `amplitude` must be positive and finite"),
        (lambda: Gaussian(0.1, amplitude=np.ones(2)), "`amplitude` must be one number"),
        (lambda: Gaussian(0.1, period={0: -1.0}), "`period` of coordinate 0 must be positive"),
        (lambda: Gaussian(0.1, period={-1: 1.0}), "`Gaussian`: `period` must map coordinates"),
        (lambda: Matern(5 / 2, math.nan), "`Matern`: `lengthscale` must be positive"),
        (lambda: Matern(5 / 2, 0.1, amplitude=0), "`Matern`: `amplitude` must be positive"),
        (lambda: Matern(5 / 2, 0.1, period={1: math.inf}), "`Matern`: `period` of coordinate 1"),
        (lambda: Matern(3 / 2, 0.1), "`nu` must be 5/2, 7/2, 9/2 or 11/2, not 1.5"),
        (lambda: Matern(3, 0.1), "`nu` must be 5/2, 7/2, 9/2 or 11/2, not 3"),
        (lambda: FunctionKernel(linear, smoothness=-1), "`FunctionKernel`: `smoothness`"),
        (lambda: FunctionKernel(linear, lengthscale=0.0), "`FunctionKernel`: `lengthscale`"),
        (lambda: Gaussian((0.1, 0.2)).check(3), "`lengthscale` has 2 entries, but points have 3 coordinates"),
        (lambda: Gaussian((0.1, 0.2))(jnp.zeros(3), jnp.zeros(3)), "`lengthscale` has 2 entries"),
        (lambda: Gaussian(0.1, period={2: 1.0}).check(2), "`period` names coordinate 2, but points have 2"),
        (lambda: (Gaussian(0.1) + Matern(5 / 2, (0.1, 0.2))).check(1), "`Matern`: `lengthscale` has 2 entries"),
        (lambda: (Gaussian((0.1, 0.2)) * Matern(5 / 2, 0.1)).check(1), "`Gaussian`: `lengthscale` has 2 entries"),
        (lambda: FunctionKernel(lambda x, y: x * y).check(2), "must give a scalar"),
        (lambda: FunctionKernel(linear, lengthscale=(1.0, 2.0)).check(1), "`FunctionKernel`: `lengthscale` has 2"),
        (lambda: as_kernel(0.2), "`kernel` must be a kernel such as"),
        (lambda: as_kernel(lambda x: x), "a function `kernel\\(x, y\\)` of two points"),
        (lambda: as_kernel(Matern), "`kernel` must be a kernel such as"),
    ],
)
def test_a_kernel_that_makes_no_sense_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_function_of_two_points_becomes_a_kernel():
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    kernel = as_kernel(linear)
    kernel.check(2)
    assert kernel(x, y) == 12.0
    assert as_kernel(kernel) is kernel
    assert jax.jit(lambda k: k(x, y))(kernel) == 12.0
    assert as_kernel(np.vectorize(lambda x, y: 1.0)).smoothness is None  # a callable object


def test_only_kernels_add_and_multiply():
    for combine in (lambda: Gaussian(0.2) + 1.0, lambda: Gaussian(0.2) * linear):  # pyright: ignore
        with pytest.raises(TypeError):
            combine()


def test_a_constant_has_every_period():
    kernel = Gaussian(0.3, period={0: 1.0}) + Offset()
    assert kernel.periods(2).tolist() == [1.0, np.inf]


def test_a_kernel_prints_its_numbers():
    kernel = Gaussian([0.2, 0.1], amplitude=2.0) * Matern(9 / 2, 0.3) + Offset(3.0)
    assert (
        str(kernel)
        == repr(kernel)
        == ("Sum(Product(Gaussian(lengthscale=(0.2, 0.1), amplitude=2), Matern(nu=4.5, lengthscale=0.3)), Offset(amplitude=3))")
    )
    assert str({"u": Gaussian((0.5, 0.3))}) == "{'u': Gaussian(lengthscale=(0.5, 0.3))}"
    texts = []
    jax.eval_shape(lambda scale: texts.append(repr(Gaussian(scale) + Offset(2.0))), 0.2)
    assert "Gaussian(lengthscale=f64[]" in texts[0].replace("\n", "").replace(" ", "")
    stacked = jax.vmap(lambda amplitude: Gaussian(0.2, amplitude=amplitude))(jnp.array([1.0, 2.0]))
    assert "amplitude=(1, 2)" in repr(stacked)
