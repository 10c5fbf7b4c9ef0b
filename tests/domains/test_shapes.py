"""Domains that are no boxes: measures by their formulas, normals by stepping, names, sampling, set operations, parts."""

import math
from typing import Any

import jax.numpy as jnp
import meshio
import numpy as np
import pytest
from scipy.spatial import KDTree

from gpde.domains import (
    SAMPLINGS,
    Ball,
    Box,
    Ellipsoid,
    Mesh,
    PointCloud,
    Polygon,
    SignedDistance,
    SpaceTime,
)

ELL = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])
HOLED = Polygon([(0, 0), (0, 3), (3, 3), (3, 0)], holes=[[(1, 1), (2, 1), (2, 2)]])  # clockwise outside, against it inside


def ellipse(x):
    return x[0] ** 2 + 4 * x[1] ** 2 - 1


def square_mesh(num):
    """The unit square in 2 num² triangles; its lower side has the tag 3."""
    x, y = np.meshgrid(np.linspace(0, 1, num + 1), np.linspace(0, 1, num + 1))
    corner = (np.arange(num)[:, None] * (num + 1) + np.arange(num)).ravel()
    triangles = np.concatenate([corner[:, None] + [0, 1, num + 2], corner[:, None] + [0, num + 2, num + 1]])
    lines = np.stack([np.arange(num), np.arange(1, num + 1)], axis=1)
    tags = [np.full(num, 3), np.full(len(triangles), 1)]
    data: Any = {"gmsh:physical": tags, "gmsh:geometrical": tags}
    points = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1)
    return meshio.Mesh(points, [("line", lines), ("triangle", triangles)], cell_data=data)


def two_tetrahedra():
    nodes = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    cells = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    facets = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 4], [1, 3, 4], [2, 3, 4]]
    return Mesh((nodes, cells, {"skin": np.array(facets)}))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    path = tmp_path_factory.mktemp("mesh") / "square.msh"
    square_mesh(7).write(path, file_format="gmsh22", binary=False)
    return Mesh(path, names={"floor": 3})


def cloud():
    ball = Ball((0, 0), 1)
    rim = ball.sample("boundary", 60, sampling="grid")
    return PointCloud(ball.sample("interior", 200, sampling="poisson"), rim, rim)


SHAPES = {
    "interval": Ball(1, 2),
    "disk": Ball((0.5, 0.5), 0.25),
    "ball": Ball((0, 0, 0), 2),
    "six": Ball((0,) * 6, 1.5),
    "ellipse": Ellipsoid((1, 0), (1, 0.5)),
    "ellipsoid": Ellipsoid((0, 0, 0), (1, 1, 2)),
    "ell": ELL,
    "holed": HOLED,
    "implicit": SignedDistance(ellipse, (-1.1, -0.7), (1.1, 0.7)),
    "tetrahedra": two_tetrahedra(),
    "difference": ELL - Ball((0.5, 0.5), 0.25),
    "union": Box((0, 0), (1, 1)) | Ball((1, 1), 0.5),
    "intersection": Ball((0, 0), 1) & Ball((1, 0), 1),
    "parts": Box((0, 0), (1, 1)).with_parts(inflow=lambda x: (x[0] < 0.5) & (x[1] < 0.25)),
    "in time": SpaceTime(ELL - Ball((0.5, 0.5), 0.25), 0, 2),
    "cylinder": SpaceTime(Ball((0, 0), 1), 0, 1).with_parts(early=lambda x: x[0] < 0.3),
}
every_shape = pytest.mark.parametrize("domain", SHAPES.values(), ids=SHAPES)


@every_shape
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_points_are_as_many_as_asked_lie_on_their_part_and_are_distinct(domain, sampling):
    for part in domain.parts:
        points = domain.sample(part, 21, sampling=sampling, seed=4)
        single = [atom for atom in domain.covers(part) if domain.atom_dim(atom) == 0]
        assert len(np.unique(points, axis=0)) == (len(single) or 21)
        assert domain.contains(points).all()
        assert domain.on_part(part, points).all()
        if "interior" not in domain.covers(part):
            assert not domain.on_part("interior", points).any() or part == "final"


