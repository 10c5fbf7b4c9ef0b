"""What a result claims: equations that are not met, conditions that contradict each other, residuals between the points."""

import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Box, Consensus, FullBatch, Gaussian, MiniBatch, Observations, Problem, SpaceTime, laplacian, partial
from gpde.collocation.collocation import collocate
from gpde.methods.base import Setup
from gpde.outcomes import Outcome, Result
from gpde.solution.checks import checked
from gpde.solution.checks.contradictions import contradictions
from gpde.solution.checks.distance import distance_of
from gpde.solution.checks.pieces import far_from_full
from gpde.solution.checks.residuals import exact_conditions
from gpde.solution.report import report

SQUARE, DURING = Box((0.0, 0.0), (1.0, 1.0)), SpaceTime((0.0, 1.0), 0.0, 1.0)


def poisson(u, x):
    return -laplacian(u)(x) - 1.0


def zero(u, x):
    return u(x)


def one(u, x):
    return u(x) - 1.0


def smooth(x):
    return jnp.sin(jnp.pi * x[0]) * jnp.cos(x[1])


smooth_at = jax.jit(jax.vmap(smooth))
GRID = SQUARE.grid((20, 20))
MANY: dict[str, Any] = {"num_interior": 200, "num_boundary": 80}


@functools.cache
def manufactured():
    equations = {
        "interior": lambda u, x: laplacian(u)(x) - laplacian(smooth)(x),
        "boundary": lambda u, x: u(x) - smooth(x),
    }
    return Problem(domain=SQUARE, equations=equations, reference=smooth)


def found(domain, equations, **rest):
    """The sentences about contradictions, without a solve."""
    problem = Problem(domain=domain, equations=equations, **rest)
    parts = collocate(problem, problem.sample(4, 4 * len(equations))).parts
    return [c.text for c in contradictions(problem, exact_conditions(problem, parts, 0))]


@pytest.mark.parametrize("method", [FullBatch(), Consensus()])
def test_equations_that_contradict_each_other_on_one_part_do_not_converge(method):
    problem = Problem(domain=SQUARE, equations={"interior": poisson, "boundary": [zero, one]})
    result = gpde.solve(problem, Gaussian(0.4), method=method, num_interior=60, num_boundary=40).result
    assert result.outcome is Outcome.NOT_MET
    assert "or start closer (`initial=`)" in str(result)
    assert not result.successful
    assert "converged" not in str(result)
    assert result.at_points["boundary"] > 0.2
    assert "at its own points equation 1 on 'boundary' (`zero`) is off by" in str(result)
    both = "equation 1 on 'boundary' (`zero`) and equation 2 on 'boundary' (`one`)"
    assert f"{both} contradict each other: u = 0 and u = 1" in str(result)


def test_contradictory_equations_in_the_interior_are_not_met_either():
    equations = {"interior": [poisson, lambda u, x: laplacian(u)(x) - 1.0], "boundary": zero}
    result = gpde.solve(Problem(domain=SQUARE, equations=equations), Gaussian(0.4), num_interior=60, num_boundary=40).result
    assert not result.successful
    assert result.at_points["interior"] > 0.1
    assert "at its own points equation" in str(result)


def test_a_mini_batch_that_cannot_meet_its_equations_says_by_how_much():
    problem = Problem(domain=SQUARE, equations={"interior": poisson, "boundary": [zero, one]})
    method = MiniBatch(num_steps=20, proximal_weight=1e2)  # a given weight, with which it makes no claim
    result = gpde.solve(problem, Gaussian(0.3), method=method, num_interior=40, num_boundary=20).result
    assert result.outcome is Outcome.FINISHED
    assert "at its own points" in str(result)
    assert max(result.at_points.values()) > 0.1


@pytest.mark.parametrize("nugget", [1e-12, 1e-6])
def test_what_a_nugget_leaves_is_no_contradiction(nugget):
    result = gpde.solve(manufactured(), Gaussian(0.3), nugget=nugget, **MANY).result
    assert result.outcome is Outcome.CONVERGED
    assert "off by" not in str(result)
    assert max(result.at_points.values()) < 1e-3


