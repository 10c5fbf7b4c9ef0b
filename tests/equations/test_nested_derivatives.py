"""Derivatives of nonlinear expressions: an equation as written is the equation solved.

The truth is JAX's own derivative of the expression for a function that is written down, or of the function a solve gave; what
the library reads has no part in it.
"""

import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Box, FullBatch, Gaussian, Problem, SpaceTime
from gpde.equations import Site, read, stated
from gpde.equations.linear_operators import point_value
from gpde.functionals.functionals import Functionals, covariance
from gpde.operators import biharmonic, directional, divergence, gradient, hessian, laplacian, partial

FORMS = {
    "Δu³": lambda u, x: laplacian(lambda y: u(y) ** 3)(x),
    "∂²u³": lambda u, x: partial(lambda y: u(y) ** 3, 0, 0)(x),
    "∂∂u³": lambda u, x: partial(partial(lambda y: u(y) ** 3, 0), 0)(x),
    "∂₀∂₁u²": lambda u, x: partial(lambda y: u(y) ** 2, 0, 1)(x),
    "the Hessian of u³": lambda u, x: jnp.sum(hessian(lambda y: u(y) ** 3)(x)),
    "jax.hessian of u³": lambda u, x: jnp.trace(jax.hessian(lambda y: u(y) ** 3)(x)),
    "jax.grad twice": lambda u, x: jax.grad(lambda y: jax.grad(lambda z: u(z) ** 3)(y)[0])(x)[1],
    "jacrev of grad": lambda u, x: jax.jacrev(jax.grad(lambda y: jnp.sin(u(y))))(x)[0, 1],
    "directional twice": lambda u, x: directional(directional(lambda y: u(y) ** 2, [1.0, 2.0]), lambda y: y)(x),
    "Δ exp(u)": lambda u, x: laplacian(lambda y: jnp.exp(u(y)))(x),
    "Δ|∇u|²": lambda u, x: laplacian(lambda y: jnp.sum(gradient(u)(y) ** 2))(x),
    "∇·(u∇u²)": lambda u, x: divergence(lambda y: u(y) * gradient(lambda z: u(z) ** 2)(y))(x),
    "Δ(uΔu)": lambda u, x: laplacian(lambda y: u(y) * laplacian(u)(y))(x),
    "Δ²u²": lambda u, x: biharmonic(lambda y: u(y) ** 2)(x),
    "a variable coefficient inside": lambda u, x: laplacian(lambda y: y[0] * jnp.cos(y[1]) * u(y) ** 2)(x),
    "under jit": lambda u, x: laplacian(jax.jit(lambda y: u(y) ** 2))(x),
    "in a loop": lambda u, x: jax.lax.fori_loop(0, 3, lambda _, s: s + laplacian(lambda y: u(y) ** 2)(x), 0.0),
}


class Waves:
    r"""$u(x) = c + \sum_k a_k \sin(w_k \cdot x + p_k)$ as a JAX function, and its derivatives in closed form."""

    def __init__(self, dim, seed):
        rng = np.random.default_rng(seed)
        self.level, self.amplitudes, self.phases = rng.normal(), rng.normal(size=3), rng.uniform(0, 2 * np.pi, 3)
        self.waves = rng.uniform(-1.5, 1.5, (3, dim))

    def __call__(self, x):
        return self.level + jnp.sum(self.amplitudes * jnp.sin(jnp.sum(self.waves * x[None, :], axis=1) + self.phases))

    def derivative(self, alpha, x):
        turned = np.sin(self.waves @ x + self.phases + sum(alpha) * math.pi / 2)
        value = self.amplitudes @ (np.prod(self.waves ** np.array(alpha), axis=1) * turned)
        return value + (0.0 if any(alpha) else self.level)


