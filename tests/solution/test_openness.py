"""Equations that leave the solution open carry a note, and those of textbooks that do not carry none."""

import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Box, Gaussian, Observations, Problem, SpaceTime, biharmonic, gradient, laplacian, partial
from gpde.collocation.collocation import collocate
from gpde.solution.checks.openness import open_questions
from gpde.solution.checks.residuals import exact_conditions

SQUARE, LINE, DURING = Box((0.0, 0.0), (1.0, 1.0)), Box(0.0, 1.0), SpaceTime((0.0, 1.0), 0.0, 1.0)


def value(u, x):
    return u(x)


def along(*axes):
    return lambda u, x: partial(u, *axes)(x)


def poisson(u, x):
    return -laplacian(u)(x) - 1.0


def plate(u, x):
    return biharmonic(u)(x) - 1.0


def heat(u, x):
    return partial(u, 0)(x) - partial(u, 1, 1)(x)


def wave(u, x):
    return partial(u, 0, 0)(x) - partial(u, 1, 1)(x)


def kdv(u, x):
    return partial(u, 0)(x) + 6 * u(x) * partial(u, 1)(x) + partial(u, 1, 1, 1)(x)


def burgers(u, x):
    return partial(u, 0)(x) + u(x) * partial(u, 1)(x) - 0.02 * partial(u, 1, 1)(x)


def momentum(axis):
    def equation(*arguments):
        *velocity, p, x = arguments
        transport = sum(velocity[a](x) * partial(velocity[axis], a)(x) for a in range(2))
        return transport - laplacian(velocity[axis])(x) + partial(p, axis)(x)

    return equation


FLOW = [momentum(0), momentum(1), lambda u, v, p, x: partial(u, 0)(x) + partial(v, 1)(x)]
DARCY = [
    lambda q, r, u, x: partial(q, 0)(x) + partial(r, 1)(x) - 1.0,
    lambda q, r, u, x: q(x) + partial(u, 0)(x),
    lambda q, r, u, x: r(x) + partial(u, 1)(x),
]


def notes(domain, equations, fields=("u",), kernel=None, **rest):
    problem = Problem(domain=domain, equations=equations, fields=fields, **rest)
    parts = collocate(problem, problem.sample(4, 4 * len(equations))).parts
    return open_questions(problem, exact_conditions(problem, parts, 0), (kernel or Gaussian(0.2),) * len(fields))


@pytest.mark.parametrize(
    ("domain", "equations", "fields"),
    [
        (SQUARE, {"interior": poisson, "boundary": value}, ("u",)),
        (SQUARE, {"interior": poisson, "boundary": value, "top": along(1)}, ("u",)),
        (SQUARE, {"interior": plate, "boundary": [value, lambda u, x: laplacian(u)(x)]}, ("u",)),
        (SQUARE, {"interior": lambda u, x: jnp.sum(gradient(u)(x) ** 2) - 1.0, "boundary": value}, ("u",)),
        (DURING, {"interior": heat, "initial": value, "boundary": value}, ("u",)),
        (DURING, {"interior": burgers, "initial": value, "boundary": value}, ("u",)),
        (DURING, {"interior": wave, "initial": [value, along(0)], "boundary": value}, ("u",)),
        (DURING, {"interior": kdv, "initial": value, "left": value, "right": [value, along(1)]}, ("u",)),
        (DURING, {"interior": lambda u, x: partial(u, 0)(x) + partial(u, 1)(x), "initial": value, "left": value}, ("u",)),
        (LINE, {"interior": lambda u, x: partial(u, 0)(x) - u(x), "left": value}, ("u",)),
        (SQUARE, {"interior": DARCY, "boundary": lambda q, r, u, x: u(x)}, ("q", "r", "u")),
    ],
)
def test_well_posed_problems_carry_no_note(domain, equations, fields):
    assert notes(domain, equations, fields) == []


