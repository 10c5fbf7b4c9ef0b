"""Unknown scalars of the equations, estimated together with the fields."""

import dataclasses
import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Observations, Parameter, Problem, partial
from gpde.collocation.collocation import collocate
from gpde.functionals.functionals import Functionals, covariance
from gpde.solution.checks.openness import scalars_are_open
from gpde.solution.checks.residuals import exact_conditions
from gpde.solution.report import report

VISCOSITY, NOISE = 0.3, 0.005
STRIP = gpde.SpaceTime((0.0, 1.0), 0.0, 1.0)


def exact(x):
    return jnp.exp(-VISCOSITY * jnp.pi**2 * x[0]) * jnp.sin(jnp.pi * x[1])


exact_at = jax.jit(jax.vmap(exact))


@functools.cache
def heat():
    places = STRIP.sample("interior", 25, seed=5)
    noise = NOISE * np.random.default_rng(0).normal(size=25)
    return Problem(
        domain=STRIP,
        equations={
            "interior": lambda u, x, nu: partial(u, 0)(x) - nu * partial(u, 1, 1)(x),
            "initial": lambda u, x: u(x) - exact(x),
            "boundary": lambda u, x: u(x),
        },
        observations=Observations(places, np.asarray(exact_at(places)) + noise, noise=NOISE),
        parameters={"nu": Parameter(initial=0.15, lower=0.0)},
        reference=exact,
    )


def solved(method):
    start = lambda x: jnp.exp(-2 * x[0]) * jnp.sin(jnp.pi * x[1])  # noqa: E731 - of another viscosity
    return gpde.solve(
        heat(), gpde.Gaussian((0.5, 0.4)), method=method, num_interior=100, num_boundary=50, nugget=1e-9, initial=start
    )


@pytest.fixture(scope="module")
def by_full_batch():
    return solved(gpde.FullBatch())


def test_a_viscosity_is_found_from_noisy_data_with_its_standard_deviation(by_full_batch):
    found = by_full_batch.parameters["nu"]
    assert by_full_batch.result.successful
    assert 0 < found.std < 0.01
    assert abs(found.value - VISCOSITY) < 3 * found.std
    places = STRIP.sample("interior", 50, seed=9)
    assert np.abs(by_full_batch(places) - exact_at(places)).max() < 0.01
    assert by_full_batch(places).shape == by_full_batch.std(places).shape == (50,)


def test_patches_find_what_the_full_process_finds(by_full_batch):
    solution = solved(gpde.Consensus(batch_size=40))
    there, here = by_full_batch.parameters["nu"], solution.parameters["nu"]
    assert solution.result.successful
    assert abs(here.value - there.value) < there.std
    assert 0.6 < here.std / there.std < 1.5  # by 64 samples


def test_mini_batches_keep_what_a_large_one_finds(by_full_batch, tmp_path):
    solution = solved(gpde.MiniBatch(batch_size=24, num_steps=2000))
    there, here = by_full_batch.parameters["nu"], solution.parameters["nu"]
    assert solution.result.successful
    assert abs(here.value - there.value) < 0.5 * there.std
    assert here.std == pytest.approx(there.std, rel=0.1)
    places = STRIP.sample("interior", 50, seed=9)
    assert np.abs(solution(places) - by_full_batch(places)).max() < 2e-3
    solution.save(tmp_path / "u.npz")
    np.testing.assert_array_equal(gpde.load(tmp_path / "u.npz").std(places), solution.std(places))