def assert_read_as_written(equation, dim, num_fields, seed=3):
    fields = tuple("uvw"[:num_fields])
    probes = Site(np.random.default_rng(seed).uniform(0, 1, (64, dim)))
    reading = read((stated(equation, "equation", fields),), fields, probes)
    waves = [Waves(dim, seed + 10 * f) for f in range(num_fields)]
    points = np.random.default_rng(seed + 1).uniform(0, 1, (4, dim))
    written = jax.jit(jax.vmap(lambda x: equation(*waves, x)))(jnp.asarray(points))
    values = [
        [sum(c * waves[f].derivative(alpha, x) for f, terms in op for alpha, c in terms) for op in reading.operators]
        for x in points
    ]
    found = np.asarray(jax.jit(jax.vmap(reading.residual))(Site(points), np.asarray(values)))[:, 0]
    np.testing.assert_allclose(found, written, rtol=1e-9, atol=1e-9 * np.abs(written).max())


@pytest.mark.parametrize("name", FORMS)
def test_second_derivatives_of_nonlinear_expressions_keep_all_their_terms(name):
    assert_read_as_written(FORMS[name], 2, 1)


# --- random expressions: a tree of products, functions, coefficients and derivatives of one another ------------------------

FUNCTIONS = (jnp.sin, jnp.tanh, lambda s: jnp.exp(0.3 * s), jnp.square, lambda s: s**3, lambda s: 1 / (2 + s**2))


def evaluated(tree, fields):
    """The function of a point that a tree stands for."""
    kind, *rest = tree
    if kind == "field":
        return fields[rest[0] % len(fields)]
    inner = evaluated(rest[-1], fields)
    if kind == "function":
        return lambda x: FUNCTIONS[rest[0]](inner(x))
    if kind == "coefficient":
        return lambda x: jnp.cos(1.0 + 2.0 * x[rest[0] % x.shape[0]]) * inner(x)
    if kind == "product":
        other = evaluated(rest[0], fields)
        return lambda x: other(x) * inner(x)
    if kind == "derivative":
        return lambda x: partial(inner, rest[0] % x.shape[0])(x)
    return laplacian(inner)


def order(tree):
    kind, *rest = tree
    if kind == "field":
        return 0
    below = max(order(part) for part in rest if isinstance(part, tuple))
    return below + {"derivative": 1, "laplacian": 2}.get(kind, 0)


trees = st.recursive(
    st.tuples(st.just("field"), st.integers(0, 1)),
    lambda below: st.one_of(
        st.tuples(st.just("function"), st.integers(0, len(FUNCTIONS) - 1), below),
        st.tuples(st.just("coefficient"), st.integers(0, 1), below),
        st.tuples(st.just("product"), below, below),
        st.tuples(st.just("derivative"), st.integers(0, 1), below),
        st.tuples(st.just("laplacian"), below),
    ),
    max_leaves=3,
)


@hypothesis.settings(max_examples=12, suppress_health_check=[hypothesis.HealthCheck.filter_too_much])
@hypothesis.given(tree=trees.filter(lambda tree: 2 <= order(tree) <= 4), dim=st.integers(1, 2), num_fields=st.integers(1, 2))
def test_a_random_nest_of_derivatives_and_nonlinearities_is_read_as_written(tree, dim, num_fields):
    assert_read_as_written(
        lambda *arguments: evaluated(tree, arguments[:-1])(arguments[-1]) + sum(u(arguments[-1]) for u in arguments[:-1]),
        dim,
        num_fields,
    )


# --- a solution, checked without what was read ------------------------------------------------------------------------------


def porous_exact(x):
    return 1.5 + 0.5 * jnp.sin(jnp.pi * x[0]) * jnp.cos(jnp.pi * x[1])


def porous(u, x):
    return -laplacian(lambda y: u(y) + u(y) ** 3)(x) + u(x)


@pytest.fixture(scope="module")
def porous_solution():
    problem = Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={
            "interior": lambda u, x: porous(u, x) - porous(porous_exact, x),
            "boundary": lambda u, x: u(x) - porous_exact(x),
        },
    )
    return gpde.solve(problem, Gaussian(0.4), num_interior=150, num_boundary=60, nugget=1e-12)


PLACES = np.random.default_rng(9).uniform(0.05, 0.95, (20, 2))


def plain_function(solution):
    """The predicted u as a JAX function: a sum of covariances, which JAX differentiates by its own rules."""
    predictor = solution.predictor

    def u(x):
        here = Functionals((point_value(0, 2),), (x[None, :],))
        return (covariance(predictor.kernels, here, predictor.functionals) @ predictor.weights)[0]

    return u


