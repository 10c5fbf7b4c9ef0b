"""Domains in two regions with an interface."""

import numpy as np
import pytest

import gpde
from gpde import Ball, Box, Divided, SpaceTime

SQUARE = Box((-1, -1), (1, 1))
DISK = Divided(SQUARE, Ball((0, 0), 0.5), ("core", "shell"))
HALVES = Divided(SQUARE, Box((-2, -2), (0, 2)))


def test_a_disk_in_a_square_has_a_core_a_shell_and_an_interface():
    assert DISK.parts == (
        *("interior", "core", "shell", "boundary", "left", "right", "bottom", "top"),
        *("boundary & shell", "interface"),
    )
    assert DISK.covers("interior") == ("core", "shell")
    assert DISK.measure("core") == pytest.approx(np.pi / 4, rel=3e-3)
    assert DISK.measure("interior") == pytest.approx(4.0)
    assert DISK.measure("interface") == pytest.approx(np.pi)


def test_points_of_its_parts_lie_there_and_nowhere_else():
    radius = {part: np.linalg.norm(DISK.sample(part, 200, seed=1), axis=1) for part in ("core", "shell", "interface")}
    assert radius["core"].max() < 0.5 < radius["shell"].min()
    assert np.allclose(radius["interface"], 0.5)
    for part in ("core", "shell", "interface", "boundary"):
        points = DISK.sample(part, 50, seed=2)
        on = {other for other in ("core", "shell", "interface", "boundary") if DISK.on_part(other, points).any()}
        assert on == {part}


def test_normals_of_an_interface_point_from_the_first_region_to_the_second():
    points = DISK.sample("interface", 20)
    assert np.allclose(DISK.normal("interface", points), points / 0.5)
    points = HALVES.sample("interface", 20)
    assert np.allclose(points[:, 0], 0)
    assert np.allclose(HALVES.normal("interface", points), [[1, 0]])


def test_sides_that_the_interface_meets_fall_in_two():
    assert HALVES.covers("top") == ("top & inside", "top & outside")
    assert HALVES.covers("left") == ("left",)
    assert HALVES.covers("boundary & inside") == ("left", "bottom & inside", "top & inside")
    assert (HALVES.sample("top & inside", 40)[:, 0] < 0).all()
    assert HALVES.measure("top & outside") == pytest.approx(1.0, abs=1e-3)


def test_both_regions_are_closed_where_fields_live():
    points = np.array([[0.5, 0.0], [0.2, 0.0], [0.8, 0.0]])
    assert DISK.in_closure("core", points).tolist() == [True, True, False]
    assert DISK.in_closure("shell", points).tolist() == [True, False, True]


def test_regions_may_be_divided_in_time():
    rod = Divided(SpaceTime((0, 1), 0, 2), SpaceTime((0, 0.4), 0, 2))
    points = rod.sample("interface", 30)
    assert np.allclose(points[:, 1], 0.4)
    assert rod.measure("interface") == pytest.approx(2.0, rel=1e-2)
    assert rod.covers("initial") == ("initial & inside", "initial & outside")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Divided(SQUARE, Ball((5, 5), 1)), r"does not divide .*: one of the two regions is empty"),
        (lambda: Divided(SQUARE, Box(0, 1)), r"`domain` has 2 coordinates and `region` 1; give two of a kind"),
        (lambda: Divided(SQUARE, DISK), r"`region` is a domain in one piece; got Divided"),
        (lambda: Divided(SQUARE, Ball((0, 0), 0.5), ("left", "rest")), r"`names` are two new names of parts"),
        (lambda: SpaceTime(DISK, 0, 1), r"`space` is in one piece; divide space and time together"),
        (lambda: DISK - Ball((0, 0), 0.1), r"operands are domains in one piece; write `Divided\(a - b, region\)`"),
        (lambda: DISK.normal("core", [(0, 0)]), r"'core' has no normal"),
    ],
)
def test_what_does_not_divide_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_divided_domain_keeps_its_arguments():
    again = gpde.Divided(**(DISK.arguments() or {}))
    assert again.parts == DISK.parts


def test_where_region_and_domain_end_together_nothing_lies_outside():
    rods = Divided(Box(0.0, 1.0), Box(0.0, 0.4))
    points = np.array([[0.0], [0.2], [0.4], [0.7], [1.0]])
    assert rods.in_closure("inside", points).tolist() == [True, True, True, False, False]
    assert rods.in_closure("outside", points).tolist() == [False, False, True, True, True]
