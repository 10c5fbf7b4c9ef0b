"""Long times: an evolution equation solved window after window of time, each from where the last one ended."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gpde.arguments import named_arguments
from gpde.machine import interrupts
from gpde.outcomes import Outcome, Result
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.solution import Seconds, Solution
from gpde.solution.windows import Marched, MarchedSolution, Window, starts_of, with_start

_BEST_FIRST = (
    Outcome.CONVERGED,
    Outcome.FINISHED,
    Outcome.PLATEAU,
    Outcome.NOT_AT_REST,
    Outcome.MAX_STEPS,
    Outcome.STALLED,
    Outcome.NOT_NEAR,
    Outcome.NOT_RESOLVED,
    Outcome.NOT_MET,
)


@named_arguments
def march(
    problem: Problem, kernel: Any = None, *, windows: int | Sequence[float] | Float[np.ndarray, " edges"], **arguments: Any
) -> Solution:
    """Solves a problem in space and time window after window.

    **Main arguments:**

    - `problem`: on a `SpaceTime`, which may have further parts or be divided, with linear equations on `"initial"`: values, and
      time derivatives where the equation has two of them.
    - `windows`: how many, of equal length; or the times at which they meet, start and stop included.

    **Other arguments:**

    - `kernel` and `arguments` are those of `solve`, for each window: numbers of points count per window, and a lengthscale in
      time is one within a window. `initial` and `points` are not among them.

    The solution is one function of time. Its history has a `window` in each entry. A window that fails ends the march: what was
    reached until then is returned, on the times that it covers, and its result says so. All windows have the same shapes and
    the same equations, so that they compile once. `error_estimate` and `std(calibrated=True)` march through all windows again
    with a companion on twice the points, so that they know what a window has from those before it; `std` itself, and a file,
    knows each window alone.
    """
    edges = _edges(problem, windows)
    if "initial" in arguments or "points" in arguments:
        raise ValueError(
            "`march`: each window starts from the last, with points of its own; `initial` and `points` are for `solve`."
        )
    if problem.constraints:
        raise ValueError(
            "`march`: `constraints` hold at times of their own, which one window has and others have not; `solve` it."
        )
    if problem.parameters:
        raise ValueError(
            f"`march`: the problem has unknown scalars ({', '.join(problem.parameters)}), which all data determine together, "
            "while each window would find its own; `solve` it, or march with the value that `solve` found."
        )
    starts = starts_of(problem)
    wholes = [_between(problem, edges, number) for number in range(len(edges) - 1)]
    sampled = {name: arguments[name] for name in ("num_interior", "num_boundary", "sampling", "seed") if name in arguments}
    reached: list[Window] = []
    for whole in wholes:
        points = whole.sample(**sampled)
        where = [points[start.part] for start in starts]
        if reached:
            values = [reached[-1].solution.apply(start.left, x) for start, x in zip(starts, where, strict=True)]
        else:
            values = [start.right(x) for start, x in zip(starts, where, strict=True)]
        window = with_start(whole, starts, where, values)
        inside = {part: points[part] for part in window.equations}
        found = solve(window, kernel, points=inside, **arguments)
        reached.append(Window(whole, dataclasses.replace(found, resume=None)))
        if reached[-1].solution.result.failed or interrupts.pending():
            break
    return _joined(problem, edges, reached)


def _edges(problem: Problem, windows: Any) -> Float[np.ndarray, " edges"]:
    domain = problem.domain
    first, last = float(domain.lower[0]), float(domain.upper[0])
    if domain.during(first, last) is None:
        raise ValueError(
            "`march`: the problem needs a time, as on `gpde.SpaceTime(space, start, stop)`, which may have further parts or be "
            f"divided; it is on {domain}."
        )
    if isinstance(windows, int | np.integer) and not isinstance(windows, bool) and windows >= 1:
        return np.linspace(first, last, int(windows) + 1)
    try:
        edges = np.array(windows, dtype=float)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    inside = edges.ndim == 1 and len(edges) >= 2 and bool(np.all(np.diff(edges) > 0))
    if not (inside and np.isclose(edges[0], first) and np.isclose(edges[-1], last)):
        raise ValueError(
            "`march`: `windows` is how many there are, or the times at which they meet, ascending from "
            f"{first:g} to {last:g}; came {windows!r}."
        )
    edges[0], edges[-1] = first, last
    return edges


def _between(problem: Problem, edges: Float[np.ndarray, " edges"], number: int) -> Problem:
    """The problem of one window, its start still an equation."""
    start, stop = edges[number : number + 2]
    # Data at an edge belong to the window before; the first has those at its start, and rounding leaves none over.
    after, until = (-np.inf if number == 0 else start), (np.inf if number == len(edges) - 2 else stop)
    try:
        return _restricted(problem, (start, stop), (after, until))
    except ValueError as error:
        raise ValueError(
            f"`march`: the problem cannot be stated in the window from {start:g} to {stop:g}: {error} Parts that are there at "
            "some times only have to be there in every window: choose other `windows`, or let an equation change with time, as "
            "`jnp.where(x[0] < 1, ...)` does, in place of a part."
        ) from error


def _restricted(problem: Problem, times: tuple[float, float], data: tuple[float, float]) -> Problem:
    """The problem between two times, with the data after one time and until another."""
    found, given = [], problem.observations
    for each in given:  # pyright: ignore[reportGeneralTypeIssues]
        here = (each.points[:, 0] > data[0]) & (each.points[:, 0] <= data[1])
        if here.any():
            noise = np.asarray(each.noise)[here]
            found.append(dataclasses.replace(each, points=each.points[here], values=each.values[here], noise=noise))
    return dataclasses.replace(problem, domain=problem.domain.during(*times), observations=tuple(found))


def _joined(problem: Problem, edges: Float[np.ndarray, " edges"], windows: Sequence[Window]) -> Solution:
    """One solution of all windows."""
    solutions = [window.solution for window in windows]
    reached, last = len(solutions), solutions[-1]
    if reached < len(edges) - 1:
        problem = _restricted(problem, (edges[0], edges[reached]), (-np.inf, edges[reached]))
    parts = dict.fromkeys(part for solution in solutions for part in solution.points)
    points = {part: np.concatenate([s.points[part] for s in solutions if part in s.points]) for part in parts}
    own = {field.name: getattr(last, field.name) for field in dataclasses.fields(last)}
    joined = {
        "problem": problem,
        "name": problem.name,
        "domain": problem.domain,
        "predictor": Marched(tuple(s.predictor for s in solutions), edges[: reached + 1]),
        "points": points,
        "latent": np.concatenate([s.latent for s in solutions]),
        "history": [{**entry, "window": k} for k, s in enumerate(solutions, start=1) for entry in s.history],
        "result": _result(solutions, len(edges) - 1),
        "seconds": Seconds(compile=sum(s.seconds.compile for s in solutions), run=sum(s.seconds.run for s in solutions)),
        "settings": {**last.settings, "windows": len(edges) - 1},
        "resume": None,
        "windows": tuple(windows),
    }
    return MarchedSolution(**{**own, **joined})


def _result(solutions: Sequence[Solution], num_windows: int) -> Result:
    """The worst of the windows' endings, and what each has to say, once."""
    results = [solution.result for solution in solutions]
    worst = max(results, key=lambda r: _BEST_FIRST.index(r.outcome) if r.outcome in _BEST_FIRST else len(_BEST_FIRST))
    notes = [f"marched through {len(results)} of {num_windows} windows"]
    said: dict[str, list[int]] = {}
    for number, result in enumerate(results, start=1):
        for note in result.notes:
            said.setdefault(note, []).append(number)
    for note, where in said.items():
        notes.append(note if len(where) == len(results) else f"window {_numbers_text(where)}: {note}")
    nuggets = [result.nugget for result in results if result.nugget is not None]
    return dataclasses.replace(
        worst,
        num_steps=sum(result.num_steps for result in results),
        nugget=max(nuggets, default=None),
        notes=tuple(notes),
        at_points=_largest([result.at_points for result in results]),
        between_points=_largest([result.between_points for result in results]),
    )


def _numbers_text(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:4])) + (" and others" if len(numbers) > 4 else "")


def _largest(tables: Sequence[Any]) -> dict[str, float]:
    parts = dict.fromkeys(part for table in tables for part in table)
    return {part: max(table[part] for table in tables if part in table) for part in parts}
