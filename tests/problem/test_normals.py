"""Equations that take the outward normal: `lambda u, x, n: ...` on parts of the boundary."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import directional, laplacian, partial
from gpde.collocation.collocation import collocate
from gpde.collocation.point_table import point_table

SQUARE = gpde.Box((0.0, 0.0), (1.0, 1.0))
KERNEL = gpde.Gaussian(0.6)


def exact(x):
    return jnp.exp(0.5 * x[0]) * jnp.sin(2 * x[1] + 0.3)


def source(u, x):
    return -laplacian(u)(x) + u(x) ** 3


def robin(u, x, n):
    return directional(u, n)(x) + 2 * u(x)


def problem(domain: Any = SQUARE, boundary=lambda u, x, n: robin(u, x, n) - robin(exact, x, n), **other):
    return gpde.Problem(
        domain=domain,
        equations={"interior": lambda u, x: source(u, x) - source(exact, x), "boundary": boundary, **other},
        reference=exact,
        defaults=gpde.Defaults(kernel=KERNEL, num_interior=60, num_boundary=24, nugget=1e-10),
    )


ROBIN = problem()
PLACES = SQUARE.sample("interior", 40, seed=3)
exact_at = jax.jit(jax.vmap(exact))
BOUNDS = {
    "full batch": (gpde.FullBatch(), 1e-4),
    "consensus": (gpde.Consensus(batch_size=30), 1e-3),
    "mini-batch": (gpde.MiniBatch(batch_size=30, num_steps=200), 5e-2),
}


@functools.cache
def solved(name):
    return gpde.solve(ROBIN, method=BOUNDS[name][0])


SLOW = {"mini-batch"}  # seconds to compile; the full GP and consensus solve the same statement on every run


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in BOUNDS])
def test_every_method_solves_a_robin_problem_stated_with_the_normal(name):
    solution = solved(name)
    assert not solution.result.failed
    assert np.abs(solution(PLACES) - exact_at(PLACES)).max() < BOUNDS[name][1]


def test_one_condition_with_the_normal_is_four_conditions_without():
    def side(axis, sign):
        flux = lambda u, x: sign * partial(u, axis)(x) + 2 * u(x)  # noqa: E731
        return lambda u, x: flux(u, x) - flux(exact, x)

    sides = {"left": side(0, -1), "right": side(0, 1), "bottom": side(1, -1), "top": side(1, 1)}
    apart = gpde.Problem(domain=SQUARE, equations={"interior": ROBIN.equations["interior"], **sides})
    points = ROBIN.sample(30, 12)
    boundary = points["boundary"]
    split = {name: boundary[SQUARE.on_part(name, boundary)] for name in sides}
    one, four = collocate(ROBIN, points), collocate(apart, {"interior": points["interior"], **split})

    def wave(x):
        return jnp.sin(x[0] + 2 * x[1])

    @eqx.filter_jit
    def residuals(collocation):
        return collocation.residual(collocation.measure([wave]))

    # Sides come one after the other in a sample of the boundary: the residuals have the same order.
    np.testing.assert_allclose(residuals(one), residuals(four), atol=1e-12)
    table = point_table(one)
    by_point = eqx.filter_jit(eqx.filter_vmap(table.residual))
    rows = by_point(jnp.arange(table.num_points), table.gather(eqx.filter_jit(one.measure)([wave])))
    np.testing.assert_allclose(np.asarray(rows)[:, 0], residuals(one), atol=1e-12)


def test_a_flux_out_of_a_disk():
    disk = problem(gpde.Ball((0.3, -0.2), 0.5))
    solution = gpde.solve(disk)
    inside = disk.domain.sample("interior", 40, seed=1)
    assert solution.result.successful
    assert np.abs(solution(inside) - exact_at(inside)).max() < 1e-4


def test_in_space_and_time_the_normal_of_a_side_has_no_part_in_time():
    domain = gpde.SpaceTime((0.0, 2.0), 0.0, 1.0)
    stated = gpde.Problem(
        domain=domain,
        equations={
            "interior": lambda u, x: partial(u, 0)(x) - partial(u, 1, 1)(x),
            "initial": lambda u, x: u(x) - jnp.cos(jnp.pi * x[1]),
            "boundary": lambda u, x, n: directional(u, n)(x),
        },
    )
    flux = collocate(stated, stated.sample(20, 12)).parts[-1]
    assert list(flux.reading.operators) == [((0, (((0, 1), 1.0),)),)]
    np.testing.assert_array_equal(flux.sites.normal[:, 1], np.where(flux.points[:, 1] > 1, 1.0, -1.0))


def test_a_side_with_a_condition_of_its_own_lends_no_normal_to_the_rest():
    stated = problem(left=lambda u, x: u(x) - exact(x))
    corner = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(stated.sites("boundary", corner, normals=True).normal, [[0, -1], [0, 1], [1, 0]])
    assert "linear, with the normal" in stated.text()


def test_residuals_and_files_know_the_normal(tmp_path):
    solution = solved("full batch")
    where = SQUARE.sample("boundary", 20, seed=5)
    normals = SQUARE.normal("boundary", where)
    slope = np.sum(solution.apply(gpde.gradient, where) * normals, axis=1)
    expected = slope + 2 * solution(where) - np.asarray(jax.jit(jax.vmap(lambda x, n: robin(exact, x, n)))(where, normals))
    np.testing.assert_allclose(solution.residual(where, "boundary"), expected, atol=1e-10)
    solution.save(tmp_path / "robin.npz")
    loaded = gpde.load(tmp_path / "robin.npz", problem=problem())
    np.testing.assert_array_equal(loaded.residual(where, "boundary"), solution.residual(where, "boundary"))
    with pytest.raises(ValueError, match="the equations on 'boundary' differ"):
        gpde.load(tmp_path / "robin.npz", problem=problem(boundary=lambda u, x, n: robin(exact, x, n) - robin(u, x, 2 * n)))


def test_the_interior_has_no_normal():
    with pytest.raises(ValueError, match=r"takes one argument after `u` and `x`, which is the outward normal, and 'interior'"):
        gpde.Problem(domain=SQUARE, equations={"interior": lambda u, x, n: laplacian(u)(x)})


def test_a_point_inside_has_no_normal():
    solution = solved("full batch")
    with pytest.raises(ValueError, match="an equation on 'boundary' takes the normal, and 2 of 2 points do not lie there"):
        solution.residual(PLACES[:2], "boundary")