def test_conditions_that_contradict_each_other_in_a_corner_are_named():
    corners = {"left": zero, "bottom": one, "right": lambda u, x: u(x) - x[1], "top": lambda u, x: u(x) - x[0] ** 2}
    first, second = found(SQUARE, {"interior": poisson, **corners})
    assert "on 'left' and 'bottom' contradict each other where they meet, near (0, 0): u = 0 and u = 1" in first
    assert "on 'bottom' and 'right' contradict each other where they meet, near (1, 0): u = 1 and u = 0" in second


def test_an_initial_value_that_contradicts_the_boundary_is_named_and_one_that_does_not_is_not():
    def equations(initial):
        heat = lambda u, x: partial(u, 0)(x) - partial(u, 1, 1)(x)  # noqa: E731
        return {"interior": heat, "initial": lambda u, x: u(x) - initial(x[1]), "boundary": zero}

    assert found(DURING, equations(lambda x: jnp.sin(jnp.pi * x))) == []
    assert found(DURING, equations(lambda x: jnp.sqrt(x) * (1 - x) ** 3)) == []
    assert found(DURING, equations(lambda x: 100 * x * (1 - x))) == []
    (text,) = found(DURING, equations(lambda x: 1 - x))
    assert "'initial' and 'boundary' contradict each other where they meet, near (0, 0): u = 1 and u = 0" in text


def test_edges_in_space_are_compared_too_and_other_fields_are_not():
    cube = Box((0.0, 0.0, 0.0), (1.0, 2.0, 3.0))
    rest = {side: lambda u, x: u(x) - x[2] for side in ("right", "bottom", "top")}
    assert found(cube, {"interior": poisson, "left": lambda u, x: u(x) - x[2], **rest}) == []
    text = found(cube, {"interior": poisson, "left": lambda u, x: u(x) - x[2] - 1.0, **rest})
    assert [t.split(" contradict")[0] for t in text] == [
        "the conditions on 'left' and 'bottom'",
        "the conditions on 'left' and 'top'",
    ]
    two = {
        "interior": [lambda u, v, x: laplacian(u)(x), lambda u, v, x: laplacian(v)(x)],
        "left": lambda u, v, x: u(x),
        "bottom": lambda u, v, x: v(x) - 1.0,
    }
    assert found(SQUARE, two, fields=("u", "v")) == []


def test_data_on_the_boundary_are_compared_with_the_condition_there():
    points = np.array([[0.0, 0.5], [0.5, 0.5], [1.0, 0.25]])
    equations = {"interior": poisson, "boundary": lambda u, x: u(x) - x[0]}
    assert found(SQUARE, equations, observations=Observations(points, np.array([0.0, 7.0, 1.0]))) == []
    (text,) = found(SQUARE, equations, observations=Observations(points, np.array([0.0, 7.0, 3.0])))
    assert "'boundary' and 'data' contradict each other where they meet, near (1, 0.25): u = 1 and u = 3" in text
    noisy = Observations(points, np.array([0.0, 7.0, 3.0]), noise=0.1)
    assert found(SQUARE, equations, observations=noisy) == []


@pytest.mark.parametrize("method", [FullBatch(), Consensus()])
def test_a_kernel_too_short_for_its_points_is_noted_and_a_suitable_one_is_not(method):
    for lengthscale, good in ((0.3, True), (0.02, False)):
        solution = gpde.solve(manufactured(), Gaussian(lengthscale), method=method, nugget=1e-12, **MANY)
        error = np.abs(solution(GRID) - smooth_at(GRID)).max()
        assert (error < 1e-5) == good
        assert ("between the points" in str(solution.result)) is not good
        assert (solution.result.between_points["interior"] < 1e-3) == good
        assert solution.result.outcome is (Outcome.CONVERGED if good else Outcome.NOT_RESOLVED)
        assert max(solution.result.at_points.values()) < 1e-4  # the points themselves are met


def test_the_residual_between_the_points_is_that_of_plain_automatic_differentiation():
    kernel = Gaussian(0.12)
    solution = gpde.solve(manufactured(), kernel, nugget=1e-10, **MANY)
    points = np.random.default_rng(8).random((400, 2))
    residual = solution.residual(points)
    uxx, uyy = (solution.apply(lambda u, a=a: partial(u, a, a), points) for a in range(2))
    terms = np.abs(uxx) + np.abs(uyy) + np.abs(jax.jit(jax.vmap(laplacian(smooth)))(points))
    plain = np.sqrt(np.mean(residual**2) / np.mean(terms**2))
    # Other points, a few of them where the source is strong, and the size of u in place of derivatives that vanish.
    assert 0.3 < solution.result.between_points["interior"] / plain < 2


