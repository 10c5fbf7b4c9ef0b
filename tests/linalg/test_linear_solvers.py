"""Solvers for sums of small blocks, against dense linear algebra."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpde.linalg import BlockSum, Direct, Schwarz
from gpde.linalg.block_sum import product
from gpde.linalg.dissection import dissect


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
    assert np.abs(matrix.times(x) - dense @ x).max() < 1e-10
    assert np.abs(matrix.diagonal() - np.diag(dense)).max() < 1e-12


@pytest.mark.parametrize(
    ("solver", "settings"),
    [
        (Direct, {}),
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
    assert both.preconditioner is not None
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


def test_the_order_of_elimination_serves_the_next_matrix(system):
    matrix, dense, points = system
    component = np.zeros(599, dtype=int)
    kept = Direct().keep(Direct().compute(matrix, points, component))
    doubled = BlockSum(2 * matrix.blocks, matrix.rows, matrix.size)
    second = Direct().compute(doubled, points, component, kept)
    assert second.elimination is kept
    solved = Direct().solve(doubled, second, np.ones(599), 1e-10)
    assert np.abs(solved.solution - np.linalg.solve(2 * dense, np.ones(599))).max() < 1e-6


def patches_on(seed: int, num: int, dim: int, num_fields: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring points' unknowns in blocks, every tenth unknown fixed, and where the others lie."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(num, dim))
    near = np.argsort(np.linalg.norm(points[:, None] - points[None], axis=-1), axis=1)[:, :width]
    unknown = np.cumsum(np.arange(num * num_fields) % 10 > 0) - 1
    size = int(unknown[-1]) + 1
    unknown[::10] = size
    rows = np.concatenate([unknown[near * num_fields + field] for field in range(num_fields)], axis=1)
    return rows.astype(np.int32), np.repeat(points, num_fields, axis=0)[np.arange(num * num_fields) % 10 > 0]


clouds = st.tuples(st.integers(0, 99), st.integers(30, 400), st.integers(1, 3), st.integers(1, 2), st.integers(2, 9))


@settings(max_examples=25, deadline=None)
@given(clouds)
def test_every_unknown_is_eliminated_once_and_every_block_belongs_to_one_front_that_holds_it(cloud):
    rows, coordinates = patches_on(*cloud)
    elimination = dissect(rows, coordinates)
    assert np.array_equal(np.sort(elimination.order), np.arange(len(coordinates)))
    assert np.array_equal(elimination.order[elimination.position[:-1]], np.arange(len(coordinates)))
    assert [f.first for f in elimination.fronts[1:]] == [f.last for f in elimination.fronts[:-1]]
    taken = np.concatenate([f.blocks for f in elimination.fronts])
    needed = np.flatnonzero(np.any(rows < len(coordinates), axis=1))
    assert np.array_equal(np.sort(taken), needed)
    for index, front in enumerate(elimination.fronts):
        held = set(front.unknowns.tolist())
        assert set(elimination.position[rows[front.blocks]].reshape(-1).tolist()) <= held | {len(coordinates)}
        for child in front.children:
            assert child < index
            assert set(elimination.fronts[child].boundary.tolist()) <= held


@settings(max_examples=25, deadline=None)
@given(clouds)
def test_the_direct_solver_agrees_with_dense_linear_algebra(cloud):
    rows, coordinates = patches_on(*cloud)
    size = len(coordinates)
    rng = np.random.default_rng(1)
    roots = rng.normal(size=(*rows.shape, rows.shape[1]))
    scale = 10.0 ** rng.uniform(-6, 6, size=rows.shape[0])  # patches that are more sure of themselves than others
    blocks = scale[:, None, None] * (roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(rows.shape[1]))
    dense = np.zeros((size + 1, size + 1))
    for row, block in zip(rows, blocks, strict=True):
        dense[np.ix_(row, row)] += block
    dense = dense[:size, :size]
    covered = np.diag(dense) > 0
    dense[~covered, ~covered] = 1.0
    if not covered.all():  # a point whose neighbours do not have it: give it a block of its own
        alone = np.full((int(np.sum(~covered)), rows.shape[1]), size, dtype=np.int32)
        alone[:, 0] = np.flatnonzero(~covered)
        rows, blocks = (
            np.concatenate([rows, alone]),
            np.concatenate([blocks, np.eye(rows.shape[1])[None].repeat(len(alone), 0)]),
        )
    matrix = BlockSum(blocks, rows, size)
    truth = rng.normal(size=size)
    solver = Direct()
    solved = solver.solve(matrix, solver.compute(matrix, coordinates, np.zeros(size, dtype=int)), dense @ truth, 1e-14)
    assert solved.residual < 1e-12
    unit = np.sqrt(np.diag(dense))
    assert np.abs(unit * (solved.solution - truth)).max() < 1e-6 * np.abs(unit * truth).max()


def test_a_matrix_that_rounding_makes_indefinite_is_solved_as_far_as_it_goes():
    grid = np.arange(40.0)
    smooth = np.exp(-0.5 * ((grid[:, None] - grid[None]) / 6.0) ** 2)  # positive definite on paper, not in double precision
    assert np.linalg.eigvalsh(smooth)[0] < 0
    matrix = BlockSum(smooth[None], np.arange(40, dtype=np.int32)[None], 40)
    rhs = smooth @ np.sin(grid)
    solver = Direct()
    solved = solver.solve(matrix, solver.compute(matrix, grid[:, None], np.zeros(40, dtype=int)), rhs, 1e-10)
    assert solved.residual < 1e-10
    assert np.abs(smooth @ solved.solution - rhs).max() < 1e-8


def test_a_shift_in_one_front_is_made_good_for_in_all(system):
    matrix, dense, points = system
    # One value's pivot all but vanishes: what eliminates before it leaves rounding errors, here of the wrong sign.
    blocks = np.concatenate([matrix.blocks, np.zeros((1, 8, 8))])
    rows = np.concatenate([matrix.rows, np.full((1, 8), 599, dtype=np.int32)])
    last = dissect(rows, points).order[0]
    schur = 1.0 / np.linalg.inv(dense)[last, last]
    blocks[-1, 0, 0] = -schur * (1 + 1e-10)
    rows[-1, 0] = last
    nearly_singular = BlockSum(blocks, rows, 599)
    solver = Direct()
    assert solver.compute(nearly_singular, points, np.zeros(599, dtype=int)).factor is not None
    rhs = nearly_singular.times(np.random.default_rng(4).normal(size=599))
    solved = solver.solve(nearly_singular, solver.compute(nearly_singular, points, np.zeros(599, dtype=int)), rhs, 1e-8)
    assert solved.residual < 1e-8


def test_blocks_that_hold_everything_are_not_cut():
    root = np.random.default_rng(5).normal(size=(400, 400))
    whole = BlockSum((root @ root.T + np.eye(400))[None], np.arange(400, dtype=np.int32)[None], 400)
    elimination = dissect(whole.rows, np.random.default_rng(6).uniform(size=(400, 2)))
    assert len(elimination.fronts) == 1
    assert elimination.num_entries == 400**2


def test_a_matrix_without_a_factor_gives_nan_and_not_an_error():
    matrix = BlockSum(-np.eye(3)[None], np.arange(3, dtype=np.int32)[None], 3)
    solver = Direct()
    solved = solver.solve(matrix, solver.compute(matrix, np.zeros((3, 1)), np.zeros(3, dtype=int)), np.ones(3), 1e-10)
    assert np.isnan(solved.solution).all()


def test_the_residual_that_is_reported_is_that_of_the_solution():
    # A chain of 300 equal springs, all but loose: what conjugate gradients carry along as the residual goes on falling.
    rows = np.stack([np.arange(299), np.arange(1, 300)], axis=1).astype(np.int32)
    blocks = np.tile([[1.0, -1.0], [-1.0, 1.0]], (299, 1, 1))
    blocks[0, 0, 0] += 1e-8
    matrix, solver, rhs = BlockSum(blocks, rows, 300), Schwarz(cell_size=20), np.random.default_rng(7).normal(size=300)
    prepared = solver.compute(matrix, np.arange(300.0)[:, None], np.zeros(300, dtype=int))
    solved = solver.solve(matrix, prepared, rhs, 1e-10)
    unit = 1 / np.sqrt(matrix.diagonal())
    true = np.linalg.norm(unit * (rhs - matrix.times(solved.solution))) / np.linalg.norm(unit * rhs)
    assert true > 1e-8
    assert solved.residual == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("kind", ["indefinite", "zero", "not finite"])
def test_a_matrix_that_is_not_positive_definite_gives_nan_and_ends(kind):
    size = 120
    blocks = {"indefinite": np.diag([1.0, -3.0]) + 2.0, "zero": np.zeros((2, 2)), "not finite": np.full((2, 2), np.nan)}[kind]
    rows = np.stack([np.arange(size - 1), np.arange(1, size)], axis=1).astype(np.int32)
    matrix = BlockSum(np.tile(blocks, (size - 1, 1, 1)), rows, size)
    solver = Schwarz(cell_size=40, coarse_ratio=20)
    prepared = solver.compute(matrix, np.arange(float(size))[:, None], np.zeros(size, dtype=int))
    solved = solver.solve(matrix, prepared, np.ones(size), 1e-8)
    assert np.isnan(solved.solution).all()
    assert not solved.residual < 1.0
    again = solver.compute(matrix, np.arange(float(size))[:, None], np.zeros(size, dtype=int), prepared)
    assert np.isnan(solver.solve(matrix, again, np.ones(size), 1e-8).solution).all()


def test_a_right_side_that_is_not_finite_gives_nan(system):
    matrix, _, points = system
    solver = Schwarz(cell_size=40, coarse_ratio=20)
    prepared = solver.compute(matrix, points, np.zeros(599, dtype=int))
    assert np.isnan(solver.solve(matrix, prepared, np.full(599, np.nan), 1e-8).solution).all()
