"""Long times: an evolution equation solved window after window of time, each from where the last one ended."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.arguments import named_arguments
from gpde.domains import SpaceTime
from gpde.equations.linear_operators import LinearOperator
from gpde.machine import interrupts
from gpde.methods.base import AbstractPredictor
from gpde.outcomes import Outcome, Result
from gpde.problem.problem import Observations, PointsByPart, Problem
from gpde.solution._solve import solve
from gpde.solution.solution import Seconds, Solution

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


class Marched(AbstractPredictor):
    """The predictors of consecutive windows of time, the first coordinate; at an edge the earlier one speaks."""

    continuous: ClassVar[bool] = False
    predictors: tuple[AbstractPredictor, ...]
    edges: Float[np.ndarray, " edges"]

    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        return self._by_window(lambda predictor, here: predictor.raw_values(operators, here), len(operators), points)

    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        return self._by_window(lambda predictor, here: predictor.raw_variances(operators, here), len(operators), points)

    def _by_window(
        self, evaluate: Callable[[AbstractPredictor, np.ndarray], np.ndarray], num: int, points: np.ndarray
    ) -> np.ndarray:
        out = np.zeros((len(points), num))
        window = np.searchsorted(self.edges[1:-1], points[:, 0])
        for index in np.unique(window):
            here = window == index
            out[here] = evaluate(self.predictors[index], points[here])
        return out


@named_arguments
def march(
    problem: Problem, kernel: Any = None, *, windows: int | Sequence[float] | Float[np.ndarray, " edges"], **arguments: Any
) -> Solution:
    """Solves a problem in space and time window after window.

    **Main arguments:**

    - `problem`: on a `SpaceTime`, with linear equations on `"initial"`: values, and time derivatives where the equation has
      two of them.
    - `windows`: how many, of equal length; or the times at which they meet, start and stop included.

    **Other arguments:**

    - `kernel` and `arguments` are those of `solve`, for each window: numbers of points count per window, and a lengthscale in
      time is one within a window. `initial` and `points` are not among them.

    The solution is one function of time. Its history has a `window` in each entry. A window that fails ends the march: what was
    reached until then is returned, on the times that it covers, and its result says so. All windows have the same shapes and
    the same equations, so that they compile once.
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
    operators = [_linear_part(equation) for equation in _initial_equations(problem)]
    solutions: list[Solution] = []
    for start, stop in itertools.pairwise(edges):
        window, points = _window(problem, start, stop, operators, solutions[-1] if solutions else None, arguments)
        solutions.append(solve(window, kernel, points=points, **arguments))
        if solutions[-1].result.failed or interrupts.pending():
            break
    return _joined(problem, edges, solutions)


def _edges(problem: Problem, windows: Any) -> Float[np.ndarray, " edges"]:
    domain = problem.domain
    if not isinstance(domain, SpaceTime):
        raise ValueError(f"`march`: the problem needs a time, as on `gpde.SpaceTime(space, start, stop)`; it is on {domain}.")
    if isinstance(windows, int | np.integer) and not isinstance(windows, bool) and windows >= 1:
        return np.linspace(domain.start, domain.stop, int(windows) + 1)
    try:
        edges = np.asarray(windows, dtype=float)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    inside = edges.ndim == 1 and len(edges) >= 2 and bool(np.all(np.diff(edges) > 0))
    if not (inside and np.isclose(edges[0], domain.start) and np.isclose(edges[-1], domain.stop)):
        raise ValueError(
            "`march`: `windows` is how many there are, or the times at which they meet, ascending from "
            f"{domain.start:g} to {domain.stop:g}; came {windows!r}."
        )
    return edges