def test_boundary_values_between_too_few_boundary_points_are_noted():
    solution = gpde.solve(manufactured(), Gaussian(0.2), num_interior=200, num_boundary=8, nugget=1e-12)
    assert solution.result.between_points["boundary"] > 1e-3
    assert "between the points the equation on 'boundary'" in str(solution.result)
    assert "`num_boundary`" in str(solution.result)


def test_an_equation_whose_terms_all_vanish_is_met():
    problem = Problem(
        domain=Box(0.0, 1.0), equations={"interior": lambda u, x: partial(u, 0, 0)(x), "boundary": lambda u, x: u(x) - 300.0}
    )
    solution = gpde.solve(problem, Gaussian(0.5), num_interior=20, num_boundary=2, nugget=1e-12)
    assert np.abs(solution([[0.3]]) - 300.0).max() < 1e-3
    assert solution.result.notes == ("method full-batch, chosen for 22 functionals",)


def test_a_source_that_falls_between_all_points_is_found():
    centre = np.array([0.43, 0.61])
    problem = Problem(
        domain=SQUARE,
        equations={
            "interior": lambda u, x: -laplacian(u)(x) - jnp.exp(-jnp.sum((x - centre) ** 2) / (2 * 0.01**2)),
            "boundary": zero,
        },
    )
    points = np.random.default_rng(0).random((60, 2))
    far = points[np.linalg.norm(points - centre, axis=1) > 0.08]
    solution = gpde.solve(problem, Gaussian(0.2), points={"interior": far}, num_boundary=20)
    assert np.abs(solution(far)).max() < 1e-6  # u = 0 solves what the points see
    assert solution.result.between_points["interior"] > 0.5


def test_pieces_of_a_mini_batch_that_do_not_fit_together_are_noted_and_their_error_is_estimated_all_the_same():
    # After few steps every batch satisfies the equations, and the error is large all the same.
    method = MiniBatch(num_steps=100, coarse_to_fine=False)
    short = gpde.solve(manufactured(), Gaussian(0.3), method=method, **MANY)
    off = np.asarray(short(GRID) - smooth_at(GRID))
    assert np.abs(off).max() > 0.05
    assert np.sqrt(np.mean(short.residual(GRID) ** 2)) < 0.03
    assert "between the points" in str(short.result)
    assert "more steps" in str(short.result)
    assert short.error_estimate() == pytest.approx(np.sqrt(np.mean(off**2)), rel=0.5)
    # How many times farther off than the full GP that is can be told without the truth, and a run at rest there says so.
    problem, points = manufactured(), short.points
    setup = Setup(collocate(problem, points), (Gaussian(0.3),), short.settings["nugget"])
    full = gpde.solve(problem, Gaussian(0.3), points=points, method=gpde.FullBatch())
    times = np.sqrt(np.mean(off**2) / np.mean(np.asarray(full(GRID) - smooth_at(GRID)) ** 2))
    distance = distance_of(problem, setup, short.predictor, 0)
    assert distance is not None
    found = far_from_full(problem, setup, short.predictor, short.latent, distance)
    assert found == pytest.approx(times, rel=0.5)
    at_rest = checked(problem, setup, short.predictor, short.latent, Result(Outcome.CONVERGED, 100), 0)
    assert at_rest.outcome is Outcome.NOT_NEAR
    assert not at_rest.successful
    assert far_from_full(problem, setup, full.predictor, full.latent, distance) is None


def test_no_condition_at_all_gives_the_solution_of_least_norm():
    result = gpde.solve(Problem(domain=SQUARE, equations={"interior": poisson}), Gaussian(0.4), num_interior=60).result
    assert result.outcome is Outcome.CONVERGED
    assert "of least norm" in str(result)


def test_the_residuals_are_in_the_report_and_in_the_file(tmp_path):
    solution = gpde.solve(manufactured(), Gaussian(0.3), **MANY)
    data = json.loads(json.dumps(report(solution)))
    assert set(data["residual_between_points"]) == {"interior", "boundary"}
    assert data["residual_at_points"] == dict(solution.result.at_points)
    solution.save(tmp_path / "u.npz")
    loaded = gpde.load(tmp_path / "u.npz").result
    assert (loaded.at_points, loaded.between_points) == (solution.result.at_points, solution.result.between_points)