def test_a_linear_problem_has_the_solution_of_the_bordered_system():
    domain, kernel, nugget = gpde.Box(0.0, 1.0), gpde.Gaussian(0.3), 1e-8
    rng = np.random.default_rng(1)
    where, y, noise, prior = rng.uniform(0.1, 0.9, (6, 1)), rng.normal(size=6), 0.05, 4.0
    problem = Problem(
        domain=domain,
        equations={"interior": lambda u, x, load: partial(u, 0, 0)(x) - load * x[0]},
        observations=Observations(where, y, noise=noise),
        parameters={"load": Parameter(initial=1.0, std=prior)},
    )
    solution = gpde.solve(problem, kernel, num_interior=8, nugget=nugget)
    inner = solution.points["interior"]
    functionals = Functionals((((0, (((2,), 1.0),)),), ((0, (((0,), 1.0),)),)), (jnp.asarray(inner), jnp.asarray(where)))
    between = eqx.filter_jit(lambda left, right: covariance((kernel,), left, right))
    prior_u = np.asarray(between(functionals, functionals))
    column = np.concatenate([-inner[:, 0], np.zeros(6)])  # what the equations do with the load
    diagonal = np.diagonal(prior_u) + prior**2 * column**2
    s = prior_u + np.diag(nugget * diagonal + np.concatenate([np.zeros(8), np.full(6, noise**2)]))
    rhs = np.concatenate([np.zeros(8), y])
    weighted = np.linalg.solve(s, np.stack([column, rhs - column], axis=1))
    information = column @ weighted[:, 0] + prior**-2
    expected = 1.0 + column @ weighted[:, 1] / information
    found = solution.parameters["load"]
    np.testing.assert_allclose(found, [expected, information**-0.5], rtol=1e-5)
    # And so has the field: the covariances of the equations with it, with and without what is unknown of the load.
    at = np.array([[0.33], [0.71]])
    cross = np.asarray(between(Functionals((((0, (((0,), 1.0),)),),), (jnp.asarray(at),)), functionals))
    given = cross @ np.linalg.solve(s, rhs - column * expected)
    left = cross @ weighted[:, 0]
    variance = 1.0 - np.sum(cross * np.linalg.solve(s, cross.T).T, axis=1) + left**2 / information
    np.testing.assert_allclose(solution(at), given, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(solution.std(at), np.sqrt(variance), rtol=1e-3)


def test_bounds_hold_strictly_and_a_start_is_where_it_was_said():
    for parameter in (Parameter(2.0), Parameter(2.0, lower=1.0), Parameter(2.0, upper=5.0), Parameter(2.0, 1.0, 5.0)):
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(parameter.value)))(np.array([-9.0, -1.0, 0.0, 1.0, 9.0]))
        assert float(values[2]) == pytest.approx(2.0)
        assert float(slopes[2]) == pytest.approx(1.0)
        assert np.all(np.diff([parameter.lower, *values, parameter.upper]) > 0)


def test_a_scalar_is_in_words_in_files_and_in_the_report(by_full_batch, tmp_path):
    assert "scalar nu: 0.15 to start with, above 0" in by_full_batch.problem.text()
    assert "nu      0.2" in str(by_full_batch) or "nu      0.3" in str(by_full_batch)
    by_full_batch.save(tmp_path / "heat.npz")
    loaded = gpde.load(tmp_path / "heat.npz", problem=heat())
    assert loaded.parameters == by_full_batch.parameters
    places = STRIP.sample("interior", 5, seed=2)
    np.testing.assert_array_equal(loaded.residual(places), by_full_batch.residual(places))
    slope, bend = (by_full_batch.apply(lambda u, a=a: partial(u, *a), places) for a in ((0,), (1, 1)))
    expected = slope - by_full_batch.parameters["nu"].value * bend
    np.testing.assert_allclose(by_full_batch.residual(places), expected, atol=1e-6)
    written = json.loads(json.dumps(report(by_full_batch)["parameters"]))
    assert written == {"nu": by_full_batch.parameters["nu"]._asdict()}


def test_a_scalar_may_stand_beside_the_normal():
    problem = Problem(
        domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
        equations={
            "interior": lambda u, x: gpde.laplacian(u)(x),
            "boundary": lambda u, x, rate, n: gpde.directional(u, n)(x) - rate * u(x),
        },
        parameters={"rate": Parameter(1.0)},
    )
    statement = problem.conditions[1].reading.equations[0]
    assert (statement.normal, [scalar.name for scalar in statement.scalars]) == ("n", ["rate"])
    assert "rate" in problem.text()


def test_with_a_learned_kernel_the_prior_does_not_pull_at_a_scalar():
    solution = gpde.solve(heat(), num_interior=100, num_boundary=50)
    nu = solution.parameters["nu"]
    assert solution.learning is not None
    assert abs(nu.value - VISCOSITY) < 2 * nu.std < 0.1 * VISCOSITY
    assert not [note for note in solution.result.notes if "pulls" in note]


