"""Errors and pictures of domains that are no boxes: nothing outside them is counted, drawn or evaluated unasked."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde.domains import AbstractDomain, Ball, Box, SpaceTime
from gpde.kernels import Gaussian
from gpde.operators import laplacian
from gpde.paper.panels import Map
from gpde.solution.errors import Predictions, error_points, errors
from gpde.solution.report import report

DISK = Ball((0.0, 0.0), 0.7)
UserDomain: Any = AbstractDomain  # whose members a user gives as plain attributes


class HalfDisk(UserDomain):
    r"""$x^2 + y^2 \le r^2$ with $y \ge 0$."""

    coordinates = ("x", "y")
    atoms = ("interior", "arc", "diameter")
    unions = {"boundary": ("arc", "diameter")}  # noqa: RUF012 - as a user writes it

    lower = property(lambda self: np.array([-self.radius, 0.0]))
    upper = property(lambda self: np.array([self.radius, self.radius]))

    def __init__(self, radius: float):
        self.radius = radius

    def atom_extent(self, atom):
        around = math.pi * self.radius
        return {"arc": np.array([around]), "diameter": np.array([2 * self.radius])}.get(atom, np.array([self.radius, around]))

    def atom_measure(self, atom):
        return {"arc": math.pi, "diameter": 2.0}.get(atom, math.pi / 2 * self.radius) * self.radius

    def place(self, atom, unit):
        if atom == "diameter":
            return np.stack([self.radius * (2 * unit[:, 0] - 1), 0 * unit[:, 0]], axis=1)
        r = self.radius * (1.0 if atom == "arc" else np.sqrt(unit[:, 0]))
        return np.stack([r * np.cos(math.pi * unit[:, -1]), r * np.sin(math.pi * unit[:, -1])], axis=1)

    def contains(self, points, tolerance=1e-9):
        checked, slack = self.check_points(points, "contains"), tolerance * self.radius
        return (np.linalg.norm(checked, axis=1) <= self.radius + slack) & (checked[:, 1] >= -slack)

    def on_atom(self, atom, points, tolerance):
        gap, slack = self.radius - np.linalg.norm(points, axis=1), tolerance * self.radius
        inside = self.contains(points, tolerance)
        if atom == "interior":
            return (gap > slack) & (points[:, 1] > slack)
        return inside & (abs(gap if atom == "arc" else points[:, 1]) <= slack)

    def atom_normal(self, atom, points):
        return points / self.radius if atom == "arc" else np.tile([0.0, -1.0], (len(points), 1))


def exact(x):
    return jnp.sin(2.0 * x[0]) * jnp.cos(3.0 * x[1])


def poisson(domain):
    equations = {
        "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
        "boundary": lambda u, x: u(x) - exact(x),
    }
    return gpde.Problem(domain, equations, reference=exact, name="in part of a box")


@pytest.fixture(scope="module")
def solution():
    problem = poisson(HalfDisk(1.0))
    return gpde.solve(problem, Gaussian(0.7), num_interior=150, num_boundary=80, nugget=1e-13, sampling="sobol")


def polar_points():
    """Points of the half-disk from its formula, on its edge too."""
    r, angle = np.meshgrid(np.linspace(0.0, 1.0, 40), np.linspace(0.0, math.pi, 60))
    return np.stack([(r * np.cos(angle)).ravel(), (r * np.sin(angle)).ravel()], axis=1)


def error_at(solution, points, **options):
    return np.abs(solution(points, **options) - jax.jit(jax.vmap(exact))(points))


def test_the_reported_error_is_that_inside_the_domain(solution):
    inside = error_at(solution, polar_points()).max()
    around = error_at(solution, solution.domain.grid((60, 60)), extrapolate=True).max()
    assert around > 30 * inside  # the corners of the box hold no condition
    assert report(solution)["errors"]["linf"] == pytest.approx(inside, rel=1.0)


def test_a_picture_shows_and_counts_only_what_lies_inside_up_to_its_edge(solution):
    figure = solution.plot(grid=(41, 41))
    for axes in figure.axes[:3]:
        triangles = np.array([path.vertices[:3] for path in axes.collections[0].get_paths()])
        assert solution.domain.contains(triangles.reshape(-1, 2)).all()
        areas = np.abs(np.linalg.det(triangles[:, 1:] - triangles[:, :1])) / 2
        assert areas.sum() == pytest.approx(math.pi / 2, rel=1e-3)  # squares of the grid would leave 3 % out
    x, y = np.meshgrid(np.linspace(-1, 1, 41), np.linspace(0, 1, 41), indexing="ij")
    points = np.stack([x, y], axis=-1)[x**2 + y**2 <= 1 + 1e-9]
    assert f"{error_at(solution, points).max():.1e}" in figure.axes[2].get_title(loc="left")


def test_the_test_points_of_a_domain_are_those_of_its_grid_that_lie_in_it():
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-0.7, 0.7, 9)], indexing="ij"), axis=-1).reshape(-1, 2)
    inside = grid[np.hypot(grid[:, 0], grid[:, 1]) <= 0.7 * (1 + 1e-9)]
    np.testing.assert_allclose(DISK.test_points((9, 9)), inside)
    assert len(inside) < 81
    # Around a disk for a while, at each of three times.
    assert len(SpaceTime(DISK, 0.0, 1.0).test_points((3, 9, 9))) == 3 * len(inside)
    np.testing.assert_array_equal(Box((0, 0), (1, 2)).test_points((3, 4)), Box((0, 0), (1, 2)).grid((3, 4)))
    assert error_points(poisson(DISK)).shape[1] == 2


def test_a_domain_between_the_points_of_a_grid_is_tested_at_points_of_its_own():
    points = DISK.test_points((2, 2))  # the four corners
    assert len(points) == 4
    assert DISK.contains(points).all()


def test_contours_of_the_experiments_stop_at_the_edge_of_the_domain():
    # Three quarters of a disk would be filled up by the triangles between its points.
    class Crescent(HalfDisk):
        def contains(self, points, tolerance=1e-9):
            return super().contains(points, tolerance) & (np.linalg.norm(points, axis=1) >= 0.5)

    domain = Crescent(1.0)
    points = domain.test_points((30, 15))
    plane = Map(domain, points)
    corners = points[plane.triangles.get_masked_triangles()]
    assert np.linalg.norm(corners.mean(axis=1), axis=1).min() > 0.5


# --- points outside


OUTSIDE = np.array([[0.1, 0.5], [0.9, 0.9], [0.0, -0.2]])


@pytest.mark.parametrize("call", ["__call__", "std", "residual", "apply"])
def test_points_outside_the_domain_are_refused_unless_they_are_meant(solution, call):
    method = getattr(solution, call)
    arguments = (laplacian, OUTSIDE) if call == "apply" else (OUTSIDE,)
    with pytest.raises(ValueError, match=r"2 of 3 lie outside .*HalfDisk.*row 1, \[0.9 0.9\].*`extrapolate=True`"):
        method(*arguments)
    assert method(*arguments, extrapolate=True).shape == (3,)


def test_points_on_the_edge_are_inside_up_to_rounding(solution):
    angle = np.linspace(0, math.pi, 50)
    assert error_at(solution, np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 + 1e-10)).max() < 1e-3


def test_a_periodic_coordinate_has_no_outside():
    # u'' = -sin x on a circle, with u(0) = 0.
    equations = {"interior": lambda u, x: laplacian(u)(x) + jnp.sin(x[0]), "left": lambda u, x: u(x)}
    period = 2 * math.pi
    problem = gpde.Problem(Box(0.0, period), equations)
    solution = gpde.solve(problem, Gaussian(1.0, period={0: period}), num_interior=20, num_boundary=1, sampling="grid")
    x = np.array([[-1.0], [1.0], [20.0]])
    np.testing.assert_allclose(solution(x), np.sin(x[:, 0]), atol=1e-4)
    assert not solution.outside(x).any()
    line = gpde.solve(problem, Gaussian(1.0), num_interior=20, num_boundary=1, sampling="grid")
    assert line.outside(x).tolist() == [True, False, True]
    mixed = gpde.solve(problem, Gaussian(1.0, period={0: period}) + Gaussian(1.0), num_interior=20, num_boundary=1)
    assert mixed.outside(x).tolist() == [True, False, True]


def test_values_and_truth_are_computed_once_however_they_are_asked_for():
    asked = []

    class Counted:
        problem = gpde.Problem(
            domain=Box(0.0, 1.0), equations={"interior": lambda u, x: u(x) - x[0] ** 2}, reference=lambda x: x[0] ** 2
        )

        def __call__(self, points):
            asked.append(len(points))
            return points[:, 0] ** 2 + 0.1 * points[:, 0]

    solution: Any = Counted()
    predictions = Predictions(solution)
    grid, points = np.linspace(0, 1, 5)[:, None], np.array([[0.3], [0.5]])
    predictions.together(grid, points)
    assert asked == [7]
    np.testing.assert_allclose(predictions.values(points), points**2 + 0.1 * points, rtol=1e-15)
    truth: Any = predictions.truth(points.copy())
    np.testing.assert_allclose(truth, points**2, rtol=1e-15)
    assert errors(predictions, grid)["linf"] == pytest.approx(0.1)
    assert asked == [7]
    predictions.values(points[:1])
    assert asked == [7, 1]