@every_shape
def test_stepping_along_the_normal_leaves_the_domain(domain):
    for part in domain.parts[1:]:
        points = domain.sample(part, 12)
        normals = domain.normal(part, points)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
        assert not domain.contains(points + 2e-5 * normals).any()
        assert domain.contains(points - 2e-5 * normals).all()


def test_a_mesh_is_what_its_cells_fill(mesh):
    assert set(mesh.parts) == {"interior", "boundary", "floor", "untagged"}
    assert [mesh.measure(part) for part in ("interior", "floor", "untagged")] == pytest.approx([1, 1, 3])
    points = np.random.default_rng(0).uniform(-0.5, 1.5, (500, 2))
    np.testing.assert_array_equal(mesh.contains(points), Box((0, 0), (1, 1)).contains(points))
    assert np.all(mesh.sample("floor", 20)[:, 1] == 0)
    np.testing.assert_allclose(mesh.normal("floor", mesh.sample("floor", 5)), np.tile([0.0, -1.0], (5, 1)))
    test_points_are_as_many_as_asked_lie_on_their_part_and_are_distinct(mesh, "poisson")
    test_stepping_along_the_normal_leaves_the_domain(mesh)
    again = type(mesh)(**mesh.arguments())  # whole, without the file
    np.testing.assert_array_equal(again.sample("boundary", 9), mesh.sample("boundary", 9))


def test_two_tetrahedra_fill_a_half_and_their_skin_is_six_triangles():
    both = two_tetrahedra()
    assert both.measure("interior") == pytest.approx(1 / 6 + 1 / 3)
    # Three right triangles of legs 1 and three equilateral ones of side sqrt 2.
    assert both.measure("boundary") == pytest.approx(3 * 0.5 + 3 * math.sqrt(3) / 2)


@pytest.mark.parametrize(
    ("domain", "part", "expected"),
    [
        (Ball((0, 0, 0), 2), "interior", 32 * math.pi / 3),
        (Ball((0, 0, 0), 2), "boundary", 16 * math.pi),
        (Ball((0,) * 6, 1.5), "boundary", math.pi**3 * 1.5**5),
        (Ellipsoid((0, 0), (2, 1)), "interior", 2 * math.pi),
        (Ellipsoid((0, 0), (2, 1)), "boundary", 9.688448220547675),
        # 2 π a² (1 + c/(a e) asin e) of a prolate spheroid.
        (Ellipsoid((0, 0, 0), (1, 1, 2)), "boundary", 21.47843532788374),
        (ELL, "interior", 3.0),
        (ELL, "side2", 1.0),
        (HOLED, "interior", 8.5),
        (HOLED, "hole0", 2 + math.sqrt(2)),
        (HOLED, "outer", 12.0),
    ],
)
def test_measures_are_those_of_the_formula(domain, part, expected):
    assert domain.measure(part) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("domain", "part", "expected"),
    [
        (SHAPES["implicit"], "interior", math.pi / 2),
        (SHAPES["implicit"], "boundary", 4.844224110273838),
        (SHAPES["difference"], "interior", 3 - math.pi / 16),
        (SHAPES["difference"], "boundary", 8 + math.pi / 2),
        (SHAPES["union"], "boundary", 4 - 2 * 0.5 + 0.75 * math.pi),
        # A lens: two caps of a third of a circle.
        (SHAPES["intersection"], "boundary", 4 * math.pi / 3),
        (SHAPES["intersection"], "interior", 2 * math.pi / 3 - math.sqrt(3) / 2),
        (SHAPES["parts"], "inflow", 0.75),
        (SHAPES["cylinder"], "early", 0.6 * math.pi),
    ],
)
def test_measures_without_a_formula_are_good_to_a_percent(domain, part, expected):
    assert domain.measure(part) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ["ellipse", "implicit", "holed", "difference", "ellipsoid", "six"])
