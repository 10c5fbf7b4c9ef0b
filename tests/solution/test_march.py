"""Long times: windows that follow one another are one function, near the truth at every time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import (
    Box,
    Consensus,
    Divided,
    Gaussian,
    MiniBatch,
    Observations,
    Offset,
    Parameter,
    Problem,
    SpaceTime,
    Unknown,
    march,
    partial,
    solve,
)
from gpde.outcomes import Outcome

KERNEL, POINTS = Gaussian((0.5, 0.4)), {"num_interior": 80, "num_boundary": 40, "nugget": 1e-11}


def decay(x):
    return jnp.exp(-0.1 * jnp.pi**2 * x[0]) * jnp.sin(jnp.pi * x[1])


def given(u, x):
    return u(x) - decay(x)


def heat(u, x):
    return partial(u, 0)(x) - 0.1 * partial(u, 1, 1)(x)


def scaled_heat(u, x, nu):
    return partial(u, 0)(x) - nu * partial(u, 1, 1)(x)


HEAT = Problem(
    SpaceTime((0.0, 1.0), 0.0, 2.0), {"interior": heat, "initial": given, "boundary": given}, reference=decay, name="heat"
)


GRID = HEAT.domain.grid((17, 9))
TRUTH = np.exp(-0.1 * np.pi**2 * GRID[:, 0]) * np.sin(np.pi * GRID[:, 1])


@pytest.fixture(scope="module")
def march_and_counts():
    """Four windows, and how many programs had been compiled when each began and when the last one ended."""
    compiled, counts = [], []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    def counted(*arguments, **options):
        counts.append(len(compiled))
        return solve(*arguments, **options)

    jax.monitoring.register_event_duration_secs_listener(listen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpde.solution.march.solve", counted)
        marched = march(HEAT, KERNEL, windows=4, **POINTS)
    return marched, [*counts, len(compiled)]


@pytest.fixture(scope="module")
def marched(march_and_counts):
    return march_and_counts[0]


def test_from_the_third_window_on_nothing_compiles(march_and_counts):
    _, counts = march_and_counts
    assert counts[1] > counts[0]
    assert counts[2] == counts[3] == counts[4]


def test_windows_are_one_function_near_the_truth_at_every_time(marched):
    assert np.abs(marched(GRID) - TRUTH).max() < 2e-5
    assert marched.result.outcome is Outcome.CONVERGED
    assert {entry["window"] for entry in marched.history} == {1, 2, 3, 4}
    assert len(marched.points["interior"]) == 4 * 80
    assert "marched through 4 of 4 windows" in str(marched.result)
    assert "open" not in str(marched.result)  # the start of a window is a condition there


def test_where_windows_meet_the_earlier_and_the_later_agree(marched):
    early, late = marched.predictor.predictors[:2]
    meeting = np.column_stack([np.full(9, 0.5), np.linspace(0, 1, 9)])
    value = marched._identities
    np.testing.assert_allclose(early.values(value, meeting), late.values(value, meeting), atol=2e-5)


def test_a_marched_solution_is_saved_and_loaded_bit_by_bit(marched, tmp_path):
    marched.save(tmp_path / "marched.npz")
    again = gpde.load(tmp_path / "marched.npz", problem=HEAT)
    np.testing.assert_array_equal(again(GRID), marched(GRID))
    np.testing.assert_array_equal(again.std(GRID), marched.std(GRID))
    with pytest.raises(ValueError, match=r"file is of a march.*ask before `save`"):
        again.error_estimate()


@pytest.fixture(scope="module")
def wave_and_errors():
    """Two windows of a standing wave, places, and how far it is from the truth there."""

    def wave(x):
        return jnp.cos(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    problem = Problem(
        SpaceTime((0.0, 1.0), 0.0, 1.0),
        {
            "interior": lambda u, x: partial(u, 0, 0)(x) - partial(u, 1, 1)(x),
            "initial": [lambda u, x: u(x) - wave(x), lambda u, x: partial(u, 0)(x)],
            "boundary": lambda u, x: u(x),
        },
    )
    solution = march(problem, Gaussian((0.5, 0.5)), windows=2, **POINTS)
    points = problem.domain.sample("interior", 400, sampling="sobol")
    return solution, points, np.abs(solution(points) - np.cos(np.pi * points[:, 0]) * np.sin(np.pi * points[:, 1]))


def test_an_equation_with_two_time_derivatives_hands_on_value_and_velocity(wave_and_errors):
    assert wave_and_errors[2].max() < 1e-3


def test_the_estimate_of_a_march_knows_what_a_window_has_from_the_one_before(wave_and_errors):
    solution, points, errors = wave_and_errors
    late = points[:, 0] > 0.5
    assert np.sqrt(np.mean(errors[late] ** 2)) > 2 * np.sqrt(np.mean(errors[~late] ** 2))
    assert solution.error_estimate() == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.2)
    covered = errors < 1.96 * solution.std(points, calibrated=True)
    assert min(covered[late].mean(), covered[~late].mean()) > 0.9
    assert covered.mean() < 0.99


def test_what_noise_leaves_open_at_the_start_of_a_window_is_not_known_to_it(marched):
    noisy = dataclasses.replace(HEAT, observations=Observations(np.array([[0.5, 0.5]]), np.array([0.6]), noise=0.1))
    first = marched.windows[0]
    with pytest.raises(ValueError, match=r"takes its start for exact.*`solve`"):
        dataclasses.replace(marched, windows=(first._replace(whole=noisy),)).error_estimate()
    with pytest.raises(ValueError, match="each window of a march has one of its own"):
        _ = marched.amplitude


def test_a_level_pinned_at_the_first_instant_holds_and_the_start_may_take_the_normal_and_sides_further_names():
    def slope(u, x):
        return partial(u, 1)(x) - partial(decay, 1)(x)

    problem = Problem(
        HEAT.domain.with_parts(far=lambda x: x[1] > 0.5),
        {"interior": heat, "initial": lambda u, x, n: slope(u, x) + 1 + n[0], "boundary": slope, "far": slope},
        observations=Observations(np.array([[0.0, 0.5], [1.5, 0.5]]), np.exp([0.0, -0.15 * np.pi**2])),
    )
    solution = march(problem, KERNEL + Offset(), windows=2, **POINTS)
    assert np.abs(solution(GRID) - TRUTH).max() < 1e-4


def test_fields_on_two_regions_are_each_handed_on():
    problem = Problem(
        Divided(HEAT.domain, SpaceTime((0.0, 0.4), 0.0, 2.0)),
        {
            "inside": lambda u, v, x: partial(u, 0)(x) + u(x),
            "outside": lambda u, v, x: partial(v, 0)(x) + 0.5 * v(x),
            "initial & inside": lambda u, v, x: u(x) - jnp.cos(x[1]),
            "initial & outside": lambda u, v, x: 2 * v(x) - jnp.sin(x[1]),
        },
        fields={"u": Unknown(on="inside"), "v": Unknown(on="outside")},
    )
    solution = march(problem, KERNEL, windows=2, **POINTS)
    t, x = GRID.T
    truth = np.stack([np.exp(-t) * np.cos(x), 0.5 * np.exp(-0.5 * t) * np.sin(x)], axis=1)
    inside = x <= 0.4
    np.testing.assert_array_equal(np.isnan(solution(GRID)), np.stack([~inside, inside], axis=1))
    assert np.nanmax(np.abs(solution(GRID) - truth)) < 1e-3


def test_one_window_is_a_plain_solve_whose_start_is_data():
    plain = solve(HEAT, KERNEL, **POINTS)
    np.testing.assert_allclose(march(HEAT, KERNEL, windows=1, **POINTS)(GRID), plain(GRID), atol=1e-6)


def test_a_region_that_ends_on_the_way_is_in_a_window_as_long_as_it_lasts():
    ending = Divided(HEAT.domain, SpaceTime((0.0, 0.4), 0.0, 1.5))
    for times, area in (((0.0, 1.0), 0.4), ((1.0, 2.0), 0.2)):
        window = ending.during(*times)
        assert window is not None
        assert window.measure("inside") == pytest.approx(area, rel=1e-2)


@pytest.mark.parametrize(
    "method",
    [Consensus(batch_size=30), pytest.param(MiniBatch(batch_size=30, num_steps=800), marks=pytest.mark.slow)],
    ids=lambda m: m.name,
)
def test_every_method_marches(method):
    solution = march(HEAT, KERNEL, windows=2, method=method, **POINTS)
    assert np.abs(solution(GRID) - TRUTH).max() < 1e-2


@pytest.mark.parametrize(
    ("problem", "arguments", "message"),
    [
        (Problem(Box((0.0, 0.0), (1.0, 1.0)), {"interior": heat}), {"windows": 2}, "needs a time"),
        (Problem(HEAT.domain, {"interior": heat}), {"windows": 2}, "no equation on 'initial'"),
        (Problem(HEAT.domain, {"interior": heat, "initial": lambda u, x: u(x) ** 3}), {"windows": 2}, "must be linear"),
        (
            Problem(HEAT.domain, {"interior": scaled_heat, "initial": given}, parameters={"nu": Parameter(0.1)}),
            {"windows": 2},
            r"unknown scalars \(nu\), which all data determine together",
        ),
        (
            Problem(HEAT.domain.with_parts(early=lambda x: x[0] < 0.5), {**HEAT.equations, "early": given}),
            {"windows": 2},
            "in the window from 1 to 2: .*'early' is empty.*choose other `windows`",
        ),
        (HEAT, {"windows": 0}, "`windows` is how many"),
        (HEAT, {"windows": [0.0, 3.0, 2.0]}, "`windows` is how many"),
        (HEAT, {"windows": 2, "initial": decay}, "each window starts from the last"),
    ],
)
def test_a_march_that_cannot_be_says_why(problem, arguments, message):
    with pytest.raises(ValueError, match=message):
        march(problem, KERNEL, **arguments)


def test_a_pin_on_the_boundary_is_no_condition_of_that_side():
    pinned = Problem(
        Box((0.0, 0.0), (1.0, 1.0)),
        {"interior": lambda u, x: partial(u, 0, 0)(x) + partial(u, 1, 1)(x), "left": lambda u, x: u(x)},
        observations=Observations(np.array([[1.0, 0.5]]), np.array([1.0])),
    )
    assert "open" in str(solve(pinned, Gaussian(0.5), num_interior=20, num_boundary=10).result)