def _initial_equations(problem: Problem) -> tuple[Callable[..., Any], ...]:
    """The equations at the start, which must be linear: they are what one window tells the next."""
    given = next((c for c in problem.conditions if c.part == "initial"), None)
    if given is None:
        raise ValueError("`march`: there is no equation on 'initial', so that nothing goes from one window to the next.")
    if not all(kind.linear for kind in given.reading.kinds):
        raise ValueError(
            "`march`: the equations on 'initial' must be linear in the unknown, as `u(x) - start(x)` is: later windows hold "
            "their left sides at what the window before has reached."
        )
    own: Any = problem.equations["initial"]
    return (own,) if callable(own) else tuple(own)


def _linear_part(equation: Callable[..., Any]) -> Callable[..., Any]:
    r"""The operator $L$ of an affine equation $Lu(x) + c(x)$."""

    def operator(*fields: Any) -> Any:
        zeros = (_zero,) * len(fields)
        return lambda x: equation(*fields, x) - equation(*zeros, x)

    return operator


def _zero(x: Array) -> Array:
    return jnp.zeros((), dtype=x.dtype)


def _window(
    problem: Problem,
    start: float,
    stop: float,
    operators: Sequence[Callable[..., Any]],
    before: Solution | None,
    arguments: dict[str, Any],
) -> tuple[Problem, PointsByPart]:
    """The problem between two times, its start given as exact data: the same functions for every window, other numbers. And
    the points of its parts."""
    space: Any = problem.domain
    domain = SpaceTime(space.space, start, stop)
    whole = dataclasses.replace(problem, domain=domain, observations=())
    sampled = ("num_interior", "num_boundary", "sampling", "seed")
    points = whole.sample(**{name: arguments[name] for name in sampled if name in arguments})
    at_start = points.pop("initial")
    if before is None:
        zeros = (_zero,) * len(problem.fields)
        equations = _initial_equations(problem)
        values = [-np.asarray(jax.vmap(lambda x, e=e: jnp.asarray(e(*zeros, x)))(jnp.asarray(at_start))) for e in equations]
    else:
        values = [before.apply(operator, at_start) for operator in operators]
    data = [
        Observations(at_start, value, operator=operator, name="start")
        for operator, value in zip(operators, values, strict=True)
    ]
    given: Any = problem.observations
    rest = {part: equation for part, equation in problem.equations.items() if part != "initial"}
    return dataclasses.replace(whole, equations=rest, observations=(*data, *_during(given, start, stop))), points


def _during(given: Sequence[Observations], start: float, stop: float) -> list[Observations]:
    """The user's data between two times, those at the later one included."""
    found = []
    for data in given:
        time = data.points[:, 0]
        here = (time > start) & (time <= stop)
        if here.any():
            noise = np.asarray(data.noise)[here]
            found.append(dataclasses.replace(data, points=data.points[here], values=data.values[here], noise=noise))
    return found


def _joined(problem: Problem, edges: Float[np.ndarray, " edges"], solutions: Sequence[Solution]) -> Solution:
    """One solution of all windows."""
    reached, last = len(solutions), solutions[-1]
    domain: Any = problem.domain
    if reached < len(edges) - 1:
        domain = SpaceTime(domain.space, edges[0], edges[reached])
    parts = dict.fromkeys(part for solution in solutions for part in solution.points)
    points = {part: np.concatenate([s.points[part] for s in solutions if part in s.points]) for part in parts}
    return dataclasses.replace(
        last,
        problem=dataclasses.replace(problem, domain=domain),
        name=problem.name,
        domain=domain,
        predictor=Marched(tuple(s.predictor for s in solutions), edges[: reached + 1]),
        points=points,
        latent=np.concatenate([s.latent for s in solutions]),
        history=[{**entry, "window": k} for k, s in enumerate(solutions, start=1) for entry in s.history],
        result=_result(solutions, len(edges) - 1),
        seconds=Seconds(compile=sum(s.seconds.compile for s in solutions), run=sum(s.seconds.run for s in solutions)),
        settings={**last.settings, "windows": len(edges) - 1},
        resume=None,
    )


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
