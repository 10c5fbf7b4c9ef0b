"""The equations of a problem as learning looks at them: solved roughly on some of the points, linearised there or on all."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.collocation import Collocation, collocate
from gpde.collocation.cover import spread_centres
from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.collocation.point_table import PointTable, point_table
from gpde.equations.linear_operators import point_value
from gpde.functionals.functionals import Kernels
from gpde.learning.likelihood import Patches
from gpde.machine.arrays import on_device
from gpde.machine.threads import threads_for
from gpde.methods import FullBatch
from gpde.methods.base import AbstractPredictor, Setup
from gpde.methods.run import run
from gpde.problem.problem import PointsByPart, Problem

PATCH_SIZE = 64
# Points of a rough solve, half of all at the most, and of the likelihood of all points together: more of them are thinned.
_LEAST_ROUGH, _NUM_ROUGH, _NUM_WHOLE = 300, 1500, 4000
# Gauss-Newton steps of the first rough solve, and of those that start from the last.
_FIRST_STEPS, _LATER_STEPS = 5, 3
# A nugget for which long lengthscales do not end a rough solve.
_ROUGH_NUGGET = 1e-9


class Rough(NamedTuple):
    """A rough solution: the latent values on its own points, and where those are not all points the function."""

    latent: Float[Array, " size"]
    predictor: AbstractPredictor | None


class LearnedFrom:
    """The equations of a problem, to be solved roughly and to be linearised on patches."""

    def __init__(self, problem: Problem, located: PointsByPart, collocation: Collocation, nugget: float, seed: int):
        self.problem, self.collocation = problem, collocation
        self._table = point_table(collocation)
        self._generator = np.random.default_rng(seed)
        half = sum(map(len, located.values())) // 2
        thinned = _thinned(located, min(_NUM_ROUGH, max(_LEAST_ROUGH, half)), self._generator)
        self._rough = collocation if thinned is located else collocate(problem, thinned)
        self._rough_table = self._table if thinned is located else point_table(self._rough)
        self._nugget = max(nugget, _ROUGH_NUGGET)

    @property
    def noisy(self) -> bool:
        """Whether amplitudes are told by noise, which does not grow with them; with unknown scalars not (`learn.py`)."""
        return bool(np.any(self.collocation.noisy)) and not self.determined_by_scalars

    @property
    def determined_by_scalars(self) -> bool:
        """Whether scalars are all that is unknown beside fields that have an equation each."""
        return bool(self.problem.parameters) and self.problem.determines_its_fields

    @property
    def rough_is_all(self) -> bool:
        """Whether a rough solve takes all points."""
        return self._rough is self.collocation

    def sizes(self, kernels: Kernels) -> Float[np.ndarray, " fields"]:
        """The root mean square of every field in a rough solution, linear equations or not."""
        fields = [point_value(field, self.problem.domain.dim) for field in range(len(self.problem.fields))]
        predictor = self._roughly_solved(kernels, None)[1]
        return np.sqrt(np.mean(predictor.values(fields, np.asarray(self._rough_table.points)) ** 2, axis=0))

    def solved(self, kernels: Kernels, before: Rough | None) -> Rough | None:
        """A rough solution; None for linear equations, whose coefficients need none."""
        if self.collocation.linear:
            return None
        latent, predictor, failed = self._roughly_solved(kernels, before)
        if failed and before is not None:
            return before
        # Where all points are solved on, their values are there; elsewhere a function tells them.
        return Rough(latent, None if self.rough_is_all else predictor)

    def _roughly_solved(self, kernels: Kernels, before: Rough | None) -> tuple[Float[Array, " size"], AbstractPredictor, bool]:
        """Latent values, the function, and whether nothing came of it."""
        method = FullBatch()
        names, scalars = self.problem.unknowns, tuple(self.problem.parameters)
        setup = Setup(self._rough, kernels, self._nugget, names, tuple(self.problem.domain.coordinates), scalars)
        work = method.prepare(setup)
        start = method.init(work, None if before is None else before.latent, 0)
        most = _FIRST_STEPS if before is None else _LATER_STEPS
        # On the way down a ladder of nuggets, or outwards from the data, a solution is no use yet.
        enough = lambda progress: progress.state.at_large and progress.state.ladder.steps >= most  # noqa: E731
        with threads_for(self._rough.num_equations):
            state, _, result = run(method, work, start, enough)
        return method.latent(work, state), method.predictor(work, state), result.failed

    def patches(self, kernels: Kernels, rough: Rough | None, num_patches: int) -> Patches:
        """Neighbouring points around centres that are spread over the domain, in the metric of the kernels."""
        points = np.asarray(self._table.points)
        coordinates = Metric.of(kernels, points.shape[1]).coordinates(points)
        centres = spread_centres(coordinates, num_patches)[:num_patches]
        _, members = NeighbourIndex(coordinates).nearest(coordinates[centres], PATCH_SIZE)
        if self.rough_is_all:  # all points at once, whatever patches are made of them: one program
            return self._solved_on(rough, members)
        # Patches overlap: where their members are more than all points, each of these is looked at once.
        if members.size > self._table.num_points:
            return self._elsewhere(rough, np.arange(self._table.num_points), members)
        return self._elsewhere(rough, members.reshape(-1), np.arange(members.size).reshape(members.shape))

    def whole(self, rough: Rough | None, *, roughly: bool) -> Patches:
        """One patch of all points, of some of them of every part where they are many, or of those of the rough solve."""
        if roughly or self.rough_is_all:
            return self._solved_on(rough, np.arange(self._rough_table.num_points)[None])
        rows = np.split(np.arange(self._table.num_points), np.cumsum([p.num_points for p in self.collocation.parts])[:-1])
        kept = _kept(rows, _NUM_WHOLE, self._generator)
        chosen = np.concatenate([each[some] for each, some in zip(rows, kept, strict=True)])
        return self._elsewhere(rough, chosen, np.arange(len(chosen))[None])

    def _solved_on(self, rough: Rough | None, members: Int[np.ndarray, "patches members"]) -> Patches:
        """Patches of points that the rough solution was made on: its latent values are all that is needed."""
        table, size = self._rough_table, self._rough.functionals.size
        values = table.gather(jnp.zeros(size) if rough is None else rough.latent)
        return self._linearized(table, np.arange(table.num_points), on_device(values), members)

    def _elsewhere(
        self, rough: Rough | None, rows: Int[np.ndarray, " rows"], place: Int[np.ndarray, "patches members"]
    ) -> Patches:
        """Patches of some rows of all points, where the rough solution is a function; `place` is where among `rows`."""
        values = np.zeros((len(rows), self._table.num_operators))
        if rough is not None and rough.predictor is not None:
            values = rough.predictor.values(self._table.operators, np.asarray(self._table.points)[rows])
        return self._linearized(self._table, rows, on_device(values), place)

    def _linearized(
        self, table: PointTable, rows: Int[np.ndarray, " rows"], values: Array, place: Int[np.ndarray, "patches members"]
    ) -> Patches:
        coefficients, rhs = _linearized(table, on_device(rows), values)
        members = rows[place]
        return Patches(
            operators=table.operators,
            noisy=self.noisy,
            points=on_device(np.asarray(table.points)[members]),
            coefficients=on_device(np.asarray(coefficients)[place]),
            rhs=on_device(np.asarray(rhs)[place]),
            noise_variance=on_device(np.asarray(table.noise_variance)[members]),
            used=on_device(np.asarray(table.has_equation)[members]),
        )


@eqx.filter_jit
def _linearized(table: PointTable, index: Int[Array, " rows"], values: Float[Array, "rows operators"]) -> tuple[Array, Array]:
    """Coefficients and right sides of the equations at some of the points."""
    values = jnp.where(table.active[index], values, 0.0)
    coefficients = jax.vmap(table.gradient)(index, values)
    return coefficients, jnp.einsum("ped,pd->pe", coefficients, values) - jax.vmap(table.residual)(index, values)


def _thinned(located: PointsByPart, most: int, generator: np.random.Generator) -> Mapping[str, Float[np.ndarray, "points dim"]]:
    """Some of the points, of every part the same share and ten at least."""
    if sum(map(len, located.values())) <= most:
        return located
    kept = _kept(list(located.values()), most, generator)
    return {part: points[some] for (part, points), some in zip(located.items(), kept, strict=True)}


def _kept(parts: Sequence[np.ndarray], most: int, generator: np.random.Generator) -> list[Int[np.ndarray, " kept"]]:
    """Which rows of several parts stay: of each the same share, and ten at least."""
    share = min(1.0, most / sum(map(len, parts)))
    return [np.sort(generator.permutation(len(p))[: min(len(p), max(10, round(share * len(p))))]) for p in parts]