def test_uniform_points_have_the_moments_of_the_part(name):
    """The mean of x² over the interior, and over the boundary, by quadrature of the formula."""
    expected = {
        "ellipse": (1 + 0.25, None),
        "implicit": (0.25, None),
        "holed": (_polygon_moment(), None),
        "difference": ((8 / 3 + 1 / 3 - math.pi / 16 * (0.25 + 1 / 64)) / (3 - math.pi / 16), None),
        "ellipsoid": (0.2, None),
        "six": (1.5**2 / 8, 1.5**2 / 6),
    }[name]
    angle = np.linspace(0, 2 * math.pi, 4001)[:-1]
    around = {"ellipse": (1 + np.cos(angle)) ** 2, "implicit": np.cos(angle) ** 2}
    if name in around:
        speed = np.hypot(np.sin(angle), 0.5 * np.cos(angle))
        expected = (expected[0], np.sum(around[name] * speed) / np.sum(speed))
    domain = SHAPES[name]
    for part, moment in zip(("interior", "boundary"), expected, strict=True):
        if moment is not None:
            x = domain.sample(part, 8000, seed=2)[:, 0]
            assert np.mean(x**2) == pytest.approx(moment, abs=float(4 * np.std(x**2) / math.sqrt(8000)))


def _polygon_moment():
    # ∫x² over the square of side 3 less that over the triangle (1,1), (2,1), (2,2): 27 - 17/12.
    return (27 - 17 / 12) / 8.5


def test_poisson_disks_keep_points_apart():
    domain = SHAPES["difference"]
    for part in ("interior", "boundary"):
        nearest = {}
        for sampling in ("uniform", "poisson"):
            points = domain.sample(part, 300, sampling=sampling)
            nearest[sampling] = KDTree(points).query(points, k=2)[0][:, 1].min()
        assert nearest["poisson"] > 20 * nearest["uniform"]
    # Two fifths of the diameter of the densest packing.
    points = domain.sample("interior", 300, sampling="poisson")
    assert KDTree(points).query(points, k=2)[0][:, 1].min() > 0.4 * math.sqrt(2.8 / 300 * 2 / math.sqrt(3))


def test_a_grid_in_a_disk_is_a_square_grid_of_nearly_all_the_points_asked_for():
    x = np.unique(np.round(Ball((0, 0), 1).sample("interior", 314, sampling="grid")[:, 0], 12))
    np.testing.assert_allclose(np.diff(x), np.diff(x)[0])
    assert 19 <= len(x) <= 22


