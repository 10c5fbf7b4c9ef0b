r"""Prediction from overlapping patches: $u(x) = \sum_c \omega_c(x)\, u_c(x)$ with a continuous partition of unity.

The patches of the $k$ centres nearest to $x$ take part, with $\omega_c \propto (1 - d_c / d_{k+1})^2$: a patch enters and
leaves with weight zero, so nothing jumps where the set of nearest centres changes.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.functionals import Kernels, block
from gpde.linalg import AbstractLinearSolver
from gpde.machine.arrays import on_device
from gpde.machine.threads import map_chunks
from gpde.methods.base import AbstractPredictor
from gpde.methods.consensus.patch import Equations, patch_variances, slot_operators, stretched_all
from gpde.methods.consensus.system import sample_values

_NUM_BLENDED = 4
# Doubles that a chunk of points may hold in gathered weights: 2^20 are 8 MB, for each core.
_CHUNK_ENTRIES = 2**20
_CHUNK_POINTS = 256


class BlendedPatches(AbstractPredictor):
    """Local functions of patches, blended. Variances are those of the nearest patch, whose values at its points are uncertain
    as all patches together leave them (`system.py`)."""

    kernels: Kernels
    equations: Equations
    metric: Metric
    centres: Float[Array, "patches dim"]
    members: Int[Array, "patches members"]
    weights: Float[Array, "patches members slots"]
    nuggets: Float[Array, " patches"]
    stretch: Float[Array, "patches dim"]
    fixed: Bool[Array, "points fields"]
    linear_solver: AbstractLinearSolver
    means: Float[Array, "means points fields"]

    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        patches, omega = self._blend(points, _NUM_BLENDED)
        entries = patches.shape[1] * self.members.shape[1] * (self.weights.shape[2] + points.shape[1])
        shared = (tuple(operators), self)
        return map_chunks(_blended_values, shared, (points, patches, omega), max(1, _CHUNK_ENTRIES // entries))[0]

    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        patches, _ = self._blend(points, 1)
        shared = (tuple(operators), self, *self.once(self._samples))
        return map_chunks(_patch_variances, shared, (points, patches[:, 0]), _CHUNK_POINTS)[0]

    def _samples(self) -> tuple[Float[Array, "values samples"], Float[Array, " patches"]]:
        """Samples of the values at all points, and the nuggets with which the patches have their factors."""
        members, fixed = np.asarray(self.members), np.asarray(self.fixed)
        coordinates = self.metric.coordinates(np.asarray(self.equations.points))
        samples, nuggets = sample_values(
            self.equations, self.kernels, members, np.asarray(self.nuggets), np.asarray(self.stretch), fixed, coordinates,
            self.linear_solver, np.asarray(self.means),
        )  # fmt: skip
        return on_device(samples.reshape(fixed.size, -1)), on_device(nuggets)

    def _blend(self, points: np.ndarray, num: int) -> tuple[Int[np.ndarray, "points num"], Float[np.ndarray, "points num"]]:
        """The patches that take part at each point, and their weights."""
        num = min(num, self.centres.shape[0])
        centres = NeighbourIndex(self.metric.coordinates(np.asarray(self.centres)))
        distance, index = centres.nearest(self.metric.coordinates(points), num + 1)
        if index.shape[1] == num:  # no further centre: every patch takes part everywhere
            return index, np.full(index.shape, 1.0 / num)
        last = distance[:, -1:]
        omega = np.where(last > 0, (1.0 - distance[:, :-1] / np.where(last > 0, last, 1.0)) ** 2, 1.0) + 1e-300
        return index[:, :-1], omega / omega.sum(axis=1, keepdims=True)


@eqx.filter_jit
def _blended_values(
    shared: tuple[tuple[LinearOperator, ...], BlendedPatches], points: Array, patches: Array, omega: Array
) -> tuple[Array]:
    operators, predictor = shared
    sources = slot_operators(predictor.equations)

    def one(x: Array, patch: Array) -> Array:
        near = predictor.equations.points[predictor.members[patch]]
        weights = predictor.weights[patch]
        kernels = stretched_all(predictor.kernels, predictor.stretch[patch])
        values = [
            sum(block(kernels, o, s, x[None], near)[0] @ weights[:, slot] for slot, s in enumerate(sources)) for o in operators
        ]
        return jnp.stack(values)

    local = jax.vmap(lambda x, row: jax.vmap(lambda patch: one(x, patch))(row))(points, patches)
    return (jnp.einsum("pk,pko->po", omega, local),)


@eqx.filter_jit
def _patch_variances(
    shared: tuple[tuple[LinearOperator, ...], BlendedPatches, Array, Array], points: Array, patches: Array
) -> tuple[Array]:
    operators, p, samples, nuggets = shared
    num_fields = p.equations.num_fields

    def one(at: tuple[Array, Array]) -> Array:
        x, patch = at
        members = p.members[patch]
        own = jnp.concatenate([samples[members * num_fields + field] for field in range(num_fields)])
        kernels = stretched_all(p.kernels, p.stretch[patch])
        return patch_variances(p.equations, kernels, members, nuggets[patch], operators, x, own)

    return (jax.lax.map(one, (points, patches)),)
