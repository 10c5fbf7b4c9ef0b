"""Kernels: derivatives against Taylor arithmetic on formulas written out here, limits on the diagonal, bad requests."""

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jax.tree_util import Partial

from gpde.kernels import AbstractKernel, FunctionKernel, Gaussian, Matern, Terms, as_kernel, identity, order

PERIOD = 8.0
VALUE, LAPLACIAN = identity(2), (((2, 0), 1.0), ((0, 2), 1.0))
HEAT = (((1, 0), 1.0), ((0, 2), -0.02))
BIHARMONIC = (((4, 0), 1.0), ((2, 2), 2.0), ((0, 4), 1.0))
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
    """Coordinate 0 is a circle of circumference PERIOD, and its square the one over the chord: $2R^2 (1 - \\cos)$."""
    radius = PERIOD / (2 * np.longdouble(np.pi))
    chord = -2 * radius**2 * (((x[0] - y[0]) * (1 / radius)).cos() + -1.0)
    return [chord * (1 / scales[0] ** 2), *squares(x[1:], y[1:], scales[1:])]


def gaussian(squares):
    return (-0.5 * sum(squares[1:], start=squares[0])).exp()


def matern(nu, squares):
    t = (2 * nu * sum(squares[1:], start=squares[0])).sqrt()
    value, power = t.constant(1.0), t.constant(1.0)
    for numerator, denominator in MATERN_POLYNOMIALS[nu][1:]:
        power = power * t
        value = value + power * (np.longdouble(numerator) / denominator)
    return value * (-1.0 * t).exp()


def inner(x, y):
    products = [a * b for a, b in zip(x, y, strict=True)]
    return sum(products[1:], start=products[0])


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
    "periodic matern": Case(
        lambda s: Matern(9 / 2, s, period={0: PERIOD}), lambda *a: matern(9 / 2, squares_around(*a))
    ),
    "sum": Case(
        lambda s: Gaussian(s) + Matern(7 / 2, s), lambda *a: gaussian(squares(*a)) + matern(7 / 2, squares(*a)), 3
    ),
    "product": Case(
        lambda s: Gaussian(s) * Matern(9 / 2, s), lambda *a: gaussian(squares(*a)) * matern(9 / 2, squares(*a)), 2
    ),
    "product that is not stationary": Case(
        lambda s: FunctionKernel(lambda x, y: 1.0 + jnp.sum(x * y)) * Gaussian(s),
        lambda x, y, s: (inner(x, y) + 1.0) * gaussian(squares(x, y, s)),
        2,
    ),
    "function": Case(
        lambda s: FunctionKernel(Partial(lambda s, x, y: jnp.exp(-jnp.sum(((x - y) / s) ** 2) / 2), s)),
        lambda *a: gaussian(squares(*a)),
        2,
    ),
}


def directional_power(direction, n) -> Terms:
    r"""$(v \cdot \nabla)^n$ as terms, by the multinomial theorem: with a generic $v$ every $\partial^\alpha$ is in it."""
    alphas = [alpha for alpha in product(range(n + 1), repeat=len(direction)) if sum(alpha) == n]
    ways = [math.factorial(n) / math.prod(map(math.factorial, alpha)) for alpha in alphas]
    return tuple(
        (a, w * math.prod(v**i for v, i in zip(direction, a, strict=True))) for a, w in zip(alphas, ways, strict=True)
    )


LEFT, RIGHT = (0.8, -0.7, 0.5), (0.6, 0.9, -0.4)


def truth(formula, x, y, scales, n):
    r"""$(v \cdot \nabla_x)^i (w \cdot \nabla_y)^j \kappa$ for all $i, j \le n$: derivatives of $\kappa(x + sv, y + tw)$."""

    def line(starts, slope, place):
        c = np.zeros((len(starts), n + 1, n + 1))
        c[:, 0, 0], c[(slice(None), *place)] = starts, slope
        return Series(c)

    along_x = [line(x[:, a], LEFT[a], (1, 0)) for a in range(x.shape[1])]
    along_y = [line(y[:, a], RIGHT[a], (0, 1)) for a in range(x.shape[1])]
    factorials = np.array([math.factorial(i) for i in range(n + 1)])
    return formula(along_x, along_y, np.asarray(scales, np.longdouble)).c * np.outer(factorials, factorials)


@eqx.filter_jit
def closed_form(kernel, x, y, n):
    v, w = LEFT[: x.shape[1]], RIGHT[: x.shape[1]]

    def table(x, y):
        entry = lambda i, j: kernel.covariance(directional_power(v, i), directional_power(w, j), x, y)  # noqa: E731
        return jnp.stack([jnp.stack([entry(i, j) for j in range(n + 1)]) for i in range(n + 1)])

    return jax.vmap(table)(x, y)


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
        [
            jax.vmap(lambda x, a=a, b=b: jax.vmap(lambda y: kernel.covariance(a, b, x, y))(points))(points)
            for b in operators
        ]
        for a in operators
    ]
    return jnp.block(rows)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_a_kernel_are_those_of_its_formula(name, dim):
    case = CASES[name]
    n = case.highest if dim < 3 or case.highest == 2 else 3

    @settings(max_examples=8)
    @given(pairs(dim))
    def check(drawn):
        x, y, scales = drawn
        expected = truth(case.formula, x, y, scales, n)
        actual = np.asarray(closed_form(case.kernel(scales), jnp.asarray(x), jnp.asarray(y), n))
        error = np.max(np.abs(actual - expected), axis=0) / np.max(np.abs(expected), axis=0)
        assert np.max(error) < 1e-10, error

    check()