def test_the_pressure_of_a_flow_is_open_by_a_constant_and_nothing_else():
    sides = [lambda u, v, p, x: u(x), lambda u, v, p, x: v(x)]
    (note,) = notes(SQUARE, {"interior": FLOW, "boundary": sides}, ("u", "v", "p"))
    assert "derivatives of p alone" in note
    assert "least norm" in note
    known = Observations(np.array([[0.5, 0.5]]), np.zeros(1), operator=lambda u, v, p: p)
    assert notes(SQUARE, {"interior": FLOW, "boundary": sides}, ("u", "v", "p"), observations=known) == []


@pytest.mark.parametrize(
    ("domain", "equations", "said"),
    [
        (SQUARE, {"interior": poisson}, "of order 2 in x, they come with no conditions for u on 'left' and 'right'"),
        (
            SQUARE,
            {"interior": poisson, "left": value, "right": value, "top": value},
            "of order 2 in y, they come with 1 condition",
        ),
        (SQUARE, {"interior": plate, "boundary": value}, "of order 4 in x, they come with 2 conditions"),
        (DURING, {"interior": heat, "boundary": value}, "of order 1 in t, they come with no conditions for u on 'initial'"),
        (DURING, {"interior": wave, "initial": value, "boundary": value}, "of order 2 in t, they come with 1 condition"),
        (DURING, {"interior": kdv, "initial": value, "boundary": value}, "of order 3 in x, they come with 2 conditions"),
        (SQUARE, {"interior": poisson, "left": along(0), "right": along(0), "bottom": along(1), "top": along(1)}, "a constant"),
    ],
)
def test_too_few_conditions_give_the_solution_of_least_norm_and_say_so(domain, equations, said):
    (note,) = notes(domain, equations)
    assert said in note
    assert "of least norm" in note


def test_a_field_without_conditions_is_open_however_many_another_one_has():
    equations = {
        "interior": [lambda u, v, x: laplacian(u)(x) - 1.0, lambda u, v, x: laplacian(v)(x) - 1.0],
        "boundary": [lambda u, v, x: u(x), lambda u, v, x: laplacian(u)(x)],
    }
    note = notes(SQUARE, equations, ("u", "v"))[0]
    assert "for v on 'left' and 'right'" in note
    assert "for u" not in note
    two_fields = {"interior": lambda u, v, x: laplacian(u)(x) - v(x), "boundary": lambda u, v, x: u(x)}
    assert "for u, v there is 1 equation in the interior" in notes(SQUARE, two_fields, ("u", "v"))[0]


def test_along_a_periodic_axis_no_conditions_are_asked_for():
    around = Gaussian(0.2, period={1: 1.0})
    assert notes(DURING, {"interior": heat, "initial": value}, kernel=around) == []
    assert notes(DURING, {"interior": heat, "initial": value}, kernel=around * around) == []
    assert len(notes(DURING, {"interior": heat, "initial": value}, kernel=around + Gaussian(0.2))) == 1


def test_data_alone_carry_no_note_and_beside_equations_the_note_names_them():
    data = Observations(np.array([[0.2, 0.3], [0.5, 0.5]]), np.array([1.0, 2.0]), noise=0.1)
    assert notes(SQUARE, {"boundary": value}, observations=data) == []
    (note,) = notes(SQUARE, {"interior": poisson}, observations=data)
    assert "that meet them and the data" in note


def test_a_period_longer_than_the_domain_leaves_the_ends_open():
    problem = Problem(domain=Box(0.0, 1.0), equations={"interior": lambda u, x: -laplacian(u)(x) + u(x) - jnp.sin(x[0])})
    open_ended, closed = (
        gpde.solve(problem, Gaussian(0.2, period={0: period}), num_interior=20).result for period in (1.3, 1.0)
    )
    assert "of least norm" in str(open_ended)
    assert "period, 1.3, is longer than the domain" in str(open_ended)
    assert "of least norm" not in str(closed)
