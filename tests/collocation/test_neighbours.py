"""Which points are near: the metric of the prior, periods included, against brute force; and solutions on circles."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpde
from gpde.collocation.cover import cover
from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.kernels import FunctionKernel, Gaussian, Matern, common_period
from gpde.methods import Consensus, MiniBatch
from gpde.operators import laplacian, partial


def chords(points, centres, scale, period):
    """Distances by brute force: along each coordinate over all images of a point, then the chord of that arc."""
    total = np.zeros((len(centres), len(points)))
    for axis, (length, around) in enumerate(zip(scale, period, strict=True)):
        gap = centres[:, None, axis] - points[None, :, axis]
        if math.isfinite(around):
            arc = np.min([np.abs(gap + k * around) for k in range(-8, 9)], axis=0)
            gap = around / math.pi * np.sin(math.pi * arc / around)
        total += (gap / length) ** 2
    return np.sqrt(total)


metrics = st.lists(
    st.tuples(st.sampled_from([0.1, 1.0, 3.0]), st.sampled_from([math.inf, 0.5, 1.0, 2.0])), min_size=1, max_size=3
)


@given(metrics, st.integers(0, 99), st.integers(1, 60))
def test_the_nearest_points_are_those_of_brute_force_over_all_images(axes, seed, num):
    scale, period = map(np.array, zip(*axes, strict=True))
    rng = np.random.default_rng(seed)
    points, centres = rng.uniform(size=(50, len(axes))), rng.uniform(-1, 2, size=(10, len(axes)))
    metric = Metric(scale, period)
    distance, index = NeighbourIndex(metric.coordinates(points)).nearest(metric.coordinates(centres), num)
    expected = chords(points, centres, scale, period)
    # Places rather than indices: with a period of 1/2 two points may be one.
    np.testing.assert_allclose(distance, np.sort(expected, axis=1)[:, :num], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(expected, index, axis=1), distance, atol=1e-12)


def test_the_metric_is_the_one_in_the_kernels_exponent():
    kernel = Gaussian((0.3, 0.7), period={1: 2.0})
    x, y = np.array([[0.1, 0.1]]), np.array([[0.2, 1.7]])
    coordinates = Metric.of((kernel,), 2).coordinates
    squared = np.sum((coordinates(x) - coordinates(y)) ** 2)
    assert np.exp(-squared / 2) == pytest.approx(float(kernel(jnp.asarray(x[0]), jnp.asarray(y[0]))), rel=1e-12)


def test_a_sum_or_product_is_periodic_where_both_kernels_are():
    ring, half, line = (Gaussian(0.2, period=period) for period in ({0: 1.0}, {0: 0.5}, None))
    for kernel in (ring + half, ring * half, half + ring, ring + ring):
        np.testing.assert_array_equal(kernel.periods(2), [1.0, math.inf])
    for kernel in (ring + line, ring * line, ring + Gaussian(0.2, period={0: 0.7}), FunctionKernel(lambda x, y: x @ y)):
        assert np.isinf(kernel.periods(2)).all()
    assert math.isinf(common_period((1.0, math.inf)))


def test_the_metric_of_several_fields_has_the_smallest_lengthscales_and_every_period():
    metric = Metric.of((Gaussian((0.3, 0.05), period={0: 1.0}), Matern(2.5, 0.1, period={0: 2.0})), 2)
    np.testing.assert_allclose(metric.scale, [0.1, 0.05])
    np.testing.assert_array_equal(metric.period, [2.0, math.inf])
    plain = Metric.of((Gaussian(0.3, period={0: 1.0}), Gaussian(0.2)), 2, scaled=False)
    np.testing.assert_array_equal(plain.scale, [1.0, 1.0])
    np.testing.assert_array_equal(plain.period, [1.0, math.inf])
    with pytest.raises(ValueError, match=r"coordinate 0 the fields have the periods 1, 0\.7"):
        Metric.of((Gaussian(0.3, period={0: 1.0}), Gaussian(0.3, period={0: 0.7})), 2)


def test_patches_reach_across_the_ends_and_points_are_owned_by_the_nearest_centre_across_them():
    points = (np.arange(40)[:, None] + 0.5) / 40
    metric = Metric.of((Gaussian(0.2, period={0: 1.0}),), 1)
    patches = cover(metric.coordinates(points), 9, 40)
    distance = chords(points, points, metric.scale, metric.period)
    for centre, members in zip(patches.centres, patches.members, strict=True):
        assert set(members) == {(centre + shift) % 40 for shift in range(-4, 5)}
    np.testing.assert_allclose(distance[np.arange(40), patches.centres[patches.owner]], 0.0, atol=1e-12)


# --- solutions: nothing is stated at the ends of a period, so batches and patches have to reach across them ---


def ring(x):
    return jnp.sin(2 * jnp.pi * x[0]) + 0.5 * jnp.cos(4 * jnp.pi * x[0] + 1)


def both(x):
    return jnp.sin(2 * jnp.pi * x[0] + 1) * jnp.cos(2 * jnp.pi * x[1])


def wave(x):  # (t, x)
    return jnp.sin(2 * jnp.pi * (x[1] - x[0]) + 1)


def heat(x):  # (t, x)
    return jnp.exp(-4 * jnp.pi**2 * 0.05 * x[0]) * jnp.sin(2 * jnp.pi * x[1] + 1)


def reaction(u, x):
    return -laplacian(u)(x) + u(x) ** 3 + u(x)


def of(left_side, exact):
    return lambda u, x: left_side(u, x) - left_side(exact, x)


STRIP = gpde.SpaceTime(gpde.Box(0.0, 1.0), 0.0, 0.5)
SQUARE = gpde.Box((0.0, 0.0), (1.0, 1.0))
PROBLEMS = {
    "a circle": (
        lambda: gpde.Problem(gpde.Box(0.0, 1.0), {"interior": of(reaction, ring)}, reference=ring),
        Gaussian(0.2, period={0: 1.0}), 60, 0, 16, 1e-5,
    ),
    "a cylinder": (
        lambda: gpde.Problem(
            SQUARE,
            {"interior": of(reaction, both)} | {side: lambda u, x: u(x) - both(x) for side in ("bottom", "top")},
            reference=both,
        ),
        Gaussian(0.4, period={0: 1.0}), 200, 40, 40, 1e-4,
    ),
    "a torus": (
        lambda: gpde.Problem(SQUARE, {"interior": of(reaction, both)}, reference=both),
        Gaussian(0.4, period={0: 1.0, 1: 1.0}), 200, 0, 40, 1e-4,
    ),
    "advection around a circle": (
        lambda: gpde.Problem(
            STRIP,
            {"interior": lambda u, x: partial(u, 0)(x) + partial(u, 1)(x), "initial": lambda u, x: u(x) - wave(x)},
            reference=wave,
        ),
        Gaussian((0.3, 0.3), period={1: 1.0}), 150, 30, 40, 1e-4,
    ),
    "heat around a circle": (
        lambda: gpde.Problem(
            STRIP,
            {
                "interior": lambda u, x: partial(u, 0)(x) - 0.05 * partial(u, 1, 1)(x),
                "initial": lambda u, x: u(x) - heat(x),
            },
            reference=heat,
        ),
        Gaussian((0.4, 0.3), period={1: 1.0}), 150, 30, 40, 1e-4,
    ),
}  # fmt: skip


def names(*quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]


def solved(name, method, nugget):
    """A solution with its error, and how much it differs one period further, where it must be the same."""
    make, kernel, num_interior, num_boundary, _, _ = PROBLEMS[name]
    problem = make()
    numbers = {"num_interior": num_interior, "num_boundary": num_boundary, "sampling": "halton"}
    solution = gpde.solve(problem, kernel, method=method, nugget=nugget, **numbers)
    points = problem.domain.grid((15,) * problem.domain.dim)
    around = np.nan_to_num(kernel.periods(problem.domain.dim), posinf=0.0)
    here, there = solution(points), solution(points - 2 * around)
    assert problem.reference is not None
    return solution, np.abs(here - jax.vmap(problem.reference)(jnp.asarray(points))).max(), np.abs(there - here).max()


@pytest.mark.parametrize("name", names("a circle", "heat around a circle"))
def test_consensus_solves_on(name):
    *_, batch_size, tolerance = PROBLEMS[name]
    solution, error, difference = solved(name, Consensus(batch_size=batch_size), 1e-12)
    assert solution.result.successful
    assert error < tolerance
    assert difference < 1e-9


@pytest.mark.parametrize("name", names("a circle"))
def test_mini_batch_solves_on(name):
    _, error, difference = solved(name, MiniBatch(batch_size=PROBLEMS[name][4], num_steps=3000), 1e-10)
    assert error < 1e-2
    assert difference < 1e-6
