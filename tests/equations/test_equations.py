"""Reading equations: the operators found, what kind an equation is, and the residual as a function of their values."""

import functools
import math
from typing import NamedTuple

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.equations import Site, read, stated
from gpde.equations.linear_operators import operator_text
from gpde.operators import biharmonic, directional, divergence, gradient, hessian, laplacian, partial

COORDINATES = {1: ("x",), 2: ("x", "y"), 3: ("x", "y", "z")}
RNG = np.random.default_rng(5)
PROBES = {dim: RNG.uniform(0, 1, (64, dim)) for dim in (1, 2, 3)}


def reading_of(*equations, dim=2, fields=("u",), probes=None, **options):
    statements = [stated(equation, f"equation {index}", fields) for index, equation in enumerate(equations)]
    return read(statements, fields, Site(PROBES[dim] if probes is None else probes), **options)


def functionals_of(reading, fields=("u",), coordinates=None):
    return [operator_text(o, fields, coordinates or COORDINATES[reading.dim]) for o in reading.operators]


# --- the operators of well-known equations -----------------------------------------------------------------------------


def momentum(u, v, p, x):
    return u(x) * partial(u, 0)(x) + v(x) * partial(u, 1)(x) + partial(p, 0)(x) - 0.1 * laplacian(u)(x)


def continuity(u, v, p, x):
    return partial(u, 0)(x) + partial(v, 1)(x)


FOUND = {
    "elliptic": (lambda u, x: -laplacian(u)(x) + u(x) ** 3, ["u", "Δu"]),
    "Burgers": (
        lambda u, x: partial(u, 0)(x) + u(x) * partial(u, 1)(x) - 0.02 * partial(u, 1, 1)(x),
        ["u", "u_x - 0.02 u_yy", "u_y"],
    ),
    "Eikonal": (lambda u, x: jnp.sum(gradient(u)(x) ** 2) - 1 - 0.1 * laplacian(u)(x), ["u_x", "u_y", "Δu"]),
    "Monge-Ampere": (lambda u, x: jnp.linalg.det(hessian(u)(x)) - 1, ["u_xx", "u_xy", "u_yy"]),
    "Darcy": (
        lambda u, x: divergence(lambda y: (1 + y[0] ** 2 * y[1]) * gradient(u)(y))(x),
        ["u_x", "u_y", "Δu"],
    ),
    "plate": (lambda u, x: biharmonic(u)(x) + u(x) * partial(u, 0)(x), ["u", "u_x", "u_xxxx + 2 u_xxyy + u_yyyy"]),
    "advection": (lambda u, x: directional(u, jnp.array([1.0, 2.0]))(x), ["u_x + 2 u_y"]),
    "advection that turns": (lambda u, x: directional(u, lambda y: y)(x), ["u_x", "u_y"]),
    "minimal surface": (
        lambda u, x: divergence(lambda y: gradient(u)(y) / jnp.sqrt(1 + jnp.sum(gradient(u)(y) ** 2)))(x),
        ["u_x", "u_y", "u_xx", "u_xy", "u_yy"],
    ),
    "by jax.grad": (lambda u, x: jax.grad(u)(x)[0] + jnp.trace(jax.hessian(u)(x)), ["Δu + u_x"]),
    "by jax.jvp": (lambda u, x: jax.jvp(u, (x,), (jnp.array([0.0, 1.0]),))[1] * u(x), ["u", "u_y"]),
    "a nonlinear function of the Laplacian": (lambda u, x: jnp.sinh(laplacian(u)(x)) - 1, ["Δu"]),
}


@functools.cache
def known(name):
    return reading_of(FOUND[name][0])


@pytest.mark.parametrize("name", FOUND)
def test_the_fewest_functionals_are_found(name):
    assert functionals_of(known(name)) == FOUND[name][1]


def test_every_derivative_can_be_kept_apart_as_in_the_papers_experiments():
    burgers, _ = FOUND["Burgers"]
    reading = reading_of(burgers, functionals="derivatives")
    assert functionals_of(reading) == ["u", "u_x", "u_y", "u_yy"]


def test_a_system_shares_its_functionals():
    fields = ("u", "v", "p")
    reading = reading_of(momentum, continuity, fields=fields)
    # The slope of the pressure and the friction occur in one combination only.
    assert functionals_of(reading, fields) == ["u", "v", "u_x", "u_y", "v_y", "-0.1 Δu + p_x"]
    assert reading.order == 2