def test_a_nonlinearity_inside_the_laplacian_is_solved(porous_solution):
    exact, right_side = jax.jit(jax.vmap(lambda x: (porous_exact(x), porous(porous_exact, x))))(PLACES)
    assert np.abs(porous_solution(PLACES) - exact).max() < 1e-5
    assert np.abs(porous_solution.residual(PLACES)).max() < 1e-3 * np.abs(right_side).max()


def test_the_residual_is_that_of_plain_differentiation_of_the_solution(porous_solution):
    u = plain_function(porous_solution)
    written = jax.jit(jax.vmap(lambda x: porous(u, x) - porous(porous_exact, x)))(PLACES)
    np.testing.assert_allclose(porous_solution.residual(PLACES), written, atol=1e-6)


def test_an_operator_of_the_solution_is_that_of_plain_differentiation(porous_solution):
    u = plain_function(porous_solution)

    def operator(u):
        return lambda x: jnp.stack([laplacian(lambda y: u(y) ** 3)(x), partial(lambda y: jnp.exp(u(y)), 0, 1)(x)])

    np.testing.assert_allclose(
        porous_solution.apply(operator, PLACES), jax.jit(jax.vmap(operator(u)))(PLACES), rtol=1e-7, atol=1e-6
    )


# --- the same equation in two ways ------------------------------------------------------------------------------------------


def flux(u, x):
    return (1 + u(x) ** 2) * gradient(u)(x)


def square(u, power=2):
    return lambda y: u(y) ** power


def source(x):
    return 1.0 + x[0] * x[-1]


def speed(x):
    return 1.0 + 0.5 * x[0] ** 2


