"""Problems on fewer of their points: the same functionals and equations there, well spread, boundaries dense."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

from gpde.collocation.collocation import collocate
from gpde.collocation.neighbours import Metric
from gpde.collocation.thinning import restricted, thinned
from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import laplacian, partial
from gpde.problem.problem import Problem

METRIC = Metric.of((Gaussian(0.2),), 2)


@pytest.fixture(scope="module")
def collocation():
    equations = {
        "interior": lambda u, x: -laplacian(u)(x) + u(x) ** 3,
        "boundary": [lambda u, x: u(x) - x[0], lambda u, x: partial(u, 1)(x) * u(x)],
    }
    problem = Problem(Box((0.0, 0.0), (1.0, 1.0)), equations)
    return collocate(problem, problem.sample(400, 160, seed=1))


def test_latent_values_of_fewer_points_are_those_of_all_at_their_places(collocation):
    few = restricted(collocation, [np.arange(5, 300, 7), np.array([3, 1, 90])])

    @eqx.filter_jit
    def measured(collocation):
        latent = collocation.measure([lambda x: jnp.sin(3 * x[0]) * x[1]])
        return latent, collocation.residual(latent)

    (latent, residual), (own, left) = (map(np.asarray, measured(each)) for each in (collocation, few.collocation))
    assert np.allclose(own, latent[few.places], atol=1e-13)
    inside = residual[:400][5:300:7]
    assert np.allclose(left[: len(inside)], inside, atol=1e-12)


def test_a_part_of_which_nothing_is_kept_is_left_out(collocation):
    few = restricted(collocation, [np.array([], dtype=int), np.arange(160)])
    assert [part.name for part in few.collocation.parts] == ["boundary"]
    assert few.collocation.functionals.size == 2 * 160


def test_thinned_points_are_well_spread_and_boundaries_stay_as_dense_as_the_inside(collocation):
    few = thinned(collocation, METRIC, 100).collocation
    inside, boundary = (np.asarray(part.points) for part in few.parts)
    assert 90 <= few.num_points <= 110
    assert len(boundary) > 0.25 * 160  # of the inside a quarter is kept at most
    # No hole: from every point a kept one is about as near as 90 points on the square can be.
    distance, _ = KDTree(inside).query(np.asarray(collocation.parts[0].points))
    assert distance.max() < 2.5 / np.sqrt(len(inside))


def test_more_points_than_there_are_keeps_all(collocation):
    few = thinned(collocation, METRIC, 10_000)
    assert few.collocation.num_points == collocation.num_points
    assert np.array_equal(few.places, np.arange(collocation.functionals.size))