def test_a_prior_that_pulls_at_a_scalar_is_noted_with_where_it_would_go():
    small = gpde.Gaussian((0.5, 0.4), amplitude=0.3)
    solution = gpde.solve(heat(), small, num_interior=100, num_boundary=50, nugget=1e-9)
    nu = solution.parameters["nu"]
    assert abs(nu.value - VISCOSITY) > 2 * nu.std
    (note,) = [note for note in solution.result.notes if "pulls at the parameter 'nu'" in note]
    to = float(note.split("to about ")[1].split(",")[0])
    assert abs(to - VISCOSITY) < 0.5 * abs(nu.value - VISCOSITY)


def test_a_scalar_that_the_data_press_onto_its_bound_is_there_and_says_so():
    bounded = dataclasses.replace(heat(), parameters={"nu": Parameter(initial=0.15, lower=0.0, upper=0.2)})
    solution = gpde.solve(bounded, gpde.Gaussian((0.5, 0.4), amplitude=5.0), num_interior=100, num_boundary=50, nugget=1e-9)
    assert solution.parameters["nu"].value == pytest.approx(0.2, rel=0.02)
    assert any("press the parameter 'nu' onto its bound 0.2" in note for note in solution.result.notes)


def test_two_scalars_that_occur_as_a_product_are_noted_as_hardly_determined():
    times = np.linspace(0.1, 0.9, 9)[:, None]
    problem = Problem(
        gpde.Box(0.0, 1.0),
        {"interior": lambda u, x, a, b: partial(u, 0)(x) - a * b, "left": lambda u, x: u(x)},
        observations=Observations(times, 6 * times[:, 0], noise=0.01),
        parameters={"a": Parameter(1.5, lower=0.0), "b": Parameter(2.0, lower=0.0)},
    )
    solution = gpde.solve(problem, gpde.Gaussian(0.5, amplitude=20.0), num_interior=20)
    assert solution.parameters["a"].value * solution.parameters["b"].value == pytest.approx(6.0, rel=0.02)
    assert sum("hardly determined" in note for note in solution.result.notes) == 2


ERRORS = {
    "no equation depends on the parameter 'rate'": lambda: dataclasses.replace(
        heat(), parameters={**heat().parameters, "rate": Parameter(1.0)}
    ),
    "strictly between the bounds, 0 and 1; came 1": lambda: Parameter(1.0, 0.0, 1.0),
    "`std` is how far from `initial`": lambda: Parameter(1.0, std=-1.0),
    "a parameter is called 'u', which to equations is a field": lambda: dataclasses.replace(
        heat(), parameters={"u": Parameter(1.0)}
    ),
    "nu is one for all points.*or take `method=gpde.FullBatch.*` or `gpde.Consensus": lambda: gpde.solve(
        heat(), gpde.Gaussian(0.5), method=gpde.MiniBatch(num_steps=100, proximal_weight=1e3), num_interior=20, num_boundary=10
    ),
    "no datum determines the parameter 'shift'": lambda: gpde.solve(
        Problem(
            domain=gpde.Box(0.0, 1.0),
            equations={
                "interior": lambda u, v, x, shift: partial(u, 0, 0)(x) - v(x) - shift,
                "boundary": [lambda u, v, x: u(x), lambda u, v, x: v(x)],
            },
            fields=("u", "v"),
            parameters={"shift": Parameter(0.0, std=0.01)},
        ),
        gpde.Gaussian(0.3) + gpde.Offset(2.0),
        num_interior=6,
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_a_mistake_with_a_scalar_is_answered(message):
    with pytest.raises(ValueError, match=message):
        ERRORS[message]()


@pytest.mark.parametrize(
    ("more", "is_open"),
    [({}, True), ({"left": [lambda u, x: u(x), lambda u, x: partial(u, 0)(x) - 1.0]}, False), ({"right": []}, True)],
)
def test_scalars_are_open_unless_there_is_a_condition_more_than_the_fields_ask_for(more, is_open):
    equations = {"interior": lambda u, x, k: partial(u, 0, 0)(x) + k * u(x) - 1.0, "left": lambda u, x: u(x)}
    equations = {**equations, "right": lambda u, x: u(x), **more}
    problem = Problem(
        gpde.Box(0.0, 1.0), {part: e for part, e in equations.items() if e != []}, parameters={"k": Parameter(1.0)}
    )
    parts = collocate(problem, problem.sample(12, 2), "minimal").parts
    assert scalars_are_open(problem, exact_conditions(problem, parts, 0)) == is_open
