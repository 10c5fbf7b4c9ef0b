"""Points where a solution needs them."""

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
    nearest = KDTree(points["interior"]).query(points["interior"][60:], k=2)[0][:, 1]
    drawn = np.random.default_rng(0).uniform(size=(40, 1))
    at_random = KDTree(np.concatenate([rough.points["interior"], drawn])).query(drawn, k=2)[0][:, 1]
    assert nearest.min() > at_random.min()


def test_points_by_residual_concentrate_at_a_front(rough):
    new = refine(rough, 40, "residual")["interior"][60:, 0]
    assert np.mean(np.abs(new - 0.4) < 0.06) > 2 * 0.12  # twice its share of the line


def test_points_added_at_a_front_are_worth_many_times_as_many_drawn_at_once():
    arguments = {"method": METHOD, "num_interior": 120, "num_boundary": 2}
    at_once = error(FRONT, gpde.solve(FRONT, gpde.Gaussian(0.1), **arguments))
    added = solve_adaptively(FRONT, gpde.Gaussian(0.1), rounds=1, **arguments)
    assert len(added.points["interior"]) == 120
    assert "60 of its points were added" in str(added.result)
    assert error(FRONT, added) < at_once / 50


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
