"""Domains: where the points are, what the parts are called, how many points go where."""

import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from gpde.domains import SAMPLINGS, Box, SpaceTime, split
from gpde.domains.sampling import count

DOMAINS = [
    Box(-1, 1),
    Box((0, 0), (1, 1)),
    Box((0, -2, 1), (3, 5, 1.5)),
    Box((0, 0, 0, 0), (1, 2, 1, 1)),
    SpaceTime((-1, 1), 0, 1),
    SpaceTime(Box((0, 0), (1, 2)), 0, 3),
]
every_domain = pytest.mark.parametrize("domain", DOMAINS, ids=repr)
every_sampling = pytest.mark.parametrize("sampling", SAMPLINGS)


def test_a_rectangle_names_its_sides():
    box = Box((0, 0), (1, 1))
    assert box.parts == ("interior", "boundary", "left", "right", "bottom", "top")
    assert box.covers("boundary") == ("left", "right", "bottom", "top")
    assert box.covers("left") == ("left",)
    assert box.coordinates == ("x", "y")


def test_a_box_in_four_dimensions_names_its_far_sides_by_number():
    box = Box((0, 0, 0, 0), (1, 1, 1, 1))
    assert box.covers("boundary")[4:] == ("back", "front", "lower3", "upper3")
    assert box.coordinates == ("x0", "x1", "x2", "x3")


def test_space_time_puts_time_first_and_keeps_the_initial_time_out_of_the_boundary():
    domain = SpaceTime((-1, 1), 0, 2)
    assert domain.dim == 2
    assert domain.coordinates == ("t", "x")
    assert domain.parts == ("interior", "boundary", "initial", "left", "right", "final")
    assert domain.covers("boundary") == ("left", "right")
    np.testing.assert_array_equal(domain.lower, [0, -1])
    np.testing.assert_array_equal(domain.extent, [2, 2])
    assert np.all(domain.sample("initial", 5)[:, 0] == 0)
    assert np.all(domain.sample("final", 5)[:, 0] == 2)
    assert np.all(domain.sample("boundary", 50)[:, 0] > 0)


def test_measures_are_areas_and_lengths():
    box = Box((0, -2, 1), (3, 5, 1.5))
    assert box.measure("interior") == pytest.approx(3 * 7 * 0.5)
    assert box.measure("left") == pytest.approx(7 * 0.5)
    assert box.measure("boundary") == pytest.approx(2 * (3 * 7 + 7 * 0.5 + 3 * 0.5))
    assert Box(0, 5).measure("boundary") == 2
    domain = SpaceTime(Box((0, 0), (1, 2)), 0, 3)
    assert domain.measure("interior") == pytest.approx(6)
    assert domain.measure("initial") == pytest.approx(2)
    assert domain.measure("boundary") == pytest.approx(3 * 6)


@every_domain
@every_sampling
@pytest.mark.parametrize("seed", [0, 7])
def test_sampled_points_are_as_many_as_asked_and_lie_on_their_part_only(domain, sampling, seed):
    for part in domain.parts:
        points = domain.sample(part, 37, sampling=sampling, seed=seed)
        num_expected = 37 if len(domain.atom_extent(domain.covers(part)[0])) else len(domain.covers(part))
        assert points.shape == (num_expected, domain.dim)
        assert points.dtype == np.float64
        assert domain.contains(points, tolerance=0.0).all()
        assert domain.on_part(part, points, tolerance=0.0).all()
        # The final time belongs to the interior too.
        strangers = set(domain.atoms) - set(domain.covers(part)) - ({"interior"} if part == "final" else set())
        assert not any(domain.on_part(atom, points, tolerance=0.0).any() for atom in strangers)


@every_domain
@every_sampling
def test_no_point_is_sampled_twice(domain, sampling):
    points = np.concatenate([domain.sample(atom, 64, sampling=sampling) for atom in domain.atoms])
    assert len(np.unique(points, axis=0)) == len(points)


