r"""New points where a solution needs them: where its equations are off between the points, or where it is uncertain.

Among many candidates, a batch is drawn with probabilities that follow $(e / \bar e)^{1/2} + 1$: $e$ is what is left of the
equations, or the standard deviation, and the 1 keeps a share everywhere, because an indicator knows nothing of what the points
have missed. The root spreads the batch over what is off by several orders of magnitude. A point that is nearer to another than
half of what is usual there, for the points that the solution has, is left out.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from gpde.arguments import named_arguments
from gpde.collocation.neighbours import NeighbourIndex
from gpde.domains.sampling import generator
from gpde.outcomes import Outcome
from gpde.problem.problem import PointsByPart, Problem
from gpde.solution._solve import solve
from gpde.solution.solution import Solution

INDICATORS = ("residual", "std")
# Candidates for each point that is wanted.
_NUM_CANDIDATES = 20
# Neighbours that tell how far apart points usually are.
_NUM_NEIGHBOURS = 6


@named_arguments
def refine(solution: Solution, num_points: int, by: str = "residual", *, seed: int = 0) -> PointsByPart:
    """The points of a solution and `num_points` more in the interior, for `solve(problem, points=..., initial=solution)`.

    `by`: `"residual"`, where the equations are off between the points, or `"std"`, where the solution is uncertain.
    """
    problem = _checked(solution, num_points, by)
    fresh = int(generator(seed, "refine").integers(2**31))
    candidates = problem.sample_part("interior", _NUM_CANDIDATES * num_points, seed=fresh)
    if by == "std":
        values = solution.std(candidates)
    else:
        values = np.abs(solution.residual(candidates))
    indicator = values.reshape(len(candidates), -1)
    # Every equation, and every field, in units of its own.
    indicator = np.max(indicator / np.maximum(indicator.mean(axis=0), np.finfo(float).tiny), axis=1)
    points = _own_points(solution, problem)
    chosen = _drawn(candidates, np.sqrt(indicator) + 1.0, np.concatenate(list(points.values())), num_points, fresh)
    return {**points, "interior": np.concatenate([points["interior"], candidates[chosen]])}


def solve_adaptively(
    problem: Problem,
    kernel: Any = None,
    *,
    rounds: int,
    by: str = "residual",
    num_interior: int | None = None,
    num_boundary: int | None = None,
    sampling: str = "uniform",
    seed: int = 0,
    **arguments: Any,
) -> Solution:
    """`solve` with half of the interior points at first, and the others added in `rounds` batches by `refine`, each from the
    solution before. A kernel that is learned is learned again in every round. `solution.settings["rounds"]` has the sizes of
    the batches, in the order in which the interior points stand."""
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1:
        raise ValueError(f"`rounds` is how often points are added, a whole number from 1 on; came {rounds!r}.")
    located = problem.sample(num_interior, num_boundary, sampling=sampling, seed=seed)
    num = len(located["interior"])
    first = np.sort(generator(seed, "first points").permutation(num)[: max(1, num // 2)])
    points = {**located, "interior": located["interior"][first]}
    solution = solve(problem, kernel, points=points, seed=seed, **arguments)
    arguments.pop("initial", None)
    batches = [len(part) for part in np.array_split(np.arange(num - len(first)), rounds)]
    sizes = [len(first)]
    for round_, batch in enumerate(size for size in batches if size):
        if solution.result.failed or solution.result.outcome is Outcome.INTERRUPTED:
            break
        points = refine(solution, batch, by, seed=seed + round_)
        solution = solve(problem, kernel, points=points, seed=seed, initial=solution, **arguments)
        sizes.append(batch)
    added = sum(sizes[1:])
    reason = "the equations were off" if by == "residual" else "the solution was uncertain"
    note = f"{added} of its points were added where {reason}"
    result = dataclasses.replace(solution.result, notes=(*solution.result.notes, note))
    return dataclasses.replace(solution, result=result, settings={**solution.settings, "rounds": tuple(sizes)})


def _drawn(
    candidates: Float[np.ndarray, "candidates dim"],
    weights: Float[np.ndarray, " candidates"],
    points: Float[np.ndarray, "points dim"],
    num: int,
    seed: int,
) -> Int[np.ndarray, " chosen"]:
    """Candidates by weight, one after the other, as long as they keep their distance; those that did not come last."""
    rng = np.random.default_rng(seed)
    order = rng.choice(len(candidates), len(candidates), replace=False, p=weights / weights.sum())
    scale = np.maximum(np.ptp(points, axis=0), np.finfo(float).tiny)
    places = candidates / scale
    distance, _ = NeighbourIndex(points / scale).nearest(places, _NUM_NEIGHBOURS)
    # The heavier a candidate is against the lightest, the closer it may come: points must be able to concentrate.
    share = (weights.min() / weights) ** (1 / points.shape[1])
    usual = 0.5 * share * distance[:, -1]
    chosen: list[int] = []
    put_off: list[int] = []
    for index in order:
        if len(chosen) == num:
            break
        to_chosen = np.linalg.norm(places[chosen] - places[index], axis=1).min(initial=np.inf)
        close = min(to_chosen, distance[index, 0]) < usual[index]
        (put_off if close else chosen).append(int(index))
    return np.asarray([*chosen, *put_off[: num - len(chosen)]], dtype=int)


def _own_points(solution: Solution, problem: Problem) -> PointsByPart:
    """The points of a solution, those of observations left out."""
    return {part: points for part, points in solution.points.items() if part in problem.equations}


def _checked(solution: Solution, num_points: int, by: str) -> Problem:
    if not isinstance(solution, Solution):
        raise ValueError(f"`refine`: the first argument must be a `gpde.Solution`, not {type(solution).__name__}.")
    if solution.problem is None:
        raise ValueError("`refine`: a file holds no equations; write `gpde.load(path, problem=...)`.")
    if isinstance(num_points, bool) or not isinstance(num_points, int | np.integer) or num_points < 1:
        raise ValueError(f"`refine`: `num_points` is how many points to add, a whole number from 1 on; came {num_points!r}.")
    if by not in INDICATORS:
        raise ValueError(f"`refine`: `by` must be one of {', '.join(map(repr, INDICATORS))}; came {by!r}.")
    if "interior" not in solution.problem.equations:
        raise ValueError("`refine`: no equation holds in the interior, where points would be added.")
    return solution.problem
