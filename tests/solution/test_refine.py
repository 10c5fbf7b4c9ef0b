"""Points where a solution needs them."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial import KDTree

import gpde
from gpde.benchmarks.bench_adaptive import error, front
from gpde.methods import Consensus
from gpde.solution.refine import refine, solve_adaptively

FRONT = front(0.02)
METHOD = Consensus(batch_size=16, local_lengthscales=True)


@pytest.fixture(scope="module")
def rough():
    return gpde.solve(FRONT, gpde.Gaussian(0.1), method=METHOD, num_interior=60, num_boundary=2)


@pytest.mark.parametrize("by", ["residual", "std"])
def test_new_points_are_added_to_those_there_are_and_keep_their_distance(rough, by):
    points = refine(rough, 40, by)
    np.testing.assert_array_equal(points["interior"][:60], rough.points["interior"])
    np.testing.assert_array_equal(points["boundary"], rough.points["boundary"])
    assert len(points["interior"]) == 100
    closest, at_random = [], []
    for seed in range(8):
        new, drawn = refine(rough, 40, by, seed=seed)["interior"][60:], np.random.default_rng(seed).uniform(size=(40, 1))
        for each, found in ((new, closest), (drawn, at_random)):
            found.append(KDTree(np.concatenate([rough.points["interior"], each])).query(each, k=2)[0][:, 1].min())
    assert np.median(closest) > 1.5 * np.median(at_random)


def test_points_by_residual_concentrate_at_a_front(rough):
    new = refine(rough, 40, "residual")["interior"][60:, 0]
    assert np.mean(np.abs(new - 0.4) < 0.06) > 2 * 0.12  # twice its share of the line


def test_points_added_at_a_front_are_worth_many_times_as_many_drawn_at_once():
    arguments = {"method": METHOD, "num_interior": 120, "num_boundary": 2}
    at_once = error(FRONT, gpde.solve(FRONT, gpde.Gaussian(0.1), **arguments))
    added = solve_adaptively(FRONT, gpde.Gaussian(0.1), rounds=1, **arguments)
    assert len(added.points["interior"]) == 120
    assert "60 of its points were added" in str(added.result)
    assert added.settings["rounds"] == (60, 60)
    assert error(FRONT, added) < at_once / 50


@pytest.mark.parametrize("problem", [FRONT, gpde.gallery.get("poisson").build()], ids=["line", "square"])
def test_pictures_and_files_show_the_rounds_in_which_points_came(problem, tmp_path):
    drawn = gpde.solve(problem, gpde.Gaussian(0.3), method=gpde.FullBatch(max_steps=3), num_interior=20, num_boundary=2)
    dataclasses.replace(drawn, settings={**drawn.settings, "rounds": (10, 6, 4)}).save(tmp_path / "rounds.npz")
    figure = gpde.load(tmp_path / "rounds.npz").plot()
    dots = {each.get_label(): each for axes in figure.axes for each in [*axes.collections, *axes.lines]}
    found = {
        name: np.asarray(dots[name].get_xydata() if problem is FRONT else dots[name].get_offsets())[:, : problem.domain.dim]
        for name in ("round 1", "round 2")
    }
    np.testing.assert_array_equal(found["round 1"], drawn.points["interior"][10:16])
    np.testing.assert_array_equal(found["round 2"], drawn.points["interior"][16:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "`num_points` is how many points to add, a whole number from 1 on; came 0"),
        ((4, "error"), "`by` must be one of 'residual', 'std'; came 'error'"),
    ],
)
def test_bad_requests_name_the_argument(rough, arguments, message):
    with pytest.raises(ValueError, match="`refine`") as caught:
        refine(rough, *arguments)
    assert message in str(caught.value)
    with pytest.raises(ValueError, match="`rounds` is how often points are added"):
        solve_adaptively(FRONT, rounds=0)
