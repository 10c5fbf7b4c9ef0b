r"""All patches together: the sum of what they say about the values they share, one sparse system over the values left open.

The minimum over $w$ of $\sum_c (w_c - m_c)^T S_c^{-1} (w_c - m_c)$ solves $H w = \sum_c R_c^T S_c^{-1} m_c$ with
$H = \sum_c R_c^T S_c^{-1} R_c$. Around it $w$ has the covariance $p H^{-1}$: each point lies in $p$ patches on average, which
count its equations $p$ times (with one patch that holds all points, $p = 1$ and this is the full GP).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.functionals.functionals import Kernels
from gpde.linalg import AbstractLinearSolver, BlockSum, Direct, Schwarz
from gpde.linalg.dissection import dissect
from gpde.linalg.escalation import raised_until_good
from gpde.machine.threads import map_chunks
from gpde.methods.consensus.patch import Equations, Reduced, draw, evaluate, localize, reduce, stretched_all

# Numbers in a factor of H, beyond which conjugate gradients take over: some 170 000 unknowns in two dimensions, 1.6 gigabytes
# and while it is made up to twice that. Up to there a factor takes about as long and is more robust.
LARGEST_FACTOR = 2 * 10**8
# Doubles in what is made of a chunk of patches, one patch after the other: 2^19 are 4 MB.
_CHUNK_ENTRIES = 2**19
# Their variance has a relative standard error of sqrt(2 / 64) = 18 %, the standard deviation of 9 %.
_NUM_SAMPLES = 64
# Drawn so many at a time: the noise of a group is no larger than the patches' precisions.
_GROUP = 8
# What varies most is the smallest part of a right side: a loose solve would miss it.
_SAMPLE_TOLERANCE = 1e-6
_MAX_ESCALATIONS = 5


class PatchTables(NamedTuple):
    """`patches.Reduced` for all patches."""

    precision: Float[np.ndarray, "patches values values"]
    pull: Float[np.ndarray, "patches values"]
    good: Bool[np.ndarray, " patches"]


class OpenValues(NamedTuple):
    """The values that no Dirichlet condition fixes, numbered point by point and field by field."""

    fixed: Bool[np.ndarray, "points fields"]
    unknown: Int[np.ndarray, "patches values"]
    size: int

    @staticmethod
    def of(members: Int[np.ndarray, "patches members"], fixed: Bool[np.ndarray, "points fields"]) -> "OpenValues":
        size = int(np.sum(~fixed))
        number = np.where(fixed.reshape(-1), size, np.cumsum(~fixed.reshape(-1)) - 1)
        return OpenValues(fixed, number[value_rows(members, fixed.shape[1])].astype(np.int32), size)

    def matrix(self, precision: Float[np.ndarray, "patches values values"]) -> BlockSum:
        return BlockSum(precision, self.unknown, self.size)

    def solver(self, coordinates: Float[np.ndarray, "points coordinates"]) -> tuple[AbstractLinearSolver, Any]:
        """The linear solver for so many values, and what it can start from."""
        elimination = dissect(self.unknown, self.located(coordinates)[0])
        return (Direct(), elimination) if elimination.num_entries <= LARGEST_FACTOR else (Schwarz(), None)

    def summed(self, local: Float[np.ndarray, "patches values"]) -> Float[np.ndarray, " size"]:
        r"""$\sum_c R_c^T v_c$."""
        return np.bincount(self.unknown.reshape(-1), weights=local.reshape(-1), minlength=self.size + 1)[: self.size]

    def spread(self, solution: Float[np.ndarray, " size"]) -> Float[np.ndarray, "points fields"]:
        """As values at the points, zero where they are fixed."""
        values = np.zeros(self.fixed.shape)
        values[~self.fixed] = solution
        return values

    def located(self, coordinates: Float[np.ndarray, "points dim"]) -> tuple[np.ndarray, np.ndarray]:
        """Where each open value lies, and which field it belongs to."""
        num_fields, is_open = self.fixed.shape[1], ~self.fixed.reshape(-1)
        field = np.tile(np.arange(num_fields), len(coordinates))
        return np.repeat(coordinates, num_fields, axis=0)[is_open], field[is_open]


def value_rows(members: Int[np.ndarray, "patches members"], num_fields: int) -> Int[np.ndarray, "patches values"]:
    """Where a patch's values stand among all values, field by field."""
    return np.concatenate([members * num_fields + field for field in range(num_fields)], axis=1)