@every_sampling
def test_the_same_seed_gives_the_same_points_and_another_seed_others(sampling):
    domain = Box((0, 0), (1, 1))
    first, again, other = (domain.sample("boundary", 24, sampling=sampling, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert sampling == "grid" or not np.array_equal(first, other)


def test_points_do_not_depend_on_the_process():
    program = "from gpde.domains import Box; print(Box((0, 0), (1, 1)).sample('left', 3, seed=5).tolist())"
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert elsewhere.strip() == str(Box((0, 0), (1, 1)).sample("left", 3, seed=5).tolist())


def test_domains_do_not_import_jax():
    program = "import sys, gpde.domains; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_parts_draw_from_streams_of_their_own():
    box = Box((0, 0), (1, 1))
    left, right = box.sample("left", 20)[:, 1], box.sample("right", 20)[:, 1]
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.6
    assert not np.any(left == right)


@pytest.mark.parametrize("sampling", ["uniform", "sobol", "halton", "grid"])
def test_samples_fill_a_domain_evenly(sampling):
    # Each eighth of the box along each axis expects 512 of 4096; five standard deviations of a binomial are 106.
    points = Box((0, -2), (3, 5)).sample("interior", 4096, sampling=sampling, seed=1)
    for axis, ends in enumerate([(0, 3), (-2, 5)]):
        counts, _ = np.histogram(points[:, axis], bins=8, range=ends)
        assert np.all(np.abs(counts - 512) < 106)


@pytest.mark.parametrize("sampling", ["sobol", "halton", "grid"])
def test_low_discrepancy_points_integrate_better_than_random_ones(sampling):
    def error(sampling, seed):
        x, y = Box((0, 0), (1, 1)).sample("interior", 1000, sampling=sampling, seed=seed).T
        return abs(np.mean(np.sin(np.pi * x) * np.exp(y)) - 2 / np.pi * (np.e - 1))

    seeds = range(8)
    assert np.mean([error(sampling, s) for s in seeds]) < 0.2 * np.mean([error("uniform", s) for s in seeds])


def test_a_grid_is_a_tensor_grid_of_cell_centres_where_the_number_factors():
    x, y = Box((0, 0), (1, 1)).sample("interior", 900, sampling="grid").T
    centres = (np.arange(30) + 0.5) / 30
    np.testing.assert_allclose(np.unique(x), centres, rtol=1e-14)
    np.testing.assert_allclose(np.unique(y), centres, rtol=1e-14)


def test_a_grid_on_a_side_is_evenly_spaced():
    heights = Box((0, 0), (1, 2)).sample("left", 10, sampling="grid")[:, 1]
    np.testing.assert_allclose(np.diff(heights), 0.2)
    assert heights[0] == pytest.approx(0.1)


@hypothesis.given(st.integers(1, 400), st.lists(st.floats(0.2, 5.0), min_size=1, max_size=3))
def test_a_grid_has_exactly_the_number_of_points_asked_for(num, extent):
    points = Box(np.zeros(len(extent)), np.array(extent)).sample("interior", num, sampling="grid")
    assert len(np.unique(points, axis=0)) == num


@hypothesis.given(st.integers(0, 10_000), st.lists(st.floats(0.01, 100.0), min_size=1, max_size=8))
def test_a_split_adds_up_and_stays_within_one_of_the_proportion(num, measures):
    shares = split(num, measures)
    assert sum(shares) == num
    assert all(abs(share - num * m / sum(measures)) < 1 + 1e-6 for share, m in zip(shares, measures, strict=True))


def test_a_split_gives_what_is_left_to_the_largest_remainder_then_to_the_first():
    assert split(300, [1, 1, 1, 1]) == [75, 75, 75, 75]
    assert split(10, [1, 1, 1]) == [4, 3, 3]
    assert split(10, [0.26, 0.26, 0.48]) == [3, 2, 5]
    assert split(3, [0.0, 1.0]) == [0, 3]
    assert split(0, [1.0, 2.0]) == [0, 0]


@pytest.mark.parametrize("upper", [(1, 3), (1e-4, 1e3)])
def test_the_sides_of_a_box_share_its_points_alike_in_any_units(upper):
    box = Box((0, 0), upper)
    points = box.sample("boundary", 80)
    assert [int(box.on_part(side, points).sum()) for side in ("left", "right", "bottom", "top")] == [20, 20, 20, 20]


@pytest.mark.parametrize("seconds", [1e-6, 1.0, 1e9])
def test_initial_values_and_sides_share_points_alike_in_any_unit_of_time(seconds):
    domain = SpaceTime(Box((0, 0), (2, 2)), 0, seconds)
    assert [domain.atom_share(part) for part in ("initial", "left", "top", "final")] == [1.0, 1.0, 1.0, 1.0]


def test_an_end_of_an_interval_is_given_once():
    np.testing.assert_array_equal(Box(-1, 1).sample("boundary", 10), [[-1], [1]])


def test_containment_has_a_tolerance_relative_to_the_extent():
    box = Box((0, 0), (1000, 1))
    points = np.array([[1000 + 1e-7, 0.5], [1000 + 1e-5, 0.5], [500, 1 + 1e-7], [0, 0], [500, 0.5]])
    np.testing.assert_array_equal(box.contains(points), [True, False, False, True, True])
    np.testing.assert_array_equal(box.on_part("right", points), [True, False, False, False, False])
    np.testing.assert_array_equal(box.on_part("interior", points), [False, False, False, False, True])
    np.testing.assert_array_equal(box.on_part("boundary", points), [True, False, False, True, False])


def test_an_evolution_equation_holds_at_the_final_time_and_not_at_the_initial_one():
    points = np.array([[0.0, 0.3], [0.5, 0.3], [1.0, 0.3], [0.5, 1.0]])
    np.testing.assert_array_equal(SpaceTime((-1, 1), 0, 1).on_part("interior", points), [False, True, True, False])


@every_domain
def test_stepping_along_the_normal_leaves_the_domain(domain):
    for part in [*domain.atoms[1:], "boundary"]:
        points = domain.sample(part, 16)
        normals = domain.normal(part, points)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
        assert not domain.contains(points + 1e-6 * normals).any()
        assert domain.contains(points - 1e-6 * normals).all()


def test_a_grid_runs_over_the_closed_box_with_the_last_coordinate_fastest():
    points = SpaceTime((-1, 1), 0, 1).grid((2, 3))
    np.testing.assert_array_equal(points, [[0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Box((0, 0), (1, 0)), "`lower` is below `upper`"),
        (lambda: Box(1, 1), "`lower` is below `upper`"),
        (lambda: Box((0, 0), (1, 1, 1)), "got 2 and 3"),
        (lambda: Box((0, np.nan), (1, 1)), "`lower` is a finite number"),
        (lambda: Box(0, np.inf), "`upper` is a finite number"),
        (lambda: Box((0, 0), (1, 1), ("x",)), "a name for each of 2 coordinates"),
        (lambda: Box((0, 0), (1, 1), ("x", "X")), "all different"),
        (lambda: SpaceTime(Box(0, 1, ("t",)), 0, 1), "'t' is the time"),
        (lambda: SpaceTime((-1, 1), 1, 1), "start < stop"),
        (lambda: SpaceTime((1, -1), 0, 1), "`lower` is below `upper`"),
        (lambda: Box(0, 1).sample("inside", 3), "no part 'inside'; its parts are 'interior', 'boundary', 'left'"),
        (lambda: Box(0, 1).sample("interior", 3, sampling="random"), "'random'; it is one of 'uniform', 'sobol'"),
        (lambda: Box(0, 1).sample("interior", -1), "`num` is a whole number, zero or more; got -1"),
        (lambda: Box(0, 1).sample("interior", 3, seed=-1), "`seed` is a whole number"),
        (lambda: count(2.5, "sample"), "`sample`: `num` is a whole number, zero or more; got 2.5"),
        (lambda: count(True, "sample"), "got True"),
        (lambda: Box(0, 1).contains(np.zeros(3)), r"shape \(num, 1\)"),
        (lambda: Box((0, 0), (1, 1)).on_part("left", np.zeros((3, 3))), r"shape \(num, 2\) .* got \(3, 3\)"),
        (lambda: Box(0, 1).normal("interior", np.zeros((1, 1))), "'interior' has no normal"),
        (lambda: Box(0, 1).normal("left", np.ones((1, 1))), "1 of 1 points are not on 'left'"),
        (lambda: Box(0, 1).grid((3, 3)), r"one size, 1 or more, for each of \('x',\)"),
        (lambda: split(3, [0.0, 0.0]), "not all zero"),
    ],
)
def test_a_bad_request_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@every_domain
def test_a_domain_prints_as_the_call_that_makes_it(domain):
    again = eval(repr(domain), {"Box": Box, "SpaceTime": SpaceTime})
    np.testing.assert_array_equal(again.lower, domain.lower)
    np.testing.assert_array_equal(again.upper, domain.upper)


@every_domain
def test_a_domain_is_made_again_from_its_arguments(domain):
    again = type(domain)(**domain.arguments())
    assert repr(again) == repr(domain)
    np.testing.assert_array_equal(again.sample("boundary", 9), domain.sample("boundary", 9))


def test_the_coordinates_of_a_box_can_be_named():
    box = Box((0, 0), (1, 1), ("lon", "lat"))
    assert box.coordinates == ("lon", "lat")
    assert repr(box) == "Box((0, 0), (1, 1), ('lon', 'lat'))"
    assert SpaceTime(box, 0, 1).coordinates == ("t", "lon", "lat")
