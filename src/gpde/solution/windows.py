r"""The windows of a march: what one tells the next, the function of all of them, and how far that is from the truth.

Equations at the start are affine, $Lu + g = 0$. In the first window $Lu$ is held at $-g$, in later ones at what the window
before has reached: exact data, the same functions for every window, other numbers.

An error made in one window is what the next one starts from, and nothing within that one tells of it. So the companion on twice
the points (`companion.py`) marches too: $v_k$ starts from $v_{k-1}$, where $u_k$ started from $u_{k-1}$, and
$c_k = v_k - u_k$ is the error in window $k$ with all that it has inherited, grown or decayed as the linearised equations say.
From $c_k$ come the error and the factor of error bars in each window, as in a single run (`calibration.py`).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains.sampling import generator
from gpde.equations import Reading, Site, Statement
from gpde.equations.linear_operators import LinearOperator
from gpde.methods.base import AbstractPredictor
from gpde.problem.problem import Observations, Problem
from gpde.solution.calibration import Calibration, has_noise
from gpde.solution.companion import correction
from gpde.solution.solution import CALIBRATED, NUM_ESTIMATED, Solution


class StartEquation(NamedTuple):
    """An equation on a part of the first instant."""

    part: str
    equation: Statement

    def left(self, *fields: Any) -> Callable[[Array], Any]:
        """$Lu$."""
        return lambda x: self._at(fields, x) - self._at((_zero,) * len(fields), x)

    def right(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, " points"]:
        """$-g$."""
        zeros = (_zero,) * self.equation.num_fields
        return -np.asarray(jax.vmap(lambda x: jnp.asarray(self._at(zeros, x), dtype=x.dtype))(jnp.asarray(points)))

    def _at(self, fields: Sequence[Callable[[Array], Any]], x: Array) -> Any:
        # The normal of a first instant points back in time. Prior means are in the fields already.
        back = -jnp.eye(len(x), dtype=x.dtype)[0]
        return dataclasses.replace(self.equation, means=())(fields, Site(x, back))


def _zero(x: Array) -> Array:
    return jnp.zeros((), dtype=x.dtype)


def starts_of(problem: Problem) -> list[StartEquation]:
    """The equations at the start, which must be linear: they are what one window tells the next."""
    first = set(problem.domain.covers("initial"))
    given = [c for c in problem.conditions if c.part in problem.equations and set(problem.domain.covers(c.part)) <= first]
    if not given:
        raise ValueError("`march`: there is no equation on 'initial', so that nothing goes from one window to the next.")
    for condition in given:
        if not all(kind.linear for kind in condition.reading.kinds):
            raise ValueError(
                f"`march`: the equations on '{condition.part}' must be linear in the unknown, as `u(x) - start(x)` is: later "
                "windows hold their left sides at what the window before has reached."
            )
    return [StartEquation(condition.part, equation) for condition in given for equation in condition.reading.equations]


def with_start(
    whole: Problem, starts: Sequence[StartEquation], where: Sequence[np.ndarray], values: Sequence[np.ndarray]
) -> Problem:
    """A problem with exact data in place of its equations at the start."""
    each = zip(starts, where, values, strict=True)
    data = [Observations(points, value, operator=start.left, name="start") for start, points, value in each]
    given: Any = whole.observations
    rest = {part: equation for part, equation in whole.equations.items() if part not in {start.part for start in starts}}
    return dataclasses.replace(whole, equations=rest, observations=(*data, *given))


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

    def window(self, points: Float[np.ndarray, "points dim"]) -> np.ndarray:
        """In which window each point lies."""
        return np.searchsorted(self.edges[1:-1], points[:, 0])

    def _by_window(
        self, evaluate: Callable[[AbstractPredictor, np.ndarray], np.ndarray], num: int, points: np.ndarray
    ) -> np.ndarray:
        out, window = np.zeros((len(points), num)), self.window(points)
        for index in np.unique(window):
            here = window == index
            out[here] = evaluate(self.predictors[index], points[here])
        return out


class Window(NamedTuple):
    """A window: its problem, the start still an equation, and what was found."""

    whole: Problem
    solution: Solution


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MarchedSolution(Solution):
    """The solution of a march, which keeps its windows for estimates of the error; files do not hold them."""

    windows: tuple[Window, ...] = ()

    @property
    def amplitude(self) -> float:
        raise ValueError("`amplitude`: each window of a march has one of its own; `std(points, calibrated=True)` takes them.")

    @property
    def _error(self) -> float:
        lengths = [float(whole.domain.extent[0]) for whole, _ in self.windows]
        return float(np.sqrt(np.average([each.error**2 for each in self._calibrations], weights=lengths)))

    def _calibrated(self, std: Float[np.ndarray, "points fields"], where: Float[np.ndarray, "points dim"]) -> np.ndarray:
        predictor: Any = self.predictor
        return std * np.array([each.amplitude for each in self._calibrations])[predictor.window(where), None]

    @functools.cached_property
    def _calibrations(self) -> list[Calibration]:
        """The march of the companion."""
        if any(has_noise(whole) for whole, _ in self.windows):
            raise ValueError(
                f"{CALIBRATED}: each window of a march takes its start for exact, so that what noisy data leave open is not "
                "known to the next one. `solve` the problem at once for error bars."
            )
        starts, found = starts_of(self.windows[0].whole), []
        where = _start_points(self.windows[0], starts)
        values = [start.right(x) for start, x in zip(starts, where, strict=True)]
        # The last window hands on to nobody: that it is asked for its own start again does no harm.
        for (whole, own), following in zip(self.windows, (*self.windows[1:], self.windows[-1]), strict=True):
            after, readings = _start_points(following, starts), _start_readings(following, starts)
            operators = tuple(dict.fromkeys((*own._identities, *(o for reading in readings for o in reading.operators))))
            places = own.domain.test_points((max(2, round(NUM_ESTIMATED ** (1 / own.dim))),) * own.dim)
            asked, window = np.concatenate([places, *after]), with_start(whole, starts, where, values)
            nugget, seed, kernels = own.result.nugget or 0.0, own.settings.get("seed", 0), tuple(own.kernels.values())
            off = correction(window, own.predictor, kernels, own.points, nugget, operators, asked, seed)
            if off is None:
                raise ValueError(
                    f"{CALIBRATED}: a window of the march has more points than a companion can have, or nothing came of it, "
                    "and later windows inherit its error. Compare with a march on other points instead."
                )
            here, *ahead = np.split(off, np.cumsum([len(points) for points in (places, *after)])[:-1])
            alive = np.isfinite(own._alive(np.zeros((len(places), len(own.fields))), places))
            variances = own.predictor.variances(own._identities, places)
            found.append(Calibration.of_correction(here[:, : len(own.fields)][alive], variances[alive]))
            own_columns = [[operators.index(operator) for operator in reading.operators] for reading in readings]
            corrections = [_left(r, x, c[:, k]) for r, x, c, k in zip(readings, after, ahead, own_columns, strict=True)]
            where = after
            values = [own.apply(s.left, x) + c for s, x, c in zip(starts, after, corrections, strict=True)]
        return found


def _start_points(window: Window, starts: Sequence[StartEquation]) -> list[Float[np.ndarray, "_ dim"]]:
    """For each equation at the start, the points of the window's own data and as many others."""
    seed = int(generator(window.solution.settings.get("seed", 0), "companion").integers(2**31))
    own = [data.points for data in _problem(window).observations]  # pyright: ignore[reportGeneralTypeIssues]
    new = [window.whole.sample_part(start.part, len(x), seed=seed) for start, x in zip(starts, own, strict=False)]
    return [np.unique(np.concatenate(both), axis=0) for both in zip(own, new, strict=False)]


def _start_readings(window: Window, starts: Sequence[StartEquation]) -> list[Reading]:
    return [c.reading for c in _problem(window).conditions if c.observations is not None][: len(starts)]


def _problem(window: Window) -> Problem:
    """What was solved in a window: data at its start come before others."""
    assert window.solution.problem is not None  # as only files have none
    return window.solution.problem


def _left(
    reading: Reading, points: Float[np.ndarray, "points dim"], values: Float[np.ndarray, "points operators"]
) -> Float[np.ndarray, " points"]:
    """$Lc$ from the values of those operators of $c$ as which $L$ was read."""
    residual, sites, c = jax.vmap(reading.residual), Site(jnp.asarray(points)), jnp.asarray(values)
    return np.asarray(residual(sites, c) - residual(sites, jnp.zeros_like(c)))[:, 0]
