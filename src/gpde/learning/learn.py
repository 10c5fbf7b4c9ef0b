"""Learning alternates with rough solves: equations are linearised at what is known of the solution so far.

Patches are taken as the method will use them. A method of patches sees a kernel through sixty neighbouring points, and there a
front is as good as straight: what the likelihood of patches prefers is what it solves best with. The full GP has to carry one
kernel through all of the domain at once, and a front in it costs norm: its lengthscales are looked at once more with a
likelihood of all points together. Fewer of them prefer longer lengthscales, at which all of them drown in the nugget, and so do
equations linearised at a solution that is wrong by some percent: the points of the rough solve are asked first, which costs an
eighth, and each time that lengthscales have moved by more than a step of the search the equations are linearised anew. Patches
miss a layer, and then what all points prefer is far from what patches found: the search climbs from several places.
"""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from gpde.collocation.collocation import Collocation
from gpde.functionals.functionals import Kernels
from gpde.kernels.text import kernels_text
from gpde.learning.equations import PATCH_SIZE, LearnedFrom
from gpde.learning.learned import Learning
from gpde.learning.likelihood import of_data
from gpde.learning.search import POLISH, Limits, Tried, best_of, descend, polish, scan, scored, shorter_alone
from gpde.learning.shape import Shape, scaled
from gpde.methods import AbstractMethod, FullBatch
from gpde.problem.problem import PointsByPart, Problem

_NUM_PATCHES = 64
_BATCH, _LEAST_PATCHES = 16, 4
_NUM_STEPS = 16
_MAX_ROUNDS = 3
# Lengthscales that changed by less need no other linearisation.
_SETTLED = 0.2
# So few are looked at all together whatever the method.
_FEW_POINTS = 300
# Up to so many points there is no need to ask fewer of them first.
_SMALL = 600
# With lengthscales shorter than patches found them by such a factor there may be two hills, and both are climbed.
_MUCH_SHORTER = -np.log(3.0)
# How many kernels the likelihood of the points of a rough solve is asked about in each round, and that of all points, where
# each costs as much as a step of the solve.
_ROUGH_TRIES, _WHOLE_TRIES = 12, 5
# By which factor amplitudes grow where data are asked about them, and how often; what logarithms of likelihoods may differ by
# and say the same; of how many points some do.
_DATA_FACTOR, _DATA_TRIES, _SURE, _MANY = 3.0, 6, 1.0, 2000
# How many times larger than most likely amplitudes are with unknown scalars: the pull of the norm falls with the square.
_LOOSE = 300.0


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
    equations = LearnedFrom(problem, located, collocation, nugget, seed)
    rows: list[dict[str, Any]] = []
    found: list[tuple[float, Kernels, float]] = []
    rounds = 0
    for kernels in starts:
        score, amplitude, kernels, tried, own_rounds = _learned(equations, kernels, method, nugget, seed)
        rounds += own_rounds
        rows += tried
        found.append((score, kernels, amplitude))
    score, kernels, amplitude = min(found, key=lambda each: each[0])
    if not np.isfinite(score):
        kernels, amplitude = starts[0], 1.0
    factor = amplitude * (_LOOSE if equations.determined_by_scalars else 1.0)
    kernels = tuple(scaled(kernel, factor) for kernel in kernels)
    if equations.noisy:
        kernels = _as_data_tell(equations, kernels, nugget)
    return Learning(problem.fields, kernels, score, rows, rounds, time.perf_counter() - began)


def _as_data_tell(equations: LearnedFrom, kernels: Kernels, nugget: float) -> Kernels:
    """Kernels with a larger amplitude, where data prefer that once the equations hold: equations with zero on their right sides
    have made it too small. Smaller ones are what other right sides say, of which data need know nothing."""
    constants = tuple(parameter.kernel for parameter in equations.problem.parameters.values())
    rough = equations.solved((*kernels, *constants), None)
    batch = equations.whole(rough, roughly=equations.collocation.num_points > _MANY)
    factors = _DATA_FACTOR ** np.arange(_DATA_TRIES + 1.0)
    found = np.asarray(of_data((*kernels, *constants), batch, jnp.asarray(nugget), jnp.asarray(factors)))
    if not np.isfinite(found[0]):
        return kernels
    likely = float(factors[np.argmax(found < found.min() + _SURE)])  # the smallest of those
    return tuple(scaled(kernel, likely) for kernel in kernels)