def reduce_patches(
    equations: Equations,
    kernels: Kernels,
    members: Int[np.ndarray, "patches members"],
    values: Float[np.ndarray, "points fields"],
    nuggets: Float[np.ndarray, " patches"],
    stretch: Float[np.ndarray, "patches dim"],
    max_escalations: int,
) -> tuple[PatchTables, Float[np.ndarray, " patches"]]:
    """Every patch seen from the values at its points, and its nugget: ten times larger where the factorisation failed."""
    local = values.reshape(-1)[value_rows(members, equations.num_fields)]

    def reduced(nuggets: np.ndarray, rows: Any) -> tuple[np.ndarray, ...]:
        arguments = (members[rows], local[rows], nuggets, stretch[rows])
        return map_chunks(_reduced, (equations, kernels), arguments, chunk_size(equations, members.shape[1]))

    tables, nuggets = raised_until_good(reduced, nuggets, max_escalations)
    return PatchTables(*tables), nuggets


def localize_patches(
    equations: Equations,
    kernels: Kernels,
    members: Int[np.ndarray, "patches members"],
    values: Float[np.ndarray, "patches values"],
    nuggets: Float[np.ndarray, " patches"],
    stretch: Float[np.ndarray, "patches dim"],
    owned: Int[np.ndarray, "patches owned"],
    max_escalations: int,
) -> tuple[tuple[np.ndarray, ...], Float[np.ndarray, " patches"]]:
    """Each patch's function, the operators' values at the points it owns, whether these are finite; and the nuggets."""

    def localized(nuggets: np.ndarray, rows: Any) -> tuple[np.ndarray, ...]:
        arguments = (members[rows], values[rows], nuggets, stretch[rows], owned[rows])
        return map_chunks(_localize_patches, (equations, kernels), arguments, chunk_size(equations, members.shape[1]))

    return raised_until_good(localized, nuggets, max_escalations)


def sample_values(
    equations: Equations,
    kernels: Kernels,
    members: Int[np.ndarray, "patches members"],
    nuggets: Float[np.ndarray, " patches"],
    stretch: Float[np.ndarray, "patches dim"],
    fixed: Bool[np.ndarray, "points fields"],
    coordinates: Float[np.ndarray, "points dim"],
    solver: AbstractLinearSolver,
    means: Float[np.ndarray, "means points fields"],
) -> tuple[Float[np.ndarray, "points fields samples"], Float[np.ndarray, " patches"]]:
    r"""Samples of $w$ around the solution, the same whenever they are drawn again, and the nuggets that patches took.

    $H w = \sum_c R_c^T L_c^{-T} \xi_c$ with $S_c = L_c L_c^T$ and $\xi_c \sim N(0, I)$ has the covariance $H^{-1} H H^{-1}$.
    `means` are the gradients of what holds on average, which no sample leaves.
    """
    samples = np.zeros((*fixed.shape, _NUM_SAMPLES))
    open_values = OpenValues.of(members, fixed)
    tables, nuggets = reduce_patches(equations, kernels, members, np.zeros(fixed.shape), nuggets, stretch, _MAX_ESCALATIONS)
    if not tables.good.all():
        raise ValueError(
            f"`std`: the covariances of {np.sum(~tables.good)} patches are not positive definite at the solution, so it has no "
            "standard deviation. Raise `nugget` and solve again; see `solution.result` for how the run ended."
        )
    if open_values.size == 0:
        return samples, nuggets
    matrix = open_values.matrix(tables.precision)
    prepared = solver.compute(matrix, *open_values.located(coordinates))
    carried = on_means(open_values, means, lambda row: solver.solve(matrix, prepared, row, _SAMPLE_TOLERANCE).solution)
    overlap = members.size / len(fixed)
    rng = np.random.default_rng(0)
    for first in range(0, _NUM_SAMPLES, _GROUP):
        noise = rng.normal(size=(len(members), open_values.unknown.shape[1], _GROUP))
        chunk = chunk_size(equations, members.shape[1])
        (pulls,) = map_chunks(_drawn, (equations, kernels), (members, nuggets, stretch, noise), chunk)
        for k in range(_GROUP):
            solved = solver.solve(matrix, prepared, open_values.summed(pulls[:, :, k]), _SAMPLE_TOLERANCE)
            if not np.isfinite(solved.solution).all():
                raise ValueError(
                    "`std`: what the patches say about the values is not positive definite together, so they have no standard "
                    "deviation. Raise `nugget` and solve again."
                )
            kept = carried(solved.solution, np.zeros(len(means)))
            samples[:, :, first + k] = np.sqrt(overlap) * open_values.spread(kept)
    return samples, nuggets


