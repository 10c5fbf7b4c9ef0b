"""Coarse to fine: nested thinned sets of the points, each with its own batches, and how one starts from the one before.

On one set of points information passes a batch at a time, so that sweeps over more points need to be more. Where a thinned set
has found the solution first, those over all points have only to refine it, and their number does not grow.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.cover import spread_centres
from gpde.collocation.neighbours import NeighbourIndex
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.factor_cache import BatchRange, Factors
from gpde.methods.mini_batch.local_functions import evaluated, local_weights
from gpde.methods.mini_batch.proximal import ProximalProblem

# Each set has about this many times the points of the one before. The smallest has so many batches' worth of points at least.
_THINNING = 4
_FEWEST_BATCHES = 4
# A set of points is too thin for the kernel where half of them have no neighbour within this many lengthscales.
_WIDEST = 0.25
# So many points of a part are never thinned: the two ends of an interval are a part.
_FEWEST_OF_PART = 16


class Rung(NamedTuple):
    """Some of the points, ascending, and where their batches are in the table of all batches."""

    points: Int[np.ndarray, " own"]
    rows: BatchRange


def coarser_points(
    coordinates: Float[np.ndarray, "points dim"], part: Int[np.ndarray, " points"], num: int
) -> Int[np.ndarray, " kept"]:
    """About `num` well-spread points, of every part its share."""
    kept = []
    for p in np.unique(part):
        own = np.flatnonzero(part == p)
        share = max(min(len(own), _FEWEST_OF_PART), round(num * len(own) / len(part)))
        kept.append(own[spread_centres(coordinates[own], share)])
    return np.sort(np.concatenate(kept))


def rungs(
    coordinates: Float[np.ndarray, "points dim"], part: Int[np.ndarray, " points"], batch_size: int, *, nested: bool
) -> tuple[tuple[Rung, ...], Int[np.ndarray, "batches batch"]]:
    """The sets of points, the coarsest first and that of all points last, and the table of their batches: of each point of a
    set the `batch_size` nearest of the set. A single batch is enough where it holds all points."""
    everything = np.arange(len(coordinates))
    sets = [everything]
    while nested and len(sets[0]) // _THINNING >= _FEWEST_BATCHES * batch_size:
        finer = sets[0]
        coarser = finer[coarser_points(coordinates[finer], part[finer], len(finer) // _THINNING)]
        distance, _ = NeighbourIndex(coordinates[coarser]).nearest(coordinates[coarser], 2)
        if len(coarser) > len(finer) // 2 or np.median(distance[:, 1]) > _WIDEST:
            break
        sets.insert(0, coarser)
    found, tables, first = [], [], 0
    for own in sets:
        centres = own[:1] if batch_size >= len(own) else own
        nearest = NeighbourIndex(coordinates[own]).nearest(coordinates[centres], batch_size)[1]
        tables.append(own[nearest].astype(np.int32))
        found.append(Rung(own, BatchRange(first, len(centres))))
        first += len(centres)
    return tuple(found), np.concatenate(tables)


def refined(
    problem: ProximalProblem,
    coordinates: Float[np.ndarray, "points dim"],
    batches: Int[np.ndarray, "batches batch"],
    coarse: Rung,
    fine: Rung,
    factors: Factors | None,
    values: Float[Array, "points operators"],
    weight: float,
    nugget: float,
    max_escalations: int,
) -> Float[Array, "points operators"]:
    """Latent values with those of the finer set, where the coarser has none, predicted by the batches of the coarser."""
    new = np.setdiff1d(fine.points, coarse.points)
    first, num = coarse.rows
    own = batches[first : first + num]
    weights = local_weights(problem, own, first, factors, values, weight, nugget, max_escalations)
    centre = NeighbourIndex(coordinates[coarse.points]).nearest(coordinates[new], 1)[1][:, 0]
    table = problem.table
    found = np.asarray(problem.mean)[new] + evaluated(
        problem.kernels, table.operators, table.points, on_device(own), on_device(weights), table.operators,
        np.asarray(table.points)[new], centre if num > 1 else np.zeros_like(centre),
    )  # fmt: skip
    found = np.where(np.asarray(table.active)[new], np.where(np.isfinite(found), found, np.asarray(values)[new]), 0.0)
    retracted = np.asarray(eqx.filter_jit(problem.retract)(on_device(new), on_device(found)))
    after = np.array(values)
    after[new] = np.where(np.isfinite(retracted), retracted, found)
    return on_device(after)