def test_two_fields_that_exchange_derivatives():
    fields = ("u", "v")
    reading = reading_of(
        lambda u, v, x: partial(u, 0)(x) - v(x) ** 2,
        lambda u, v, x: partial(v, 0)(x) + u(x) * v(x),
        dim=1,
        fields=fields,
    )
    assert functionals_of(reading, fields) == ["u", "v", "u_x", "v_x"]
    assert reading.eliminated == (2, 3)


# --- random expressions ------------------------------------------------------------------------------------------------


class Monomial(NamedTuple):
    r"""$c(x) \prod_k \partial^{\alpha_k} u$, where $c(x)$ is a constant or varies along one coordinate."""

    constant: int
    varying: int | None
    factors: tuple[tuple[int, ...], ...]


def multi_indices(dim):
    return st.tuples(*[st.integers(0, 4)] * dim).filter(lambda alpha: sum(alpha) <= 4)


def monomials(dim):
    return st.builds(
        Monomial,
        constant=st.integers(1, 3) | st.integers(-3, -1),
        varying=st.none() | st.integers(0, dim - 1),
        factors=st.lists(multi_indices(dim), min_size=1, max_size=3).map(tuple),
    )


expressions = st.integers(1, 3).flatmap(
    lambda dim: st.tuples(st.just(dim), st.lists(monomials(dim), min_size=1, max_size=4, unique=True))
)


def coefficient(monomial, x):
    return monomial.constant * (1.0 if monomial.varying is None else jnp.cos(2 * x[monomial.varying]))


def axes_of(alpha):
    return [axis for axis, times in enumerate(alpha) for _ in range(times)]


class Waves:
    r"""$u(x) = \sum_k a_k \sin(w_k \cdot x + p_k)$, all of whose derivatives are known."""

    def __init__(self, dim, seed):
        rng = np.random.default_rng(seed)
        self.amplitudes, self.phases = rng.normal(size=3), rng.uniform(0, 2 * np.pi, 3)
        self.waves = rng.uniform(-1.5, 1.5, (3, dim))

    def derivative(self, alpha, x):
        """Each derivative turns the sine by a quarter and brings down one component of the wave vector."""
        turned = np.sin(self.waves @ x + self.phases + sum(alpha) * math.pi / 2)
        return self.amplitudes @ (np.prod(self.waves ** np.array(alpha), axis=1) * turned)

    def apply(self, operator, x):
        return sum(c * self.derivative(alpha, x) for _, terms in operator for alpha, c in terms)


@hypothesis.settings(max_examples=15)
@hypothesis.given(expression=expressions, seed=st.integers(0, 1000))
def test_the_reading_of_a_random_expression_reproduces_it_on_random_functions(expression, seed):
    dim, terms = expression

    def equation(u, x):
        total = 0.0
        for monomial in terms:
            product = coefficient(monomial, x)
            for alpha in monomial.factors:
                product = product * (partial(u, *axes_of(alpha)) if any(alpha) else u)(x)
            total = total + product
        return total

    merged = {}
    for monomial in terms:
        key = monomial.varying, tuple(sorted(monomial.factors))
        merged[key] = merged.get(key, 0) + monomial.constant
    hypothesis.assume(any(merged.values()))  # else all terms cancel and nothing of the unknown is left

    reading = reading_of(equation, dim=dim)
    assert len(reading.operators) <= len({alpha for monomial in terms for alpha in monomial.factors})
    waves = Waves(dim, seed)
    for x in np.random.default_rng(seed).uniform(0, 1, (3, dim)):
        products = [np.prod([waves.derivative(alpha, x) for alpha in monomial.factors]) for monomial in terms]
        direct = sum(float(coefficient(monomial, x)) * product for monomial, product in zip(terms, products, strict=True))
        values = jnp.array([waves.apply(operator, x) for operator in reading.operators])
        scale = 1 + sum(abs(monomial.constant * product) for monomial, product in zip(terms, products, strict=True))
        np.testing.assert_allclose(reading.residual(Site(jnp.asarray(x)), values), [direct], atol=1e-10 * scale)


# --- what probes might miss --------------------------------------------------------------------------------------------


