"""The problem language: which equations hold where, on which points, and what `describe` says of it."""

import numpy as np
import pytest

from gpde.domains import Box, SpaceTime
from gpde.operators import gradient, laplacian, partial
from gpde.problem.problem import Defaults, Observations, Problem

SQUARE = Box((0, 0), (1, 1))


def elliptic(u, x):
    return -laplacian(u)(x) + u(x) ** 3 - 1.0


def dirichlet(u, x):
    return u(x)


def flux(u, x):
    return partial(u, 0)(x)


@pytest.fixture(scope="module")
def mixed():
    """Its own condition on one side, Dirichlet on the others."""
    equations = {"interior": elliptic, "boundary": dirichlet, "right": flux}
    return Problem(SQUARE, equations, name="mixed", defaults=Defaults(num_interior=20, num_boundary=40))


def test_a_side_with_its_own_equation_leaves_the_boundary(mixed):
    points = mixed.sample()
    assert {part: len(p) for part, p in points.items()} == {"interior": 20, "boundary": 30, "right": 10}
    assert np.all(points["right"][:, 0] == 1)
    assert not np.any(points["boundary"][:, 0] == 1)


def test_the_description_says_what_was_understood(mixed):
    assert mixed.text().splitlines() == [
        "mixed: field u of (x, y) on Box((0, 0), (1, 1))",
        "  interior (20 points by default)",
        "    functionals: u, Δu",
        "    the equation on 'interior' (`elliptic`): nonlinear, affine in Δu",
        "    can be solved for: Δu",
        "  boundary = left + bottom + top (30 points by default)",
        "    functionals: u",
        "    the equation on 'boundary' (`dirichlet`): Dirichlet condition",
        "    can be solved for: u",
        "  right (10 points by default)",
        "    functionals: u_x",
        "    the equation on 'right' (`flux`): linear",
        "    can be solved for: u_x",
    ]


def test_describe_prints_the_text_with_the_points_at_hand(mixed, capsys):
    points = {"interior": np.full((3, 2), 0.5)}
    mixed.describe(points)
    printed = capsys.readouterr().out
    assert printed == mixed.text(points) + "\n"
    assert "interior (3 points)" in printed


def test_given_points_are_taken_as_they_are_and_the_rest_is_drawn(mixed):
    given = np.array([[0.25, 0.5], [0.75, 0.5]])
    points = mixed.sample(num_boundary=8, points={"interior": given})
    np.testing.assert_array_equal(points["interior"], given)
    assert len(points["boundary"]) == 6
    assert len(points["right"]) == 2


def test_the_same_seed_draws_the_same_points(mixed):
    first, second, other = mixed.sample(seed=4), mixed.sample(seed=4), mixed.sample(seed=5)
    for part, points in first.items():
        np.testing.assert_array_equal(points, second[part])
        assert not np.any(points == other[part]) or part != "interior"


def test_on_an_interval_points_may_be_a_plain_vector():
    problem = Problem(Box(0, 1), {"interior": elliptic, "boundary": dirichlet})
    points = problem.sample(num_boundary=2, points={"interior": np.array([0.2, 0.7])})
    assert points["interior"].shape == (2, 1)
    np.testing.assert_array_equal(np.sort(points["boundary"], axis=0), [[0.0], [1.0]])


def test_a_system_is_a_list_of_equations_of_several_fields():
    problem = Problem(
        SpaceTime(Box(0, 1), 0, 1),
        {
            "interior": [
                lambda u, v, x: partial(u, 0)(x) - v(x),
                lambda u, v, x: partial(v, 0)(x) - partial(u, 1, 1)(x),
            ],
            "initial": [lambda u, v, x: u(x) - x[1], lambda u, v, x: v(x)],
            "boundary": lambda u, v, x: u(x),
        },
        fields=("u", "v"),
    )
    text = problem.text()
    assert "fields u, v of (t, x)" in text
    assert "equation 1 on 'interior': linear" in text
    assert "equation 2 on 'initial': Dirichlet condition" in text
    assert len(problem.conditions[0].reading.equations) == 2


def test_observations_look_at_the_first_field_unless_told_otherwise():
    points = np.array([[0.2, 0.3], [0.5, 0.5]])
    problem = Problem(
        SQUARE,
        {"interior": elliptic},
        observations=[
            Observations(points, np.zeros(2), noise=0.1),
            Observations(points, np.ones(2), operator=laplacian, name="sources"),
        ],
    )
    plain, sources = problem.conditions[1:]
    assert (plain.part, sources.part) == ("data 1", "sources 2")
    assert "data: 2 values, noise 0.1 to 0.1" in problem.text()
    assert "functionals: Δu" in problem.text().split("sources 2")[1]
    assert plain.observations is not None
    np.testing.assert_array_equal(plain.observations.noise, [0.1, 0.1])


def test_data_alone_make_a_problem():
    data = Observations(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, 2.0]))
    problem = Problem(SQUARE, {}, observations=data)
    assert [c.part for c in problem.conditions] == ["data"]
    assert problem.sample() == {}


def test_an_operator_of_data_may_mix_the_fields():
    data = Observations(np.array([[0.1, 0.2]]), np.array([1.0]), operator=lambda u, v: lambda x: u(x) + gradient(v)(x)[1])
    problem = Problem(SQUARE, {}, fields=("u", "v"), observations=data)
    assert "functionals: u + v_y" in problem.text()


def test_observations_are_compared_by_identity():
    data = Observations(np.array([[0.5], [0.7]]), np.array([1.0, 2.0]))
    assert data != Observations(data.points, data.values)
    assert len({data, data}) == 1


def test_an_equation_on_a_more_special_part_wins_over_one_on_the_boundary_and_on_a_side():
    domain = Box((0, 0), (1, 1)).with_parts(inflow=lambda x: (x[0] < 1e-6) & (x[1] < 0.25))
    equations = {"interior": elliptic, "boundary": dirichlet, "left": flux, "inflow": dirichlet}
    stated = Problem(domain, equations)
    assert stated.atoms("boundary") == ("right", "bottom", "top")
    assert stated.atoms("left") == ("left - inflow",)
    points = stated.sample(10, 64)
    assert points["left"][:, 1].min() > 0.25 > points["inflow"][:, 1].max()
    assert "boundary = right + bottom + top" in stated.text()
    assert "left = left - inflow" in stated.text()
    # Without an equation of its own a piece stays with what it is a piece of.
    assert Problem(domain, {"left": flux}).atoms("left") == ("left & inflow", "left - inflow")