# Each equation as it stands on paper, and expanded by hand.
TWO_WAYS = {
    "porous medium": (
        lambda u, x: laplacian(square(u, 3))(x) - u(x),
        lambda u, x: 3 * u(x) ** 2 * laplacian(u)(x) + 6 * u(x) * jnp.sum(gradient(u)(x) ** 2) - u(x),
    ),
    "a flux in divergence form": (
        lambda u, x: divergence(lambda y: flux(u, y))(x),
        lambda u, x: (1 + u(x) ** 2) * laplacian(u)(x) + 2 * u(x) * jnp.sum(gradient(u)(x) ** 2),
    ),
    "a variable coefficient": (
        lambda u, x: divergence(lambda y: speed(y) * gradient(u)(y))(x) - u(x) ** 3,
        lambda u, x: speed(x) * laplacian(u)(x) + x[0] * partial(u, 0)(x) - u(x) ** 3,
    ),
    "conservation of Burgers' flux": (
        lambda u, x: partial(lambda y: u(y) ** 2 / 2, 0)(x) - laplacian(u)(x),
        lambda u, x: u(x) * partial(u, 0)(x) - laplacian(u)(x),
    ),
    "the exponential inside": (
        lambda u, x: laplacian(lambda y: jnp.exp(u(y)))(x),
        lambda u, x: jnp.exp(u(x)) * (laplacian(u)(x) + jnp.sum(gradient(u)(x) ** 2)),
    ),
    "a quasilinear equation": (
        lambda u, x: divergence(lambda y: (1 + jnp.sum(gradient(u)(y) ** 2)) * gradient(u)(y))(x),
        lambda u, x: (1 + jnp.sum(gradient(u)(x) ** 2)) * laplacian(u)(x)
        + 2 * gradient(u)(x) @ hessian(u)(x) @ gradient(u)(x),
    ),
    "Monge and Ampère": (
        lambda u, x: jnp.linalg.det(hessian(u)(x)) + laplacian(u)(x),
        lambda u, x: partial(u, 0, 0)(x) * partial(u, 1, 1)(x) - partial(u, 0, 1)(x) ** 2 + laplacian(u)(x),
    ),
    "mixed derivatives of a square": (
        lambda u, x: partial(square(u), 0, 1)(x) + laplacian(u)(x),
        lambda u, x: 2 * partial(u, 0)(x) * partial(u, 1)(x) + 2 * u(x) * partial(u, 0, 1)(x) + laplacian(u)(x),
    ),
    "nested jax.grad": (
        lambda u, x: jax.grad(lambda y: jax.grad(square(u))(y)[0])(x)[0] + partial(u, 1, 1)(x),
        lambda u, x: 2 * partial(u, 0)(x) ** 2 + 2 * u(x) * partial(u, 0, 0)(x) + partial(u, 1, 1)(x),
    ),
    "a plate that bends": (
        lambda u, x: laplacian(lambda y: (1 + y[0]) * laplacian(u)(y))(x) + u(x) ** 3,
        lambda u, x: (1 + x[0]) * biharmonic(u)(x) + 2 * partial(laplacian(u), 0)(x) + u(x) ** 3,
    ),
    "thin film": (
        lambda u, x: divergence(lambda y: u(y) * gradient(laplacian(u))(y))(x),
        lambda u, x: u(x) * biharmonic(u)(x) + gradient(u)(x) @ gradient(laplacian(u))(x),
    ),
    "Cahn and Hilliard": (
        lambda u, x: laplacian(lambda y: u(y) ** 3 - u(y) - 0.1 * laplacian(u)(y))(x),
        lambda u, x: 3 * u(x) ** 2 * laplacian(u)(x) + 6 * u(x) * jnp.sum(gradient(u)(x) ** 2) - laplacian(u)(x)
        - 0.1 * biharmonic(u)(x),
    ),
    "a biharmonic square": (
        lambda u, x: biharmonic(lambda y: u(y) + 0.1 * u(y) ** 2)(x),
        lambda u, x: (1 + 0.2 * u(x)) * biharmonic(u)(x) + 0.2 * laplacian(u)(x) ** 2
        + 0.8 * gradient(u)(x) @ gradient(laplacian(u))(x) + 0.4 * jnp.sum(hessian(u)(x) ** 2),
    ),
    "cross diffusion": (
        lambda u, v, x: (laplacian(lambda y: u(y) * (1 + v(y)))(x), laplacian(v)(x) - u(x) * v(x)),
        lambda u, v, x: (
            (1 + v(x)) * laplacian(u)(x) + 2 * gradient(u)(x) @ gradient(v)(x) + u(x) * laplacian(v)(x),
            laplacian(v)(x) - u(x) * v(x),
        ),
    ),
    "chemotaxis": (
        lambda u, v, x: (divergence(lambda y: gradient(u)(y) - u(y) * gradient(v)(y))(x), laplacian(v)(x) - v(x) + u(x)),
        lambda u, v, x: (
            laplacian(u)(x) - gradient(u)(x) @ gradient(v)(x) - u(x) * laplacian(v)(x),
            laplacian(v)(x) - v(x) + u(x),
        ),
    ),
}  # fmt: skip


def problem_of(equation, name):
    """The equation with a source on a square and values on its boundary; fourth-order ones on an interval, with curvatures."""
    systems, fourth = name in ("cross diffusion", "chemotaxis"), name.startswith(("a plate", "thin", "Cahn", "a biharm"))
    if systems:
        equations = [lambda u, v, x, k=k: equation(u, v, x)[k] - source(x) for k in range(2)]
        boundary = [lambda u, v, x: u(x) - 1.0, lambda u, v, x: v(x) - 0.5]
    else:
        equations = lambda u, x: equation(u, x) - source(x)  # noqa: E731
        boundary = [lambda u, x: u(x) - 1.0, *([lambda u, x: laplacian(u)(x)] if fourth else [])]
    return Problem(
        domain=Box(0.0, 1.0) if fourth else Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equations, "boundary": boundary},
        fields=("u", "v") if systems else ("u",),
    )


# Of each kind of nesting one is read on every run: a power, a flux, a coefficient, a determinant, a third and a fourth order,
# two fields.
READ_QUICKLY = (
    "porous medium", "a flux in divergence form", "a variable coefficient", "conservation of Burgers' flux", "Monge and Ampère",
    "a plate that bends", "thin film", "cross diffusion",
)  # fmt: skip


def quickly(names):
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in TWO_WAYS]


