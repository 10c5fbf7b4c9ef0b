"""Coordinates that close to a circle: stated by the domain, known to everyone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import gpde
from gpde.domains import Ball, Box, SpaceTime
from gpde.kernels import Gaussian, Matern, Offset
from gpde.operators import partial

STRIP = Box((0, -1), (2, 1), periodic=("x",))


def test_a_periodic_coordinate_has_no_sides_and_no_outside():
    assert STRIP.parts == ("interior", "boundary", "bottom", "top")
    np.testing.assert_array_equal(STRIP.periods, [2, np.inf])
    points = np.array([[7.3, 0.0], [-4.0, 1.0], [0.5, 1.1], [0.0, 0.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(STRIP.contains(points), [True, True, False, True, False])
    np.testing.assert_array_equal(STRIP.on_part("interior", points), [True, False, False, True, False])
    np.testing.assert_array_equal(STRIP.on_part("top", points), [False, True, False, False, False])
    assert Box(0, 1, periodic=0).parts == ("interior",)
    assert SpaceTime(STRIP, 0, 1).parts == ("interior", "boundary", "initial", "bottom", "top", "final")
    np.testing.assert_array_equal(SpaceTime(STRIP, 0, 1).periods, [np.inf, 2, np.inf])


def test_points_inside_are_drawn_as_in_the_box_that_is_not_closed():
    np.testing.assert_array_equal(STRIP.sample("interior", 30, seed=2), Box((0, -1), (2, 1)).sample("interior", 30, seed=2))


def test_test_points_have_each_place_of_a_circle_once():
    np.testing.assert_allclose(np.unique(STRIP.test_points((4, 3))[:, 0]), [0, 0.5, 1, 1.5])
    np.testing.assert_allclose(np.unique(STRIP.grid((5, 3))[:, 0]), [0, 0.5, 1, 1.5, 2])


def test_a_hole_in_a_strip_leaves_it_periodic():
    holed = (STRIP - Ball((1, 0), 0.5)).with_parts(rim=lambda x: jnp.abs(x[1]) < 0.6)
    np.testing.assert_array_equal(holed.periods, [2, np.inf])
    assert holed.covers("rim") == ("circle",)
    assert holed.measure("interior") == pytest.approx(4 - np.pi / 4, rel=0.01)


def test_a_strip_taken_away_around_the_circle_has_no_ends():
    left = STRIP - Box((0, -0.5), (2, 0.25))
    assert left.parts == ("interior", "boundary", "bottom", "top", "bottom2", "top2")
    assert left.measure("interior") == pytest.approx(4 - 2 * 0.75, rel=1e-3)
    assert left.measure("boundary") == pytest.approx(4 * 2)
    seam = np.array([[0, 0.1], [2, 0.1], [-4, 0.1], [1e-12, 0.1], [0, 0.25], [2, 0.5]])
    np.testing.assert_array_equal(left.contains(seam), [False, False, False, False, True, True])
    np.testing.assert_array_equal(left.on_part("interior", seam), [False, False, False, False, False, True])


def test_a_hole_that_touches_the_seam_is_seen_from_both_sides_of_it():
    left = STRIP - Box((0, -0.5), (0.5, 0.5))
    assert left.measure("interior") == pytest.approx(4 - 0.5, rel=1e-3)
    assert left.measure("boundary") == pytest.approx(2 * 2 + 2 * 0.5 + 2 * 1)
    seam = np.array([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.3], [2 - 1e-12, 0.0]])
    assert left.on_part("left", seam).all()
    assert not left.on_part("interior", seam).any()
    np.testing.assert_array_equal(left.normal("left", seam), np.tile([1.0, 0.0], (4, 1)))  # out of the domain, into the hole
    np.testing.assert_array_equal(left.contains([[1.9, 0.0], [-0.1, 0.0], [2.1, 0.0]]), [True, True, False])


def test_a_hole_is_the_same_in_every_period():
    holed = Box((-1, -1), (1, 1), periodic=("x", "y")) - Ball((0, 0), 0.5) - Ball((0.75, 0.75), 0.25)
    assert holed.parts == ("interior", "boundary", "circle", "circle2")
    assert holed.measure("interior") == pytest.approx(4 - np.pi * (0.25 + 0.0625), rel=1e-3)
    assert holed.measure("boundary") == pytest.approx(2 * np.pi * 0.75)
    rim, places = holed.sample("circle2", 20), np.random.default_rng(0).uniform(-1, 1, (500, 2))
    away = np.array([[-4.0, 6.0]])
    assert holed.on_part("circle2", rim + away).all()
    np.testing.assert_allclose(holed.normal("circle2", rim + away), (0.75 - rim) / 0.25, atol=1e-12)
    inside = np.linalg.norm(places, axis=1) > 0.5
    inside &= np.linalg.norm(places - 0.75, axis=1) > 0.25
    np.testing.assert_array_equal(holed.contains(places), inside)
    np.testing.assert_array_equal(holed.contains(places + away), inside)


def test_a_box_that_is_shifted_takes_the_hole_that_would_cross_its_seam():
    shifted = Box((-1, -1), (1, 1), periodic=("x",)) - Ball((0, 0), 0.5)
    np.testing.assert_array_equal(shifted.contains([[-0.1, 0], [1.9, 0], [0.1, 0], [2.1, 0], [1.4, 0]]), [False] * 4 + [True])
    with pytest.raises(ValueError, match=r"Shift the box, as `Box\(\(-1, -1\), \(1, 1\), periodic=\('x',\)\)`"):
        _ = STRIP - Ball((0, 0), 0.5)


@pytest.mark.parametrize("domain", [STRIP, STRIP - Ball((1, 0), 0.5), SpaceTime(Box(0, 1, periodic="x"), 0, 1)])
def test_poisson_disks_are_as_far_apart_across_the_seam_as_inside(domain):
    points = domain.sample("interior", 300, sampling="poisson")
    shares = (points - domain.lower) / domain.units
    around = KDTree(shares, boxsize=np.where(np.isfinite(domain.periods), domain.extent / domain.units, 0.0))
    nearest, within = around.query(shares, k=2)[0][:, 1], KDTree(shares).query(shares, k=2)[0][:, 1]
    across = nearest[nearest < within]  # those whose nearest is beyond the seam
    assert len(across) > 5
    assert across.min() > 0.95 * nearest[nearest == within].min()


def test_a_domain_with_circles_is_made_again_from_its_arguments():
    again = Box(**(STRIP.arguments() or {}))
    assert repr(again) == repr(STRIP) == "Box((0, -1), (2, 1), periodic=('x',))"


def test_a_kernel_without_a_period_gets_that_of_the_domain_and_one_with_keeps_its_own():
    periods = np.array([2.0, np.inf])
    kernel = Gaussian(0.3) * Matern(2.5, 0.5) + Offset(2.0)
    np.testing.assert_array_equal(kernel.with_periods(periods).periods(2), periods)
    np.testing.assert_array_equal(Gaussian(0.3, period={0: 1.0}).with_periods(periods).periods(2), [1.0, np.inf])
    x, y = jnp.array([0.1, 0.2]), jnp.array([1.9, 0.3])
    by_hand = Gaussian(0.3, period={0: 2.0}) * Matern(2.5, 0.5, period={0: 2.0}) + Offset(2.0)
    assert kernel.with_periods(periods)(x, y) == by_hand(x, y)


def test_a_period_stated_by_the_domain_is_that_stated_by_the_kernel():
    def exact(x):
        return jnp.sin(2 * jnp.pi * (x[1] - x[0]))

    def solved(domain, kernel, **changes):
        equations = {
            "interior": lambda u, x: partial(u, 0)(x) + partial(u, 1)(x),
            "initial": lambda u, x: u(x) - exact(x),
        }
        problem = gpde.Problem(SpaceTime(domain, 0, 1), equations, reference=exact)
        return gpde.solve(problem, kernel, num_interior=120, num_boundary=24, nugget=1e-11, **changes)

    by_domain = solved(Box(0, 1, periodic="x"), Gaussian(0.35))
    by_kernel = solved(Box(0, 1), Gaussian(0.35, period={1: 1.0}))
    points = by_domain.domain.test_points((20, 20))
    np.testing.assert_array_equal(by_domain(points), by_kernel(points))
    np.testing.assert_allclose(by_domain(points), jax.jit(jax.vmap(exact))(points), atol=5e-3)
    np.testing.assert_allclose(by_domain(points + np.array([[0.0, 3.0]])), by_domain(points), atol=1e-9)
    assert not any("leave the solution open" in note for note in by_domain.result.notes)