def near_the_right_end(x):
    return jnp.maximum(x[0] - 0.99, 0.0)


HIDDEN = {
    "an operator": lambda u, x: near_the_right_end(x) * partial(u, 0, 0)(x) + u(x) - 1,
    "a nonlinearity": lambda u, x: partial(u, 0, 0)(x) + u(x) + near_the_right_end(x) * u(x) ** 2,
    "a coefficient that varies": lambda u, x: (1 + near_the_right_end(x)) * partial(u, 0, 0)(x) - 1,
}


@pytest.mark.parametrize("what", HIDDEN)
def test_what_vanishes_at_all_probes_is_noticed_at_other_points(what):
    probes = np.linspace(0.01, 0.9, 40)[:, None]
    everywhere = np.append(probes, [[0.995]], axis=0)
    reading = reading_of(HIDDEN[what], dim=1, probes=probes)
    assert reading.covers(Site(probes))
    assert not reading.covers(Site(everywhere))
    again = reading_of(HIDDEN[what], dim=1, probes=everywhere, num_probes=len(everywhere))
    assert again.covers(Site(everywhere))


def test_a_term_that_sleeps_below_a_threshold_is_found():
    reading = reading_of(lambda u, x: -laplacian(u)(x) + jnp.maximum(u(x) - 1000.0, 0.0))
    assert functionals_of(reading) == ["u", "Δu"]
    assert not reading.kinds[0].linear


def test_a_term_that_overflows_for_large_values_does_no_harm():
    reading = reading_of(lambda u, x: -laplacian(u)(x) + jnp.exp(u(x)))
    assert functionals_of(reading) == ["u", "Δu"]
    assert reading.kinds[0].affine_in == (1,)
    assert reading.eliminated == (1,)


def test_a_term_that_is_not_finite_for_half_of_all_values_does_no_harm():
    reading = reading_of(lambda u, x: laplacian(u)(x) + jnp.sqrt(u(x)))
    assert functionals_of(reading) == ["u", "Δu"]
    assert reading.eliminated == (1,)
    assert reading.covers(Site(PROBES[2]))


def test_a_derivative_that_cancels_is_not_a_functional():
    reading = reading_of(lambda u, x: partial(u, 0, 1)(x) - partial(u, 1, 0)(x) + u(x))
    assert functionals_of(reading) == ["u"]