@pytest.mark.parametrize("name", quickly(READ_QUICKLY))
def test_an_equation_written_in_two_ways_has_the_same_functionals_residual_and_gradient(name):
    first, second = (problem_of(way, name).conditions[0].reading for way in TWO_WAYS[name])
    assert len(first.operators) == len(second.operators)
    for one, other in zip(first.operators, second.operators, strict=True):
        assert [(f, [alpha for alpha, _ in terms]) for f, terms in one] == [(f, [a for a, _ in terms]) for f, terms in other]
        ours, theirs = ([c for _, terms in operator for _, c in terms] for operator in (one, other))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    x, values = Site(PLACES[:, : first.dim]), np.random.default_rng(1).normal(size=(len(PLACES), len(first.operators)))
    both = lambda r: jax.vmap(lambda x, v: (r.residual(x, v), jax.jacfwd(r.residual, argnums=1)(x, v)))  # noqa: E731
    for ours, theirs in zip(*(jax.jit(both(reading))(x, values) for reading in (first, second)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", quickly(("porous medium", "a plate that bends")))
def test_an_equation_written_in_two_ways_has_the_same_solution(name):
    problems = [problem_of(way, name) for way in TWO_WAYS[name]]
    settings = {"num_interior": 24, "num_boundary": 16, "nugget": 1e-6, "method": FullBatch(max_steps=4)}
    solutions = [gpde.solve(problem, Gaussian(0.6), initial=start(problem), **settings) for problem in problems]
    ours, theirs = (solution(PLACES[:, : solution.dim]) for solution in solutions)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def start(problem):
    """Near the boundary values: some of these equations degenerate at u = 0."""
    return tuple(lambda x, level=level: level + 0.0 * x[0] for level in (1.0, 0.5)[: len(problem.fields)])


# --- units ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diffusivity", [1e-11, 1e-13])
def test_a_small_diffusivity_in_si_units_is_part_of_the_operator(diffusivity):
    problem = Problem(
        domain=SpaceTime((0.0, 1e-5), 0.0, 10.0),
        equations={"interior": lambda u, x: partial(u, 0)(x) - diffusivity * partial(u, 1, 1)(x)},
    )
    (operator,) = problem.conditions[0].reading.operators
    assert dict(operator[0][1]) == {(1, 0): 1.0, (0, 2): -diffusivity}


def test_a_small_coefficient_that_varies_makes_two_operators():
    problem = Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": lambda u, x: partial(u, 0)(x) - 1e-11 * (1 + 0.01 * x[1]) * partial(u, 1, 1)(x)},
    )
    assert [operator[0][1] for operator in problem.conditions[0].reading.operators] == [
        (((1, 0), 1.0),),
        (((0, 2), 1.0),),
    ]


def heat(length, seconds):
    """Heat in a rod, in units in which its length and the duration are these."""
    diffusivity = 0.1 * length**2 / seconds

    def exact(x):
        return 300 + 20 * jnp.exp(-0.1 * jnp.pi**2 * x[0] / seconds) * jnp.sin(jnp.pi * x[1] / length)

    return Problem(
        domain=SpaceTime((0.0, length), 0.0, seconds),
        equations={
            "interior": lambda u, x: partial(u, 0)(x) - diffusivity * partial(u, 1, 1)(x),
            "initial": lambda u, x: u(x) - exact(x),
            "boundary": lambda u, x: u(x) - exact(x),
        },
        reference=exact,
    )


def test_the_solution_does_not_depend_on_the_units_of_length_and_time():
    unit = np.random.default_rng(4).uniform(0, 1, (30, 2))
    plain, scaled = (
        gpde.solve(heat(length, seconds), num_interior=80, num_boundary=60)(unit * [seconds, length])
        for length, seconds in ((1.0, 1.0), (1e-6, 1e4))
    )
    np.testing.assert_allclose(plain, scaled, rtol=1e-6)  # learned lengthscales agree to as much
    reference = heat(1.0, 1.0).reference
    assert reference is not None
    exact = jax.jit(jax.vmap(reference))(unit)
    assert np.abs(plain - exact).max() < 0.5  # kelvin
