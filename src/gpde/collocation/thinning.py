"""Fewer points of a problem, as well spread as all of them: what coarse solves, starts and far neighbours are made of."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gpde.collocation.collocation import Collocation
from gpde.collocation.cover import spread_centres
from gpde.collocation.neighbours import Metric
from gpde.functionals.functionals import Functionals
from gpde.machine.arrays import on_device


class Thinned(NamedTuple):
    """A problem on some of its points, which these are, part after part, and where their latent values lie among those of
    all."""

    collocation: Collocation
    points: Int[np.ndarray, " points"]
    places: Int[np.ndarray, " size"]


def thinned(collocation: Collocation, metric: Metric, num_points: int, *, all_data: bool = False) -> Thinned:
    r"""The problem on about `num_points` well-spread points, some of every part; with `all_data`, beside noisy data unless
    these are more.

    Where the largest part keeps a share $r$ of its points, which makes them $r^{-1/d}$ times as far apart, the others keep
    $r^{(d-1)/d}$: boundaries have a dimension less, and stay as dense as what they enclose.
    """
    counts = np.array([part.num_points for part in collocation.parts])
    if num_points >= counts.sum():
        return restricted(collocation, [np.arange(n) for n in counts])
    dim = collocation.parts[0].points.shape[1]
    share = num_points / counts.sum()
    power = np.where(np.arange(len(counts)) == np.argmax(counts), 1.0, (dim - 1) / dim)
    wanted = counts * share**power
    wanted = np.clip(np.ceil(wanted * num_points / wanted.sum()).astype(int), 1, counts)
    noisy = np.array([part.noisy for part in collocation.parts])
    few_data = all_data and counts[noisy].sum() <= num_points
    # A mean is one over all of its points.
    whole = np.array([part.weights is not None for part in collocation.parts]) | (noisy & few_data)
    wanted = np.where(whole, counts, wanted)
    kept = [
        spread_centres(metric.coordinates(np.asarray(part.points)), int(num))
        for part, num in zip(collocation.parts, wanted, strict=True)
    ]
    return restricted(collocation, kept)


def restricted(collocation: Collocation, kept: Sequence[Int[np.ndarray, " _"]]) -> Thinned:
    """The problem on chosen points of each part; parts of which nothing is kept are left out."""
    parts = [(part, np.asarray(rows)) for part, rows in zip(collocation.parts, kept, strict=True) if len(rows)]
    starts: list[list[int]] = [[-1] * len(part.starts) for part, _ in parts]
    operators, groups, places = [], [], []
    offset = 0
    for operator in collocation.functionals.operators:
        points = []
        for own, (part, rows) in zip(starts, parts, strict=True):
            if operator in part.reading.operators:
                slot = part.reading.operators.index(operator)
                own[slot] = offset
                offset += len(rows)
                points.append(np.asarray(part.points)[rows])
                places.append(part.starts[slot] + rows)
        if points:
            operators.append(operator)
            groups.append(on_device(np.concatenate(points)))
    chosen = tuple(
        dataclasses.replace(
            part,
            sites=part.sites.map(np.asarray).at(rows).map(on_device),
            starts=tuple(own),
            rhs=on_device(np.asarray(part.rhs)[rows]),
            noise_variance=on_device(np.asarray(part.noise_variance)[rows]),
            weights=None if part.weights is None else part.weights[rows],
        )
        for own, (part, rows) in zip(starts, parts, strict=True)
    )
    functionals = Functionals(tuple(operators), tuple(groups))
    first = np.cumsum([0, *(part.num_points for part in collocation.parts)])
    points = np.concatenate([start + np.asarray(rows, dtype=int) for start, rows in zip(first, kept, strict=False)])
    return Thinned(Collocation(functionals, chosen, collocation.num_fields), points, np.concatenate(places))


def nested_subsets(
    coordinates: Float[np.ndarray, "points coordinates"], num_levels: int, dim: int
) -> list[Int[np.ndarray, " _"]]:
    """Subsets of the points, each of which keeps one in $2^d$ of the one before, well spread: twice as far apart."""
    subsets, last = [], np.arange(len(coordinates))
    for _ in range(num_levels):
        last = last[spread_centres(coordinates[last], max(1, len(last) // 2**dim))]
        subsets.append(last)
    return subsets
