"""Learning alternates with rough solves: equations are linearised at what is known of the solution so far.

Patches are taken as the method will use them. A method of patches sees a kernel through sixty neighbouring points, and there a
front is as good as straight: what the likelihood of patches prefers is what it solves best with. The full GP has to carry one
kernel through all of the domain at once, and a front in it costs norm: its lengthscales are looked at once more with a
likelihood of all points together, or of a thousand of them.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.collocation import Collocation, collocate
from gpde.collocation.cover import spread_centres
from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.collocation.point_table import PointTable, point_table
from gpde.functionals.functionals import Kernels
from gpde.kernels.text import kernels_text
from gpde.learning.learned import Learning
from gpde.learning.likelihood import Patches
from gpde.learning.search import Limits, Tried, descend, polish, scan, scored
from gpde.learning.shape import Shape, scaled
from gpde.machine.arrays import on_device
from gpde.methods import AbstractMethod, FullBatch
from gpde.methods.base import AbstractPredictor, Setup
from gpde.methods.run import run
from gpde.problem.problem import PointsByPart, Problem

_PATCH_SIZE = 64
_NUM_PATCHES = 64
_BATCH = 16
_NUM_STEPS = 16
_MAX_ROUNDS = 3
# Points of a rough solve, half of all at the most, and of the likelihood of all points together: more of them are thinned.
_LEAST_ROUGH, _NUM_ROUGH, _NUM_WHOLE = 300, 1500, 1000
# And of those that are asked for lengthscales of another order of magnitude.
_NUM_FEW = 300
# Gauss-Newton steps of the first rough solve, and of those that start from the last.
_FIRST_STEPS, _LATER_STEPS = 5, 3
# A nugget for which long lengthscales do not end a rough solve.
_ROUGH_NUGGET = 1e-9
# Lengthscales that changed by less need no other linearisation.
_SETTLED = 0.2
_POLISH_TRIES = 6
# So few are looked at all together whatever the method.
_FEW_POINTS = 300


def learn_on(
    problem: Problem,
    located: PointsByPart,
    collocation: Collocation,
    starts: list[Kernels],
    method: AbstractMethod,
    nugget: float,
    seed: int,
) -> Learning:
    """The kernels of a problem on its points, from the best of several to start from."""
    began = time.perf_counter()
    equations = _Equations(problem, located, collocation, nugget, seed)
    rows: list[dict[str, Any]] = []
    found: list[tuple[float, Kernels, float]] = []
    rounds = 0
    for kernels in starts:
        score, kernels, amplitude, tried, own_rounds = _learned(equations, kernels, method, nugget, seed)
        rounds += own_rounds
        rows += tried
        found.append((score, kernels, amplitude))
    score, kernels, amplitude = min(found, key=lambda each: each[0])
    if not np.isfinite(score):
        kernels, amplitude = starts[0], 1.0
    kernels = tuple(scaled(kernel, amplitude) for kernel in kernels)
    return Learning(problem.fields, kernels, score, rows, rounds, time.perf_counter() - began)


def _learned(
    equations: "_Equations", kernels: Kernels, method: AbstractMethod, nugget: float, seed: int
) -> tuple[float, Kernels, float, list[dict[str, Any]], int]:
    """One family: its best score, kernels, the amplitude to multiply them with, what was tried, and in how many rounds."""
    problem, collocation = equations.problem, equations.collocation
    dim, fields = problem.domain.dim, problem.fields
    shape = Shape(kernels, dim, every_amplitude=bool(np.any(collocation.noisy)))
    theta = shape.theta
    limits = Limits.of(shape, problem.domain.extent, collocation.num_points)
    rows: list[dict[str, Any]] = []

    def note(round_: int, stage: str, tried: list[Tried]) -> None:
        best = min(tried, key=lambda t: t.score)
        text = kernels_text(dict(zip(fields, shape.at(jnp.asarray(best.theta)), strict=True)))
        rows.append({"stage": f"round {round_}, {stage}", "kernel": text, "score": best.score, "tried": len(tried)})

    rough, batches, round_ = None, [], 0
    while round_ < _MAX_ROUNDS:
        round_ += 1
        current = shape.at(jnp.asarray(theta))
        rough = equations.solved(current, rough)
        patches = equations.patches(current, rough)
        size = min(_BATCH, len(patches))
        # Neighbours in the list are neighbours in the domain: each batch takes some from everywhere.
        batches = [patches[np.arange(len(patches))[k :: len(patches) // size][:size]] for k in range(len(patches) // size)]
        first = batches[0]
        scanned = scan(shape, theta, first, nugget, limits)
        note(round_, "scan", scanned)
        start = min(scanned, key=lambda t: t.score)
        if not np.isfinite(start.score):
            break
        descended = descend(
            shape, start.theta, patches, nugget, limits, num_steps=_NUM_STEPS, batch_size=len(first), seed=seed + round_
        )
        note(round_, "gradients", descended)
        # The mean of the second half: single steps follow the patches they were drawn.
        reached = np.mean([t.theta for t in descended[len(descended) // 2 :]], axis=0)
        moved = float(np.max(np.abs(reached - theta)[: shape.num_lengthscales]))
        theta = reached
        if collocation.linear or moved < _SETTLED:
            break
    if isinstance(method, FullBatch) or collocation.num_points <= _FEW_POINTS:
        current = shape.at(jnp.asarray(theta))
        if not collocation.linear and round_ == _MAX_ROUNDS:
            rough = equations.solved(current, rough)
        batches = [equations.whole(rough, _NUM_WHOLE)]
        few = equations.whole(rough, _NUM_FEW) if collocation.num_points > _NUM_FEW else None
        polished = polish(shape, theta, batches[0], nugget, limits, _POLISH_TRIES, few)
        note(round_, "all points", polished)
        best = min(polished, key=lambda t: t.score)
        if np.isfinite(best.score):
            theta = best.theta
    score, amplitude = scored(shape, theta, batches, nugget)
    return score, shape.at(jnp.asarray(theta)), amplitude, rows, round_


class _Equations:
    """The equations of a problem, to be solved roughly and to be linearised on patches."""

    def __init__(self, problem: Problem, located: PointsByPart, collocation: Collocation, nugget: float, seed: int):
        self.problem, self.collocation = problem, collocation
        self._table = point_table(collocation)
        self._generator = np.random.default_rng(seed)
        half = sum(map(len, located.values())) // 2
        thinned = _thinned(located, min(_NUM_ROUGH, max(_LEAST_ROUGH, half)), self._generator)
        self._rough = collocation if thinned is located else collocate(problem, thinned)
        self._nugget = max(nugget, _ROUGH_NUGGET)

    def solved(self, kernels: Kernels, before: "_Rough | None") -> "_Rough | None":
        """A rough solution; None for linear equations, whose coefficients need none."""
        if self.collocation.linear:
            return None
        method = FullBatch()
        setup = Setup(self._rough, kernels, self._nugget, self.problem.fields, tuple(self.problem.domain.coordinates))
        work = method.prepare(setup)
        start = method.init(work, None if before is None else before.latent, 0)
        most = _FIRST_STEPS if before is None else _LATER_STEPS
        # On the way down a ladder of nuggets, or outwards from the data, a solution is no use yet.
        enough = lambda progress: progress.state.at_large and progress.state.ladder.steps >= most  # noqa: E731
        state, _, result = run(method, work, start, enough)
        if result.failed and before is not None:
            return before
        # Where all points are solved on, their values are there; elsewhere a function tells them.
        predictor = None if self._rough is self.collocation else method.predictor(work, state)
        return _Rough(method.latent(work, state), predictor)

    def patches(self, kernels: Kernels, rough: "_Rough | None") -> Patches:
        """Neighbouring points around centres that are spread over the domain, in the metric of the kernels."""
        points = np.asarray(self._table.points)
        coordinates = Metric.of(kernels, points.shape[1]).coordinates(points)
        centres = spread_centres(coordinates, _NUM_PATCHES)[:_NUM_PATCHES]
        _, members = NeighbourIndex(coordinates).nearest(coordinates[centres], _PATCH_SIZE)
        return self._linearized(members, rough)

    def whole(self, rough: "_Rough | None", most: int) -> Patches:
        """All points in one patch, or some of them of every part."""
        rows = np.split(np.arange(self._table.num_points), np.cumsum([p.num_points for p in self.collocation.parts])[:-1])
        chosen = np.concatenate([each[kept] for each, kept in zip(rows, _kept(rows, most, self._generator), strict=True)])
        return self._linearized(chosen[None], rough)

    def _linearized(self, members: Int[np.ndarray, "patches members"], rough: "_Rough | None") -> Patches:
        table = self._table
        if self._rough is self.collocation:  # all points at once, whatever patches are made of them: one program
            rows, place = np.arange(table.num_points), members
            values = table.gather(jnp.zeros(self.collocation.functionals.size) if rough is None else rough.latent)
        else:
            # Patches overlap: where their members are more than all points, each of these is looked at once.
            rows, place = members.reshape(-1), np.arange(members.size).reshape(members.shape)
            if members.size > table.num_points:
                rows, place = np.arange(table.num_points), members
            values = np.zeros((len(rows), table.num_operators))
            if rough is not None and rough.predictor is not None:
                values = rough.predictor.values(table.operators, np.asarray(table.points)[rows])
        coefficients, rhs = _linearized(table, on_device(rows), on_device(values))
        return Patches(
            operators=table.operators,
            noisy=bool(np.any(self.collocation.noisy)),
            points=on_device(np.asarray(table.points)[members]),
            coefficients=on_device(np.asarray(coefficients)[place]),
            rhs=on_device(np.asarray(rhs)[place]),
            noise_variance=on_device(np.asarray(table.noise_variance)[members]),
            used=on_device(np.asarray(table.has_equation)[members]),
        )


class _Rough(NamedTuple):
    """A rough solution: the latent values on its own points, and where those are not all points the function."""

    latent: Float[Array, " size"]
    predictor: AbstractPredictor | None


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
