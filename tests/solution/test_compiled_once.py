"""What was compiled for one solve serves every other of the same functions: on other points, on another window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde.equations import Site, read, stated
from gpde.operators import laplacian

METHODS = {
    "full batch": gpde.FullBatch(),
    "consensus": gpde.Consensus(batch_size=12),
    "mini-batch": gpde.MiniBatch(batch_size=12, num_steps=100),
}

MORE_STEPS = {
    "full batch": gpde.FullBatch(max_steps=60),
    "consensus": gpde.Consensus(batch_size=12, max_steps=60),
    "mini-batch": gpde.MiniBatch(batch_size=12, num_steps=130),
}


class Compilations:
    """How many programs JAX has compiled."""

    def __init__(self):
        self.num = 0
        jax.monitoring.register_event_duration_secs_listener(self)

    def __call__(self, event, duration_secs, **_):
        self.num += event == "/jax/core/compile/backend_compile_duration"


COMPILATIONS = Compilations()


def equation(u, x):
    return -laplacian(u)(x) + u(x) ** 3 - jnp.sin(3 * x[0])


def observed(u):
    return lambda x: 2 * u(x)


def problem(shift):
    """The same functions on a window that lies elsewhere, with data of its own."""
    places = np.random.default_rng(0).uniform(0.2, 0.8, (4, 2)) + shift
    return gpde.Problem(
        domain=gpde.Box((shift, shift), (shift + 1, shift + 1)),
        equations={"interior": equation, "boundary": lambda u, x: u(x) - 0.1},
        observations=gpde.Observations(places, np.full(4, 0.2 + 0.01 * shift), noise=0.1, operator=observed),
        defaults=gpde.Defaults(kernel=gpde.Gaussian(0.4), num_interior=20, num_boundary=12, nugget=1e-8),
    )


def solved(stated_problem, method, seed):
    """Everything a user may ask of a solution, and how many programs that took."""
    before = COMPILATIONS.num
    solution = gpde.solve(stated_problem, method=method, seed=seed)
    # How several points fall into the batches of a mini-batch solution decides how many are evaluated together.
    places = stated_problem.domain.sample("interior", 1 if isinstance(method, gpde.MiniBatch) else 8, seed=3)
    found = solution(places), solution.std(places), solution.residual(places), solution.apply(laplacian, places)
    assert all(np.isfinite(values).all() for values in found)
    return COMPILATIONS.num - before


@pytest.mark.parametrize("name", METHODS)
def test_the_same_functions_on_other_points_or_another_window_or_with_more_steps_compile_nothing(name):
    first = problem(0.0)
    assert solved(first, METHODS[name], 0) > 0
    assert solved(first, METHODS[name], 1) == 0
    before = COMPILATIONS.num
    elsewhere = problem(1.5)
    assert solved(elsewhere, MORE_STEPS[name], 2) == 0
    assert COMPILATIONS.num == before  # nor does reading them


def reading_of(function):
    return read((stated(function, "an equation", ("u",)),), ("u",), Site(np.random.default_rng(0).uniform(size=(20, 1))))


def test_readings_are_equal_where_functions_compute_the_same():
    def scaled(factor, table=(0.0, 1.0)):
        return lambda u, x: factor * laplacian(u)(x) - jnp.interp(x[0], jnp.array([0.0, 1.0]), jnp.array(table))

    assert reading_of(scaled(2.0)) == reading_of(scaled(2.0))
    assert hash(reading_of(scaled(2.0))) == hash(reading_of(scaled(2.0)))
    assert reading_of(scaled(2.0)) != reading_of(scaled(3.0))
    assert reading_of(scaled(2.0)) != reading_of(scaled(2.0, (0.0, 1.1)))
    # An argument that is not used is none the less another one.
    assert reading_of(lambda u, x: u(x) - 1.0) != reading_of(lambda u, x: u(x) - x[0])


def test_a_function_that_looks_out_is_read_as_it_is_now():
    out = {"rate": 1.0}

    def decay(u, x):
        return u(x) - out["rate"]

    site, zero = Site(jnp.array([0.5])), jnp.zeros(1)
    assert float(reading_of(decay).residual(site, zero)[0]) == -1.0
    out["rate"] = 2.0
    assert float(reading_of(decay).residual(site, zero)[0]) == -2.0


def test_functions_that_call_back_into_python_are_not_taken_for_each_other():
    def called(function):
        shape = jax.ShapeDtypeStruct((), jnp.float64)
        return lambda u, x: u(x) - jax.pure_callback(function, shape, x[0], vmap_method="sequential")

    site, zero = Site(jnp.array([0.5])), jnp.zeros(1)
    for function in (np.sin, np.cos):
        reading = reading_of(called(lambda v, f=function: np.asarray(f(v))))
        np.testing.assert_allclose(reading.residual(site, zero), [-function(0.5)], rtol=1e-15)
