r"""Values that two conditions prescribe where they hold both: on one part, or where two parts meet.

A Dirichlet condition prescribes $g(x) = -r(x, 0) / a(x)$, which can be evaluated anywhere. Where parts meet is found by the
closest pairs of many points on them. Near such a pair, $d$ apart, $h = g_A - g_B$ of consistent conditions is of size
$|\nabla h|\, d$: it vanishes, changes its sign or halves somewhere within a few $d$, and that of contradictory ones does not.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gpde.collocation.neighbours import NeighbourIndex
from gpde.equations import Site
from gpde.problem.problem import Problem
from gpde.solution.checks.residuals import CHUNK, Watched, residuals_and_gradients

# Relative to the values prescribed: below, two conditions agree well enough for any solution to meet both.
_TOLERANCE = 1e-3
_MAX_NAMED = 3


class Contradiction(NamedTuple):
    """Two conditions, whether they hold on the same part, and a sentence about them."""

    same_part: bool
    text: str


class _Prescribed(NamedTuple):
    """A Dirichlet condition: which equation of which condition, the field, and its values in the condition's pool."""

    condition: int
    equation: int
    field: int
    values: Float[np.ndarray, " pool"]


def contradictions(problem: Problem, conditions: Sequence[Watched]) -> list[Contradiction]:
    """Pairs of Dirichlet conditions that no function can meet both, at most a few."""
    found = []
    for a, b in itertools.combinations(_prescribed(conditions), 2):
        if a.field != b.field:
            continue
        where = _apart(problem, conditions, a, b)
        if where is None:
            continue
        point, first, second = where
        left, right = conditions[a.condition].part, conditions[b.condition].part
        field = problem.unknowns[a.field]
        # As far as the gap is known, near the point where they meet. Adding zero turns -0 into 0.
        unit = 10.0 ** (math.floor(math.log10(abs(first - second))) - 1)
        first, second = (unit * round(value / unit) + 0.0 for value in (first, second))
        values = f"{field} = {first:.6g} and {field} = {second:.6g}"
        if a.condition == b.condition:
            names = f"{left.reading.names[a.equation]} and {right.reading.names[b.equation]}"
            found.append(Contradiction(True, f"{names} contradict each other: {values} at {_text(problem, point)}"))
        else:
            text = f"the conditions on '{left.name}' and '{right.name}' contradict each other where they meet, near "
            end = f"{_text(problem, point)}: {values}. No continuous function has both, so expect errors around there"
            found.append(Contradiction(False, text + end))
    return found[:_MAX_NAMED]


def _prescribed(conditions: Sequence[Watched]) -> list[_Prescribed]:
    out = []
    for index, condition in enumerate(conditions):
        for equation, kind in enumerate(condition.part.reading.kinds):
            if kind.dirichlet:
                slot = kind.looks_at[0]
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = -condition.at_zero[:, equation] / condition.gradient[:, equation, slot]
                out.append(_Prescribed(index, equation, condition.part.reading.operators[slot][0][0], values))
    return out


def _apart(
    problem: Problem, conditions: Sequence[Watched], a: _Prescribed, b: _Prescribed
) -> tuple[Float[np.ndarray, " dim"], float, float] | None:
    """Where the two differ although they hold at the same point: the point and both values."""
    left, right = conditions[a.condition], conditions[b.condition]
    least = _TOLERANCE * max(np.max(np.abs(v), where=np.isfinite(v), initial=0.0) for v in (a.values, b.values))
    if a.condition == b.condition:
        return _largest(left.pool.x, a.values, b.values, least)
    if left.is_data or right.is_data:
        return _apart_at_data(problem, conditions, a, b, least)
    points, reach = _meeting_points(problem, left.pool.x, right.pool.x)
    if not len(points):
        return None
    # The middle of each pair, then steps to both sides along every axis.
    dim = problem.domain.dim
    moves = np.concatenate([np.zeros((1, dim)), np.eye(dim), -np.eye(dim)]) * problem.domain.extent
    around = points[:, None] + reach[:, None, None] * moves[None]
    first, second = (_values(conditions, p, around.reshape(-1, dim)).reshape(len(points), -1) for p in (a, b))
    gap = first - second
    middle = gap[:, :1]
    # Where values end (the root of a distance, say) nothing can be said: comparisons with NaN are False.
    holds = np.all(gap * np.sign(middle) >= 0.5 * np.abs(middle), axis=1)
    return _largest(points[holds], first[holds, 0], second[holds, 0], least)


