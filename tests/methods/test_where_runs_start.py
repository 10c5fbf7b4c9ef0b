"""Where runs start: the mean given the linear equations, against kriging by hand; degenerate equations; coarse starts."""

import jax.numpy as jnp
import numpy as np
import pytest

from gpde.collocation.collocation import collocate
from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.methods import Consensus, FullBatch
from gpde.methods.base import Setup
from gpde.methods.coarse import coarse_start
from gpde.methods.start import linear_start
from gpde.operators import partial
from gpde.outcomes import Outcome
from gpde.problem.problem import Observations, Problem
from gpde.solution._solve import solve

LENGTHSCALE = 0.4


def exact(x):
    return 1.5 + 0.5 * jnp.sin(3 * x[0])


def cubic_diffusion(u, x):
    """-(u³)'' + u: at u = 0 the second derivative has no weight."""
    return -partial(lambda y: u(y) ** 3, 0, 0)(x) + u(x)


def setup_of(equations, **arguments):
    problem = Problem(Box(0, 1), equations, **arguments)
    return Setup(collocate(problem, problem.sample(20, 2)), (Gaussian(LENGTHSCALE),), 1e-12)


@pytest.fixture(scope="module")
def degenerate():
    equations = {
        "interior": lambda u, x: cubic_diffusion(u, x) - cubic_diffusion(exact, x),
        "boundary": lambda u, x: u(x) - exact(x),
    }
    return Problem(Box(0, 1), equations, reference=exact)


def test_the_start_is_kriging_of_boundary_values_and_data():
    places, values = np.array([[0.3], [0.6]]), np.array([2.0, 1.0])
    noisy = Observations(places, values, noise=0.5)
    equations = {"interior": lambda u, x: partial(u, 0)(x) + u(x) ** 2, "boundary": lambda u, x: u(x) - x[0]}
    setup = setup_of(equations, observations=noisy)
    start = linear_start(setup)
    assert start is not None
    ends = np.asarray(setup.collocation.parts[1].points)
    known, rhs = np.concatenate([ends, places]), np.concatenate([ends[:, 0], values])
    inside = np.asarray(setup.collocation.parts[0].points)

    def kernel(x, y):
        return np.exp(-0.5 * ((x - y.T) / LENGTHSCALE) ** 2)

    noise = np.diag([0.0, 0.0, 0.25, 0.25])
    dual = np.linalg.solve(kernel(known, known) + noise, rhs)
    slope = -(inside - known.T) / LENGTHSCALE**2 * kernel(inside, known)
    part = setup.collocation.parts[0]
    found = np.asarray(start.latent(setup))[part.indices]
    by_operator = {operator[0][1][0][0]: found[:, slot] for slot, operator in enumerate(part.reading.operators)}
    assert np.allclose(by_operator[(0,)], kernel(inside, known) @ dual, atol=1e-6)
    assert np.allclose(by_operator[(1,)], slope @ dual, atol=1e-6)


def test_there_is_no_start_where_it_would_be_zero_or_one_step_solves_all():
    square = {"interior": lambda u, x: partial(u, 0)(x) + u(x) ** 2}
    zero_ends = {**square, "boundary": lambda u, x: u(x)}
    linear = {"interior": lambda u, x: partial(u, 0)(x) - 1, "boundary": lambda u, x: u(x) - 1}
    for equations in (square, zero_ends, linear):
        assert linear_start(setup_of(equations)) is None


@pytest.mark.parametrize("method", [FullBatch(), FullBatch(constraints="relax"), Consensus(batch_size=16)], ids=str)
def test_an_equation_that_degenerates_at_zero_is_solved_from_the_boundary_values(degenerate, method):
    solution = solve(degenerate, Gaussian(LENGTHSCALE), method=method, num_interior=40, num_boundary=2, nugget=1e-12)
    assert solution.result.outcome is Outcome.CONVERGED
    x = np.linspace(0, 1, 50)[:, None]
    assert np.max(np.abs(solution(x) - (1.5 + 0.5 * np.sin(3 * x[:, 0])))) < 1e-6


def test_the_full_gp_on_few_points_is_near_the_solution_on_all(degenerate):
    collocation = collocate(degenerate, degenerate.sample(300, 2))
    setup = Setup(collocation, (Gaussian(LENGTHSCALE),), 1e-12)
    coarse = coarse_start(setup, num_points=30)
    assert coarse is not None
    assert coarse.settled
    assert coarse.num_points <= 32
    truth = np.asarray(collocation.measure([exact]))
    assert np.max(np.abs(coarse.start.latent(setup) - truth)) < 1e-3 * np.max(np.abs(truth))