def _learned(
    equations: LearnedFrom, kernels: Kernels, method: AbstractMethod, nugget: float, seed: int
) -> tuple[float, float, Kernels, list[dict[str, Any]], int]:
    """One family: its best score, the amplitude to multiply kernels with, these, what was tried, and in how many rounds."""
    problem, collocation = equations.problem, equations.collocation
    dim, fields = problem.domain.dim, problem.fields
    constants = tuple(parameter.kernel for parameter in problem.parameters.values())
    shape = Shape(kernels, dim, every_amplitude=equations.noisy, fixed=constants)
    theta = shape.theta
    limits = Limits.of(shape, problem.domain.extent, collocation.num_points)
    if len(fields) > 1:
        limits = limits.with_fields_of(shape, equations.sizes(shape.at(jnp.asarray(theta))))
    rows: list[dict[str, Any]] = []

    def note(round_: int, stage: str, tried: list[Tried]) -> None:
        best = best_of(tried)
        text = kernels_text(dict(zip(fields, shape.at(jnp.asarray(best.theta)), strict=False)))
        rows.append({"stage": f"round {round_}, {stage}", "kernel": text, "score": best.score, "tried": len(tried)})

    whole = isinstance(method, FullBatch) or collocation.num_points <= _FEW_POINTS
    # Where all points are asked in the end, patches only tell where to look, and what amplitudes there are.
    by_gradients = not whole or len(theta) > shape.num_lengthscales
    few = min(_BATCH, max(_LEAST_PATCHES, collocation.num_points // (2 * PATCH_SIZE)))  # half of the points
    rough, batches, round_ = None, [], 0
    while round_ < (_MAX_ROUNDS if by_gradients else _MAX_ROUNDS - 1):
        round_ += 1
        current = shape.at(jnp.asarray(theta))
        rough = equations.solved(current, rough)
        patches = equations.patches(current, rough, _NUM_PATCHES if by_gradients else few)
        size = min(_BATCH, len(patches))
        # Neighbours in the list are neighbours in the domain: each batch takes some from everywhere.
        batches = [patches[np.arange(len(patches))[k :: len(patches) // size][:size]] for k in range(len(patches) // size)]
        scanned = scan(shape, theta, batches[0], nugget, limits)
        note(round_, "scan", scanned)
        start = best_of(scanned)
        if not np.isfinite(start.score):
            break
        reached = start.theta
        if by_gradients:
            descended = descend(
                shape, start.theta, patches, nugget, limits, num_steps=_NUM_STEPS, batch_size=size, seed=seed + round_
            )
            note(round_, "gradients", descended)
            # The mean of the second half: single steps follow the patches they were drawn.
            reached = np.mean([t.theta for t in descended[len(descended) // 2 :]], axis=0)
        moved = float(np.max(np.abs(reached - theta)[: shape.num_lengthscales]))
        theta = reached
        if collocation.linear or moved < _SETTLED:
            break
    if not whole:
        return *scored(shape, theta, batches, nugget), shape.at(jnp.asarray(theta))[: len(fields)], rows, round_
    best, rivals, earlier, linearized_at = Tried("", theta, np.inf), [], [], None
    small = collocation.num_points <= _SMALL
    for roughly in (False,) if small else (True, False):
        cheap = small or roughly
        tries = _ROUGH_TRIES if cheap else _WHOLE_TRIES
        starts, before = [best.theta, *([shape.theta] if cheap else rivals)], None
        for _ in range(_MAX_ROUNDS):
            round_ += 1
            if linearized_at is None or not np.array_equal(best.theta, linearized_at):
                rough, linearized_at = equations.solved(shape.at(jnp.asarray(best.theta)), rough), best.theta
            batch = equations.whole(rough, roughly=roughly)
            tried = polish(
                shape, starts, batch, nugget, limits, tries, before, shorter=cheap and before is None, earlier=earlier
            )
            earlier = tried if len(tried) > 1 else earlier
            if dim > 1 and cheap and before is None and np.any(best_of(tried).theta - starts[0] < _MUCH_SHORTER):
                also = polish(shape, shorter_alone(shape, starts[0]), batch, nugget, limits, tries)
                rivals = [best_of(each).theta for each in (tried, also)]
                tried = tried + also
            note(round_, f"{batch.points.shape[1]} points", tried)
            best, known = best_of(tried), best.theta
            moved = np.max(np.abs(best.theta - known)[: shape.num_lengthscales])
            if collocation.linear or not np.isfinite(best.score) or moved < 1.01 * POLISH:
                break
            starts, before = [best.theta], best.score
    return best.score, best.amplitude, shape.at(jnp.asarray(best.theta))[: len(fields)], rows, round_