def _apart_at_data(
    problem: Problem, conditions: Sequence[Watched], a: _Prescribed, b: _Prescribed, least: float
) -> tuple[Float[np.ndarray, " dim"], float, float] | None:
    """Data is known at its own points only: those on the other condition's part, or among its points."""
    data, other, swapped = (a, b, False) if conditions[a.condition].is_data else (b, a, True)
    points, place = np.unique(conditions[data.condition].pool.x, axis=0, return_index=True)
    own = data.values[place]
    condition = conditions[other.condition]
    if condition.is_data:
        distance, nearest = (column[:, 0] for column in NeighbourIndex(condition.pool.x).nearest(points, 1))
        here, others = distance == 0, other.values[nearest]
    else:
        atoms = problem.atoms(condition.part.name)
        here = np.any([problem.domain.on_part(atom, points) for atom in atoms], axis=0)
        here[np.flatnonzero(here)[CHUNK:]] = False
        others = np.full(len(points), np.nan)
        if here.any():
            others[here] = _values(conditions, other, points[here])
    first, second = (others, own) if swapped else (own, others)
    return _largest(points[here], first[here], second[here], least)


def _largest(
    points: Float[np.ndarray, "points dim"], first: np.ndarray, second: np.ndarray, least: float
) -> tuple[Float[np.ndarray, " dim"], float, float] | None:
    gap = np.abs(first - second)
    gap = np.where(np.isfinite(gap), gap, 0.0)
    if not len(gap) or gap.max() <= least:
        return None
    worst = int(np.argmax(gap))
    return points[worst], float(first[worst]), float(second[worst])


def _meeting_points(
    problem: Problem, left: Float[np.ndarray, "left dim"], right: Float[np.ndarray, "right dim"]
) -> tuple[Float[np.ndarray, "points dim"], Float[np.ndarray, " points"]]:
    """Middles of the closest pairs of two parts, if these touch, and how far around to look, in units of the extent."""
    dim, extent = problem.domain.dim, problem.domain.extent
    distance, nearest = (column[:, 0] for column in NeighbourIndex(left / extent).nearest(right / extent, 1))
    # Of random points on two sides that meet, N on each, the closest are about N^(-2/dim) apart.
    touching = 4 * len(right) ** (-2 / dim) if dim > 1 else 0.0
    order = np.argsort(distance)[: CHUNK // (2 * dim + 1)]
    order = order[distance[order] <= touching]
    middle = (left[nearest[order]] + right[order]) / 2
    return middle, 2 * np.sqrt(dim) * distance[order]


def _values(
    conditions: Sequence[Watched], prescribed: _Prescribed, points: Float[np.ndarray, "points dim"]
) -> Float[np.ndarray, " points"]:
    """$g$ at up to `CHUNK` points: more are repeated, so that one shape is compiled."""
    readings = tuple(c.part.reading for c in conditions)
    padded = points[np.minimum(np.arange(CHUNK), len(points) - 1)]
    zeros = [np.zeros((CHUNK, len(r.operators))) for r in readings]
    residual, gradient = residuals_and_gradients(readings, [_near(c, padded) for c in conditions], zeros)[prescribed.condition]
    slot = readings[prescribed.condition].kinds[prescribed.equation].looks_at[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = -residual[:, prescribed.equation] / gradient[:, prescribed.equation, slot]
    return values[: len(points)]


def _near(condition: Watched, points: Float[np.ndarray, "points dim"]) -> Site:
    """Points beside a part, told what the nearest of the condition's pool is told."""
    if condition.pool.normal is None:
        return Site(points)
    nearest = NeighbourIndex(condition.pool.x).nearest(points, 1)[1][:, 0]
    return condition.pool.at(nearest)._replace(x=points)


def _text(problem: Problem, point: Float[np.ndarray, " dim"]) -> str:
    """A point to a hundredth of the domain, which is how well it is known."""
    lower, extent = problem.domain.lower, problem.domain.extent
    rounded = lower + extent * np.round((point - lower) / extent, 2)
    return "(" + ", ".join(f"{value:.3g}" for value in rounded) + ")"
