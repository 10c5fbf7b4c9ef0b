"""Solvers for sums of small blocks, against dense linear algebra."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.linear_solvers import BlockSum, Direct, Schwarz, has_pardiso
from gpde.linear_solvers.base import product


@pytest.fixture(scope="module")
def system():
    """A discrete Laplacian-like sum of positive definite blocks on scattered points, one value fixed."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(600, 2)) * (30.0, 1.0)  # a long strip: what happens far away travels slowly
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    members = np.argsort(distance, axis=1)[:, :8]
    blocks = []
    for row in members:
        weights = 1.0 / (0.2 + distance[row[0], row[1:]])
        graph = np.zeros((8, 8))
        graph[0, 1:] = graph[1:, 0] = -weights
        graph[range(8), range(8)] = -graph.sum(axis=1)
        blocks.append(graph + 1e-6 * np.eye(8))
    rows = np.where(members == 599, 599, members).astype(np.int32)  # the last point's value is fixed: dropped
    dense = np.zeros((600, 600))
    for row, block in zip(members, blocks, strict=True):
        dense[np.ix_(row, row)] += block
    return BlockSum(np.stack(blocks), rows, 599), dense[:599, :599], points[:599]


def test_the_assembled_matrix_is_the_sum_of_its_blocks(system):
    matrix, dense, _ = system
    assert np.abs(matrix.sparse().toarray() - dense).max() < 1e-12
    x = np.random.default_rng(1).normal(size=599)
    assert (
        np.abs(np.asarray(product(jnp.asarray(matrix.blocks), jnp.asarray(matrix.rows), jnp.asarray(x))) - dense @ x).max()
        < 1e-10
    )


needs_pardiso = pytest.mark.skipif(not has_pardiso(), reason="pypardiso is not installed")


@pytest.mark.parametrize(
    ("solver", "settings"),
    [
        (Direct, {"library": "superlu"}),
        pytest.param(Direct, {"library": "pardiso"}, marks=needs_pardiso),
        (Schwarz, {"cell_size": 40, "coarse_ratio": 20}),
    ],
)
def test_a_solver_solves(system, solver, settings):
    matrix, dense, points = system
    solver = solver(**settings)
    rhs = np.random.default_rng(2).normal(size=599)
    prepared = solver.compute(matrix, points, np.zeros(599, dtype=int))
    solved = solver.solve(matrix, prepared, rhs, 1e-10)
    expected = np.linalg.solve(dense, rhs)
    assert solved.residual <= 1e-10
    assert np.abs(solved.solution - expected).max() < 1e-6 * np.abs(expected).max()


def test_the_coarse_space_saves_iterations(system):
    matrix, _, points = system
    rhs = np.ones(599)  # a smooth right side, which local solves alone carry across the domain one overlap at a time
    solver = Schwarz(cell_size=40, coarse_ratio=20)
    both = solver.compute(matrix, points, np.zeros(599, dtype=int))
    local = eqx.tree_at(lambda p: p.weights, both.preconditioner, jnp.zeros_like(both.preconditioner.weights))
    with_coarse = solver.solve(matrix, both, rhs, 1e-10).num_iterations
    without = solver.solve(matrix, both._replace(preconditioner=local, iterations=[]), rhs, 1e-10).num_iterations
    assert with_coarse < without


def test_a_preconditioner_is_used_again_while_it_works_and_made_anew_when_it_does_not(system):
    matrix, _, points = system
    solver = Schwarz(cell_size=40, coarse_ratio=20)
    component = np.zeros(599, dtype=int)
    prepared = solver.compute(matrix, points, component)
    solver.solve(matrix, prepared, np.ones(599), 1e-8)
    assert solver.compute(matrix, points, component, prepared) is prepared
    prepared.iterations.append(10 * prepared.iterations[0] + 100)
    assert solver.compute(matrix, points, component, prepared) is not prepared


def test_a_zero_right_side_gives_zero(system):
    matrix, _, points = system
    for solver in (Direct(), Schwarz(cell_size=40, coarse_ratio=20)):
        prepared = solver.compute(matrix, points, np.zeros(599, dtype=int))
        assert not solver.solve(matrix, prepared, np.zeros(599), 1e-10).solution.any()


def test_a_pattern_serves_the_next_matrix(system):
    matrix, dense, points = system
    component = np.zeros(599, dtype=int)
    first = Direct().compute(matrix, points, component)
    doubled = BlockSum(2 * matrix.blocks, matrix.rows, matrix.size)
    second = Direct().compute(doubled, points, component, first)
    assert second.pattern is first.pattern
    solved = Direct().solve(doubled, second, np.ones(599), 1e-10)
    assert np.abs(solved.solution - np.linalg.solve(2 * dense, np.ones(599))).max() < 1e-6


def test_a_library_that_is_unknown_or_missing_is_refused():
    with pytest.raises(ValueError, match=r"`library` must be one of \('superlu', 'pardiso'\) or None; came 'umfpack'"):
        Direct(library="umfpack")
    if not has_pardiso():
        with pytest.raises(ValueError, match=r"pip install gpde\[pardiso\]"):
            Direct(library="pardiso")