def test_the_same_seed_gives_the_same_points():
    for domain in (SHAPES["difference"], SHAPES["implicit"], SHAPES["cylinder"], cloud()):
        first, again, other = (domain.sample("boundary", 30, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


def test_a_cloud_gives_its_own_points_each_once():
    domain = cloud()
    assert domain.parts == ("interior", "boundary")
    points = domain.sample("interior", 50, seed=3)
    assert KDTree(domain.points).query(points)[0].max() == 0
    assert len(np.unique(points, axis=0)) == 50
    assert len(domain.sample("boundary", 1000)) == 60
    assert domain.contains([[0.0, 0.0], [0.99, 0.0]]).all()
    assert not domain.contains([[1.01, 0.0], [0.75, 0.75], [5.0, 0.0]]).any()
    np.testing.assert_array_equal(domain.normal("boundary", domain.boundary["boundary"]), domain.boundary["boundary"])
    in_time = SpaceTime(domain, 0, 1).sample("boundary", 100)
    assert KDTree(domain.boundary["boundary"]).query(in_time[:, 1:])[0].max() == 0


def test_what_is_made_of_a_cloud_has_its_points_each_at_most_once():
    domain = cloud()
    carved = domain - Ball((0.2, 0), 0.3)
    assert carved.parts == ("interior", "boundary", "cloud", "circle")
    assert carved.covers("boundary") == ("cloud", "circle")
    assert carved.measure("interior") == pytest.approx(math.pi * (1 - 0.09), rel=0.02)
    for made, part in ((carved, "cloud"), (domain.with_parts(low=lambda x: x[1] < 0), "low")):
        for sampling in ("uniform", "sobol", "poisson"):
            points = made.sample(part, 25, sampling=sampling)
            assert len(np.unique(points, axis=0)) == 25
            assert KDTree(domain.boundary["boundary"]).query(points)[0].max() == 0
    assert len(carved.sample("cloud", 1000)) == 60


def test_set_operations_keep_the_names_of_parts_and_number_those_that_clash():
    both = Box((0, 0), (1, 1)) | Box((1, 0), (2, 1))
    assert both.parts == ("interior", "boundary", "left", "bottom", "top", "right2", "bottom2", "top2")
    # Where the two meet is inside.
    np.testing.assert_array_equal(both.on_part("interior", [[1.0, 0.5], [1.0, 0.0]]), [True, False])
    assert both.measure("boundary") == pytest.approx(6)
    shared = Box((0, 0), (1, 1)) & Box((0, 0), (2, 2))
    assert shared.measure("boundary") == pytest.approx(4)  # what both share counts once
    rings = Ball((0, 0), 2) - Ball((-0.9, 0), 0.5) - Ball((0.9, 0), 0.5)
    assert rings.parts == ("interior", "boundary", "circle", "circle2", "circle3")
    assert (HOLED - Ball((0.5, 0.5), 0.2)).covers("outer") == ("side0", "side1", "side2", "side3")


def test_points_of_a_carved_boundary_are_on_one_part_only():
    domain = (ELL - Ball((0.5, 0.5), 0.25)).with_parts(hole=lambda x: jnp.hypot(x[0] - 0.5, x[1] - 0.5) < 0.26)
    assert domain.parts[-1] == "hole"
    assert domain.covers("hole") == ("circle",)
    assert domain.measure("hole") == pytest.approx(math.pi / 2)
    angle = np.linspace(0, 6, 50)
    rim = 0.5 + 0.25 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert domain.on_part("hole", rim).all()
    assert not domain.on_part("hole", ELL.sample("boundary", 50)).any()


def test_predicates_of_numpy_and_of_jax_carve_alike_and_the_first_that_fits_has_the_point():
    def by_numpy(x):
        return bool(x[0] < 0.5) and float(np.sin(x[1])) < 0.2  # `and` is not for jax

    def by_jax(x):
        return (x[0] < 0.5) & (jnp.sin(x[1]) < 0.2)

    box = Box((0, 0), (1, 1))
    first, second = (box.with_parts(low=f, all=lambda x: x[0] > -1) for f in (by_numpy, by_jax))
    np.testing.assert_array_equal(first.sample("low", 40), second.sample("low", 40))
    assert not set(first.covers("low")) & set(first.covers("all"))
    assert set(first.covers("boundary")) == {*first.covers("low"), *first.covers("all")}
    assert first.covers("left") == ("left & low", "left & all")


def test_parts_of_parts_are_more_special_still():
    domain = Box((0, 0), (1, 1)).with_parts(low=lambda x: x[1] < 0.5).with_parts(lowest=lambda x: x[1] < 0.25)
    assert domain.parts[-2:] == ("low", "lowest")
    assert set(domain.covers("lowest")) < set(domain.covers("low"))
    assert domain.measure("low") == pytest.approx(2, rel=1e-3)
    assert domain.measure("lowest") == pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("implicit", "parts", "cylinder")])
def test_a_shape_is_made_again_from_its_arguments(name):
    domain = SHAPES[name]
    again = type(domain)(**domain.arguments())
    assert repr(again) == repr(domain)
    np.testing.assert_array_equal(again.sample("boundary", 9), domain.sample("boundary", 9))


@pytest.mark.parametrize("centre", [0.0, 0.3])
def test_means_over_a_disk_with_a_hole_are_those_of_the_disk_less_those_of_the_hole(centre):
    points, weights = (Ball((0.0, 0.0), 1.0) - Ball((centre, 0.0), 0.5)).quadrature("interior", 60)
    # Over a disk of radius r around c the mean of x² is c² + r²/4, and that of x is c.
    expected = np.array([1 / 4 - 0.25 * (centre**2 + 1 / 16), -0.25 * centre]) / 0.75
    np.testing.assert_allclose(weights @ np.stack([points[:, 0] ** 2, points[:, 0]], axis=1), expected, atol=3e-4)