def test_points_between_are_not_those_of_the_run():
    problem = manufactured()
    parts = collocate(problem, problem.sample(500, 100, seed=3)).parts
    for condition in exact_conditions(problem, parts, 3):
        own = {tuple(point) for point in np.asarray(condition.part.points).tolist()}
        assert not own & {tuple(point) for point in condition.pool.x.tolist()}


def test_an_equation_that_does_not_change_at_the_start_says_so_and_asks_for_another_start():
    problem = Problem(
        domain=Box(0.0, 1.0),
        equations={"interior": lambda u, x: partial(u, 0)(x) ** 2 - 1.0, "left": lambda u, x: u(x)},
    )
    stuck = gpde.solve(problem, Gaussian(0.3), num_interior=10)
    assert stuck.result.outcome is Outcome.DEGENERATE
    assert "zero at 10 of 10 points" in str(stuck.result)
    solved = gpde.solve(problem, Gaussian(0.3), num_interior=10, initial=lambda x: 0.5 * x[0])
    assert solved.result.successful
    np.testing.assert_allclose(solved([[0.5]]), 0.5, atol=1e-2)


@pytest.mark.parametrize(
    ("domain", "equations", "kernel"),
    [
        # ∫Δu = |Ω| and ∫∂u/∂n = 0: there is no solution, however well the equations hold at the points.
        (
            gpde.Ball((0.0, 0.0), 1.0),
            {"interior": lambda u, x: laplacian(u)(x) - 1, "boundary": lambda u, x, n: gpde.directional(u, n)(x)},
            Gaussian(0.6),
        ),
        # Ten periods on forty points: the oscillation falls between them.
        (
            Box(0.0, 60.0),
            {
                "interior": lambda u, x: partial(u, 0, 0)(x) + u(x),
                "left": [lambda u, x: u(x) - 1, lambda u, x: partial(u, 0)(x)],
            },
            Gaussian(1.0),
        ),
    ],
    ids=["fluxes that do not balance", "an oscillation that falls between the points"],
)
def test_what_holds_at_the_points_and_not_between_them_has_not_converged(domain, equations, kernel):
    result = gpde.solve(Problem(domain, equations), kernel, num_interior=40, num_boundary=20, nugget=1e-12).result
    assert result.outcome is Outcome.NOT_RESOLVED
    assert not result.successful
    assert max(result.between_points.values()) > 0.03


def test_a_long_channel_held_at_one_end_asks_what_twice_the_points_would_change():
    def exact(x: Any) -> Any:
        return jnp.sin(0.5 * x[0])

    equations = {
        "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
        "left": lambda u, x: u(x) - exact(x),
        "boundary": lambda u, x, n: gpde.directional(u, n)(x) - gpde.directional(exact, n)(x),
    }
    problem = Problem(Box((0.0, 0.0), (10.0, 1.0)), equations)
    solution = gpde.solve(problem, Gaussian(1.0), num_interior=60, num_boundary=40)
    grid = problem.domain.test_points((40, 10))
    truth = np.asarray(jax.jit(jax.vmap(exact))(grid))
    error = np.sqrt(np.mean((solution(grid) - truth) ** 2) / np.mean(truth**2))
    assert error > 0.05
    assert 0.005 < max(solution.result.between_points.values()) < 0.03  # little, but each error goes on to the other end
    assert solution.result.outcome is Outcome.NOT_RESOLVED
    (note,) = [note for note in solution.result.notes if "twice the points" in note]
    assert float(note.split()[-2]) / 100 == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize(("amplitude", "misses"), [(0.05, True), (1.0, False)])
def test_a_prior_too_stiff_for_the_data_is_named(amplitude, misses):
    places = np.linspace(0, 1, 30)[:, None]
    values = np.sin(6 * places[:, 0]) + 0.01 * np.random.default_rng(0).normal(size=30)
    problem = Problem(Box(0.0, 1.0), {}, observations=gpde.Observations(places, values, noise=0.01))
    result = gpde.solve(problem, Gaussian(2.0 if misses else 0.3, amplitude=amplitude)).result
    assert any("misses the 30 values of 'data'" in note for note in result.notes) is misses