SWITCHES = {
    "a jump of the coefficient": (lambda u, x: jnp.where(u(x) > 273.0, 2.0, 1.0) * laplacian(u)(x) + 1, ["u", "Δu"]),
    "a sign": (lambda u, x: -laplacian(u)(x) + jnp.sign(u(x)) * partial(u, 0)(x) - 1, ["u", "u_x", "Δu"]),
    "rounding": (lambda u, x: laplacian(u)(x) - jnp.round(u(x)), ["u", "Δu"]),
    "a stopped gradient": (lambda u, x: laplacian(u)(x) - jax.lax.stop_gradient(u(x)) ** 3, ["u", "Δu"]),
    "a switch on part of an operator": (
        lambda u, x: laplacian(u)(x) + jnp.where(partial(u, 0, 0)(x) > 0, 1.0, 0.0),
        ["u_xx", "u_yy"],
    ),
    "a condition with a threshold": (lambda u, x: partial(u, 0)(x) + jnp.where(u(x) > 1, 3.0, 0.0), ["u", "u_x"]),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_what_an_equation_depends_on_without_a_gradient_is_found(name):
    equation, expected = SWITCHES[name]
    reading = reading_of(equation)
    assert functionals_of(reading) == expected
    assert not reading.kinds[0].linear


def test_a_switch_on_what_an_equation_could_be_solved_for_keeps_it_from_being_solved():
    equation = lambda u, x: laplacian(u)(x) + jnp.where(laplacian(u)(x) > 0, 1.0, 0.0) + u(x)  # noqa: E731
    reading = reading_of(equation)
    assert reading.eliminated is None or functionals_of(reading)[reading.eliminated[0]] == "u"


@pytest.mark.parametrize("factor", [1e16, 1e24])
def test_a_term_that_only_small_values_show_is_found(factor):
    assert functionals_of(reading_of(lambda u, x: -laplacian(u)(x) + factor * u(x) ** 3)) == ["u", "Δu"]


# --- where an equation looks -------------------------------------------------------------------------------------------

ELSEWHERE = {
    "another point": lambda u, x: u(x) - u(-x),
    "another point within jit": lambda u, x: u(x) - jax.jit(lambda y: u(y[::-1]))(x),
    "a derivative at another point": lambda u, x: laplacian(u)(x) + partial(lambda y: u(2 * y), 0)(x),
    "several points at once": lambda u, x: u(x) + jnp.sum(jax.vmap(u)(jnp.stack([x, x + 0.1]))),
    "another point by a loop": lambda u, x: jax.lax.fori_loop(0, 2, lambda k, s: s + u((1.0 + k) * x), 0.0),
}
HERE = {
    "a copy of the point": lambda u, x: laplacian(u)(jnp.array([x[0], x[1]])) + u(x),
    "within jit": lambda u, x: jax.jit(lambda y: laplacian(u)(y) + u(y))(x),
    "the point several times": lambda u, x: laplacian(u)(x) + jnp.mean(jax.vmap(u)(jnp.stack([x, x]))),
    "a rule of the user's own": lambda u, x: laplacian(u)(x) + jax.nn.relu(u(x)) - jax.nn.relu(-u(x)),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_equation_that_looks_elsewhere_is_refused_however_it_is_written(name):
    with pytest.raises(ValueError, match="equation 0 looks at the unknown away from its own point"):
        reading_of(ELSEWHERE[name])


@pytest.mark.parametrize("name", HERE)
def test_an_equation_that_looks_here_alone_is_read_however_it_is_written(name):
    assert functionals_of(reading_of(HERE[name])) == ["Δu + u"]


# --- kinds -------------------------------------------------------------------------------------------------------------


def test_the_kind_of_an_equation_is_recognised():
    (dirichlet,) = reading_of(lambda u, x: (2 + x[0]) * u(x) - x[0]).kinds
    assert dirichlet.dirichlet
    assert dirichlet.linear
    assert dirichlet.affine_in == ()  # its coefficient is not constant
    (neumann,) = reading_of(lambda u, x: partial(u, 0)(x) - 1).kinds
    assert neumann.linear
    assert not neumann.dirichlet
    (robin,) = reading_of(lambda u, x: partial(u, 0)(x) + jnp.sin(x[1]) * u(x)).kinds
    assert robin.linear
    assert not robin.dirichlet
    (elliptic,) = known("elliptic").kinds
    assert not elliptic.linear
    assert elliptic.affine_in == (1,)
    (cubic,) = reading_of(lambda u, x: u(x) ** 3 - 1).kinds
    assert not cubic.linear
    assert not cubic.dirichlet


def test_an_equation_is_solved_for_its_highest_derivative():
    reading = reading_of(lambda u, x: -3 * laplacian(u)(x) + u(x) ** 3)
    assert reading.eliminated is not None
    assert functionals_of(reading)[reading.eliminated[0]] == "Δu"
    assert reading.elimination_matrix == ((-3.0,),)


@pytest.mark.parametrize("name", ["Eikonal", "Burgers", "plate"])
def test_an_equation_with_one_constant_coefficient_can_be_solved(name):
    assert known(name).eliminated is not None


@pytest.mark.parametrize("name", ["Monge-Ampere", "Darcy", "minimal surface"])
def test_an_equation_without_a_constant_coefficient_cannot_be_solved(name):
    assert known(name).eliminated is None


def test_a_system_is_solved_for_one_functional_per_equation():
    reading = reading_of(
        lambda u, v, x: laplacian(u)(x) + 2 * laplacian(v)(x) + u(x) * v(x),
        lambda u, v, x: laplacian(u)(x) - laplacian(v)(x) + jnp.sin(v(x)),
        fields=("u", "v"),
    )
    assert reading.eliminated is not None
    chosen = [functionals_of(reading, ("u", "v"))[k] for k in reading.eliminated]
    assert sorted(chosen) == ["Δu", "Δv"]


def test_two_equations_that_determine_only_one_functional_are_not_solved():
    reading = reading_of(
        lambda u, x: laplacian(u)(x) + u(x) ** 2,
        lambda u, x: 2 * laplacian(u)(x) + u(x) ** 3,
    )
    assert reading.eliminated is None
