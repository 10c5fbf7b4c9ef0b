"""The paper's experiments with the full GP and with consensus: small siblings every day, many seeds with `-m slow`."""

import math

import jax
import numpy as np
import pytest

from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.methods import Consensus, FullBatch
from gpde.solution._solve import solve


def errors(problem, **settings):
    """The largest and the root mean square error on the problem's test grid."""
    solution = solve(problem, **settings)
    assert solution.result.successful, str(solution.result)
    grid = problem.domain.grid(problem.defaults.grid)
    gap = solution(grid) - np.asarray(jax.jit(jax.vmap(problem.reference))(grid))
    return np.abs(gap).max(), math.sqrt(np.mean(gap**2))


SETTINGS = {"num_interior": 300, "num_boundary": 100, "nugget": 1e-12, "seed": 0}


@pytest.fixture(scope="module")
def elliptic():
    """The errors of the full GP on four hundred points."""
    return errors(get("elliptic").build(), **SETTINGS)


def test_the_elliptic_problem_on_four_hundred_points(elliptic):
    linf, l2 = elliptic
    assert linf < 3e-4
    assert l2 < 4e-5


def test_burgers_with_a_wide_front_on_four_hundred_points():
    problem = get("burgers").build(viscosity=0.2)
    kernel = Gaussian((0.5 / math.sqrt(2), 0.3 / math.sqrt(2)))
    linf, l2 = errors(problem, kernel=kernel, num_interior=300, num_boundary=100, nugget=1e-11, seed=0)
    assert linf < 1e-2
    assert l2 < 1e-3


def test_consensus_on_four_hundred_points_comes_near_the_full_gp(elliptic):
    _, consensus = errors(get("elliptic").build(), **SETTINGS, method=Consensus(batch_size=64))
    assert consensus < 10 * elliptic[1]


@pytest.mark.slow
def test_consensus_on_the_elliptic_problem_over_ten_seeds():
    problem = get("elliptic").build()
    settings = {"num_interior": 900, "num_boundary": 300, "nugget": 1e-13, "method": Consensus(batch_size=64)}
    largest = [errors(problem, **settings, seed=seed)[0] for seed in range(10)]
    assert max(largest) <= 5e-5
    assert np.median(largest) <= 2.5e-5


@pytest.mark.slow
def test_consensus_on_burgers_is_as_good_as_the_full_gp_over_five_seeds():
    problem = get("burgers").build(viscosity=0.02)
    for seed in range(5):
        settings = {"num_interior": 2000, "num_boundary": 400, "seed": seed}
        _, full = errors(problem, **settings, method=FullBatch())
        _, consensus = errors(problem, **settings, method=Consensus(batch_size=75))
        assert consensus <= 2 * full


@pytest.mark.slow
def test_consensus_survives_a_wide_kernel_and_few_patches():
    problem = get("burgers").build(viscosity=0.02)
    kernel = Gaussian((0.3 / math.sqrt(2), 0.1 / math.sqrt(2)))
    method = Consensus(batch_size=64, num_patches=600)
    for seed in range(3):
        _, l2 = errors(problem, kernel=kernel, num_interior=2000, num_boundary=400, seed=seed, method=method)
        assert l2 < 1e-3


@pytest.mark.slow
def test_the_elliptic_problem_of_section_4_1_over_ten_seeds():
    problem = get("elliptic").build()
    settings = {"kernel": Gaussian(0.2), "num_interior": 900, "num_boundary": 300, "nugget": 1e-13}
    largest = [errors(problem, **settings, seed=seed)[0] for seed in range(10)]
    assert max(largest) <= 3e-5
    assert np.median(largest) <= 6e-6


@pytest.mark.slow
def test_burgers_of_section_4_2_over_five_seeds():
    problem = get("burgers").build(viscosity=0.02)
    settings = {"num_interior": 2000, "num_boundary": 400, "nugget": 1e-10}
    l2 = [errors(problem, **settings, seed=seed)[1] for seed in range(5)]
    assert max(l2) <= 1.5e-3
    assert np.median(l2) <= 5e-4
