"""Fields that live on a part of the domain, and fields with a prior mean."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Observations, Problem, Unknown, directional, partial

ROD = gpde.Divided(gpde.Box(0.0, 1.0), gpde.Box(-1.0, 0.4), ("left part", "right part"))
CONDUCTIVITY = 5.0  # of the right part
PLACES = np.linspace(0, 1, 32)[:, None]
KERNEL = gpde.Gaussian(0.4) + gpde.Offset(1.0)
METHODS = {"full-batch": gpde.FullBatch(), "consensus": gpde.Consensus(batch_size=20), "mini-batch": gpde.MiniBatch()}


def cold(x):
    return jnp.sin(3 * x[0])


def warm(x):
    return 1.0 + jnp.cos(2 * x[0])


def two_rods(**changes):
    """Two rods that touch: the temperature jumps where they meet, and the flux of one is that of the other and a source."""

    def flux(u, v, x, n):
        return directional(u, n)(x) - CONDUCTIVITY * directional(v, n)(x)

    given = {
        "equations": {
            "left part": lambda u, v, x: partial(u, 0, 0)(x) - partial(cold, 0, 0)(x),
            "right part": lambda u, v, x: partial(v, 0, 0)(x) + v(x) ** 2 - partial(warm, 0, 0)(x) - warm(x) ** 2,
            "left": lambda u, v, x: u(x) - cold(x),
            "right": lambda u, v, x: v(x) - warm(x),
            "interface": [
                lambda u, v, x: v(x) - u(x) - warm(x) + cold(x),
                lambda u, v, x, n: flux(u, v, x, n) - flux(cold, warm, x, n),
            ],
        },
        "fields": {"u": Unknown(on="left part"), "v": Unknown(on="right part")},
        "reference": lambda x: (cold(x), warm(x)),
    }
    return Problem(ROD, **{**given, **changes})


@functools.cache
def solved_rods(method):
    return gpde.solve(two_rods(), gpde.Gaussian(0.4), method=METHODS[method], num_interior=30, nugget=1e-12)


@pytest.mark.parametrize("method", ["full-batch", "consensus"])
def test_two_fields_meet_at_an_interface_with_a_jump(method):
    solution = solved_rods(method)
    values = solution(PLACES)
    left = PLACES[:, 0] <= 0.4
    assert solution.result.successful
    assert np.array_equal(np.isnan(values), np.stack([~left, left], axis=1))
    assert np.abs(values[left, 0] - np.sin(3 * PLACES[left, 0])).max() < 1e-5
    assert np.abs(values[~left, 1] - (1.0 + np.cos(2 * PLACES[~left, 0]))).max() < 1e-5
    assert np.isnan(solution.std(PLACES)[~left, 0]).all()


def test_a_field_cannot_be_looked_at_where_it_does_not_live():
    equations = {"left part": lambda u, v, x: partial(u, 0, 0)(x) + v(x)}
    with pytest.raises(ValueError, match=r"on 'left part' look at the field 'v', which lives on 'right part', at points"):
        two_rods(equations=equations)
    with pytest.raises(ValueError, match=r"the observations 'data' look at the field 'u', which lives on 'left part'"):
        two_rods(observations=Observations(np.array([[0.9]]), np.array([1.0])))
    with pytest.raises(ValueError, match=r"the field 'u' lives on 'core', which is no part of the domain"):
        two_rods(fields={"u": Unknown(on="core"), "v": None})


def test_a_picture_and_a_report_leave_out_what_does_not_live(tmp_path):
    from gpde.solution.errors import Predictions, errors

    solution = solved_rods("full-batch")
    found = errors(Predictions(solution), PLACES)
    assert found["linf"] is not None
    assert found["linf"] < 1e-4
    solution.plot(tmp_path / "rods.png")
    solution.save(tmp_path / "rods.npz")
    with pytest.raises(ValueError, match=r"lives on a part of the domain .* `gpde.load\(path, problem=...\)`"):
        gpde.load(tmp_path / "rods.npz")
    again = gpde.load(tmp_path / "rods.npz", problem=two_rods())
    assert np.array_equal(again(PLACES), solution(PLACES), equal_nan=True)


def straight(x):
    return 3.0 + 2.0 * x[0]


def test_without_data_a_field_is_its_prior_mean_and_far_from_them_it_returns_there():
    data = Observations(np.array([[0.0]]), np.array([3.5]))
    problem = Problem(gpde.Box(0.0, 1.0), {}, fields={"a": Unknown(mean=straight)}, observations=data)
    solution = gpde.solve(problem, gpde.Gaussian(0.1), nugget=1e-12)
    assert np.allclose(solution(np.array([[0.0], [1.0]])), [3.5, 5.0], atol=1e-9)
    assert np.allclose(solution.apply(lambda a: partial(a, 0), np.array([[1.0]])), [2.0], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_prior_mean_changes_nothing_but_where_the_prior_is_centred(method):
    """With u = m + v the equation of u is one of v with another right side, to every method."""

    def equation(u, x):
        return partial(u, 0, 0)(x) - u(x) ** 3

    def shifted(v, x):
        return equation(lambda y: v(y) + straight(y), x)

    box = gpde.Box(0.0, 1.0)
    by_mean = Problem(box, {"interior": equation, "boundary": lambda u, x: u(x) - 4.0}, fields={"u": Unknown(mean=straight)})
    by_hand = Problem(box, {"interior": shifted, "boundary": lambda v, x: v(x) + straight(x) - 4.0}, fields=("v",))
    few = {
        "num_interior": 20,
        "nugget": 1e-10,
        "method": METHODS[method] if method != "mini-batch" else gpde.MiniBatch(num_steps=40),
    }
    u, v = (gpde.solve(problem, gpde.Gaussian(0.3), **few) for problem in (by_mean, by_hand))
    assert np.allclose(u(PLACES), v(PLACES) + straight(PLACES.T), rtol=1e-12)
    assert np.allclose(u.std(PLACES), v.std(PLACES), rtol=1e-9)


def test_a_start_is_that_of_the_whole_field():
    problem = Problem(
        gpde.Box(0.0, 1.0),
        {"interior": lambda u, x: partial(u, 0)(x) - 2.0, "left": lambda u, x: u(x) ** 2 - 9.0},
        fields={"u": Unknown(mean=straight)},
    )
    for sign in (1.0, -1.0):
        solution = gpde.solve(problem, KERNEL, num_interior=8, nugget=1e-12, initial=lambda x, s=sign: s * 3.0 + 2.0 * x[0])
        assert np.allclose(solution(PLACES), sign * 3.0 + 2.0 * PLACES[:, 0], atol=1e-2)


@pytest.mark.parametrize("mean", [np.nan, np.inf])
def test_a_mean_is_a_number_or_a_function(mean):
    with pytest.raises(ValueError, match=r"`Unknown`: `mean` is a finite number or a function of one point"):
        Unknown(mean=mean)