def on_means(
    open_values: OpenValues,
    gradient: Float[np.ndarray, "means points fields"],
    solve: Callable[[Float[np.ndarray, " size"]], Float[np.ndarray, " size"]],
) -> Callable[[Float[np.ndarray, " size"], Float[np.ndarray, " means"]], Float[np.ndarray, " size"]]:
    r"""Carries $w_0$ to the nearest $w$, as $H$ measures it, with $C w = d$ (`means.py`): a function of $w_0$ and $d$.
    `solve` is $H^{-1}$."""
    border = gradient[:, ~open_values.fixed]
    moves = np.array([solve(row) for row in border]).reshape(border.shape)
    products = border @ moves.T

    def carried(start: Float[np.ndarray, " size"], wanted: Float[np.ndarray, " means"]) -> Float[np.ndarray, " size"]:
        return start + moves.T @ np.linalg.solve(products, wanted - border @ start)

    return carried


def chunk_size(equations: Equations, num_members: int) -> int:
    return max(1, _CHUNK_ENTRIES // (num_members * equations.num_fields) ** 2)


@eqx.filter_jit
def _reduced(
    shared: tuple[Equations, Kernels], members: Array, values: Array, nuggets: Array, stretch: Array
) -> tuple[Array, ...]:
    equations, kernels = shared

    def one(patch: tuple[Array, ...]) -> Reduced:
        members, values, nugget, own = patch
        return reduce(equations, stretched_all(kernels, own), members, values, nugget)

    return tuple(jax.lax.map(one, (members, values, nuggets, stretch)))


@eqx.filter_jit
def _drawn(shared: tuple[Equations, Kernels], members: Array, nuggets: Array, stretch: Array, noise: Array) -> tuple[Array]:
    equations, kernels = shared

    def one(patch: tuple[Array, ...]) -> Array:
        members, nugget, own, noise = patch
        return draw(equations, stretched_all(kernels, own), members, nugget, noise)

    return (jax.lax.map(one, (members, nuggets, stretch, noise)),)


@eqx.filter_jit
def _localize_patches(
    shared: tuple[Equations, Kernels], members: Array, values: Array, nuggets: Array, stretch: Array, owned: Array
) -> tuple[Array, Array, Array]:
    equations, kernels = shared

    def one(patch: tuple[Array, ...]) -> tuple[Array, Array, Array]:
        members, values, nugget, own, owned = patch
        local = stretched_all(kernels, own)
        weights, good = localize(equations, local, members, values, nugget)
        points = equations.points[members[jnp.maximum(owned, 0)]]
        at_owned = evaluate(equations, local, members, weights, equations.operators, points)
        return weights, at_owned, good & jnp.all(jnp.isfinite(at_owned))

    return jax.lax.map(one, (members, values, nuggets, stretch, owned))
