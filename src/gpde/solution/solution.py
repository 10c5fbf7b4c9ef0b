"""What `solve` returns: a function with error bars, and how it was found."""

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.domains import AbstractDomain
from gpde.equations import (
    Site,
    Statement,
    applied,
    check_operator,
    requested_derivatives,
    require_double_precision,
    run_compiled,
)
from gpde.equations.linear_operators import LinearOperator
from gpde.kernels import AbstractKernel, MultiIndex, common_period
from gpde.kernels.text import kernels_text
from gpde.learning.learned import Learning
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor, Info
from gpde.outcomes import Outcome, Result
from gpde.problem.parameters import Estimate
from gpde.problem.problem import PointsByPart, Problem
from gpde.problem.unknowns import Fields, named_fields
from gpde.solution import files
from gpde.solution.calibration import Calibration, has_noise, left_out_amplitude
from gpde.solution.companion import correction, places
from gpde.solution.fingerprint import check_same
from gpde.solution.tables import frame_points

# Points over the domain at which the error is estimated.
NUM_ESTIMATED = 256
# Who asks for the amplitude of error bars.
CALIBRATED = "`error_estimate`, `std(calibrated=True)`"


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Wall-clock time of a solve: compiling, and everything else."""

    compile: float
    run: float


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """A solution: call it with points of shape `(num, dim)`, or with a data frame that has a column for each coordinate.

    For one field values have shape `(num,)`, for several `(num, num_fields)`, in the order of `fields`, NaN where a field does
    not live. Points outside the
    domain are refused unless `extrapolate=True` says that they are meant: no equation speaks of them.
    `parameters` are the unknown scalars of the equations, `solution.parameters["nu"].value` and `.std`.
    `history` has one entry per step, `result` says in words how the run ended, `latent` are the values of the functionals,
    `resume` is what a run needs that goes on from here (`solve(..., initial=solution)`), `learning` how the kernel was found
    where it was learned (files do not hold that).
    """

    problem: Problem | None
    name: str
    fields: tuple[str, ...]
    domain: AbstractDomain
    predictor: AbstractPredictor
    points: PointsByPart
    latent: Float[np.ndarray, " size"]
    history: list[Info]
    result: Result
    seconds: Seconds
    kernels: Mapping[str, AbstractKernel]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Estimate] = dataclasses.field(default_factory=dict)
    fingerprint: Mapping[str, Any] | None = None  # of the problem, where this came from a file
    resume: Any = None
    learning: Learning | None = None

    @property
    def dim(self) -> int:
        """Number of coordinates of a point."""
        return self.domain.dim

    def __repr__(self) -> str:
        return f"<Solution of {self.name}: {self._function_text} by {self.result.method}, {self.result.outcome.name.lower()}>"

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.name}: {self._function_text} on {self.domain}",
                f"  result  {self.result}",
                f"  method  {self.result.method}, in {self.seconds.run:.2f} s and {self.seconds.compile:.2f} s to compile",
                f"  points  {self.points_text}",
                f"  kernel  {kernels_text(self.kernels)}",
                *[f"  {name:<6}  {value:.6g} ± {std:.2g}" for name, (value, std) in self.parameters.items()],
            ]
        )

    @property
    def points_text(self) -> str:
        """`900 interior + 300 boundary`."""
        return " + ".join(f"{len(points)} {part}" for part, points in self.points.items())

    @property
    def _function_text(self) -> str:
        return ", ".join(f"{field}({', '.join(self.domain.coordinates)})" for field in self.fields)

    def __call__(self, points: Any, *more: Any, extrapolate: bool = False) -> Float[np.ndarray, "points *fields"]:
        """The fields at points."""
        if more:
            raise ValueError(
                f"`solution(points)`: points are the rows of one array of shape (num, {self.dim}), as `solution([[0.3, 0.4]])` "
                f"for a single one in the plane; came {1 + len(more)} arguments."
            )
        where = self._checked(points, extrapolate)
        values = self._alive(self.predictor.values(self._identities, where) + self._means(where), where)
        return values[:, 0] if len(self.fields) == 1 else values

    def std(self, points: Any, *, extrapolate: bool = False, calibrated: bool = False) -> Float[np.ndarray, "points *fields"]:
        """The conditional standard deviation of the fields, for the problem linearised at the solution: with the kernel's own
        amplitude, which learned kernels have learned, or `calibrated` by a companion on twice the points. A window of a march
        takes its start for exact; `calibrated`, it does not."""
        where = self._checked(points, extrapolate)
        values = self._alive(np.sqrt(self.predictor.variances(self._identities, where)), where)
        values = self._calibrated(values, where) if calibrated else values
        return values[:, 0] if len(self.fields) == 1 else values

    @property
    def amplitude(self) -> float:
        """What `std` has to be multiplied with for its 95 % band to hold 95 % of what a companion on twice the points corrects;
        in larger runs, for residuals at points left out to be as large as it expects. 1 where there are noisy data."""
        return self._calibration.amplitude

    def _calibrated(self, std: Float[np.ndarray, "points fields"], where: Float[np.ndarray, "points dim"]) -> np.ndarray:
        del where  # windows of a march have each their own
        return std * self.amplitude

    @functools.cached_property
    def _calibration(self) -> Calibration:
        if self.problem is None:
            raise ValueError(f"{CALIBRATED}: a file holds no equations; write `gpde.load(path, problem=...)`.")
        if set(self.problem.equations) - set(self.points):
            raise ValueError(
                f"{CALIBRATED}: the file is of a march, and does not hold its windows one by one; ask before `save`, or march "
                "again."
            )
        nugget, seed, kernels = self.result.nugget or 0.0, self.settings.get("seed", 0), tuple(self.kernels.values())
        where = places(self.problem, NUM_ESTIMATED)
        alive = np.isfinite(self._alive(np.zeros((len(where), len(self.fields))), where))
        variances, noisy = self.predictor.variances(self._identities, where)[alive], has_noise(self.problem)
        found = None
        if not noisy:
            arguments = (self.points, nugget, self._identities, where, seed)
            found = correction(self.problem, self.predictor, kernels, *arguments)
        if found is not None:
            return Calibration.of_correction(found[alive], variances)
        if not noisy and not self.predictor.continuous:
            raise ValueError(
                f"{CALIBRATED}: the run has more points than a companion can have, and the solution by {self.result.method} "
                "consists of pieces that need not fit together: each meets the equations, so that residuals say nothing of the "
                "error. Use `Consensus`."
            )
        amplitude = 1.0 if noisy else left_out_amplitude(self.problem, self.predictor, kernels, nugget, seed)
        return Calibration(amplitude, float(amplitude * np.sqrt(np.mean(variances))))

    def error_estimate(self) -> float:
        r"""About how far from the truth the solution is, in root mean square over the domain and all fields: how much a
        companion on twice the points would change it, and in larger runs from what is left of the equations at points that the
        run did not use; with noisy data, the root mean square of `std`. It costs a step of twice the size; within a factor of
        five as a rule. In a march the companion goes from window to window too. What no number of points at hand can tell, as
        of a heat equation backwards in time, it does not see. A run whose equations do not hold at its own points has none,
        nor one that was stopped on its way, a large one by mini-batches, or a march on noisy data."""
        if self.result.outcome is Outcome.NOT_MET:
            raise ValueError(
                "`error_estimate`: equations do not hold at the run's own points, and what is left between them tells nothing "
                "of the error then. See `solution.result`."
            )
        if self.result.outcome is Outcome.MAX_STEPS:
            raise ValueError(
                "`error_estimate`: the run was stopped on its way, and one step more, which is what an estimate takes, does "
                "not lead to the solution. See `solution.result`."
            )
        return self._error

    @property
    def _error(self) -> float:
        return self._calibration.error

    def apply(
        self, operator: Callable[..., Any], points: Any, *, extrapolate: bool = False
    ) -> Float[np.ndarray, "points *shape"]:
        """An operator of the solution: `solution.apply(laplacian, points)`, `solution.apply(gradient, points)`, or for
        several fields `solution.apply(lambda u, v: divergence(...), points)`. It need not be linear."""
        if not callable(operator):
            raise ValueError(f"`apply`: `operator` turns functions into a function, as `laplacian`; came {operator!r}.")
        name = "the operator given to `apply`"
        check_operator(operator, name, self.fields)
        return self._evaluated(
            applied(operator, name, len(self.fields), _known(self.fields).means),
            Site(self._checked(points, extrapolate)),
            scalar=False,
        )

    def residual(
        self, points: Any, part: str = "interior", *, extrapolate: bool = False
    ) -> Float[np.ndarray, "points *equations"]:
        """What is left of the equations on `part`, as they are written: JAX differentiates the solution's own expansion around
        each point, so that neither the latent values nor what was read of the equations has a part in it."""
        if self.problem is None:
            raise ValueError("`residual`: a file holds no equations; write `gpde.load(path, problem=...)`.")
        given = self.problem.equations.get(part)
        if given is None:
            raise ValueError(f"`residual`: no equation holds on {part!r}; parts: {', '.join(self.problem.equations)}.")
        (reading,) = [c.reading for c in self.problem.conditions if c.part == part]
        sites = self.problem.sites(part, self._checked(points, extrapolate), normals=reading.takes_normal)
        values = np.stack([self._evaluated(statement, sites) for statement in reading.equations], axis=1)
        return values[:, 0] if callable(given) else values

    def _evaluated(self, statement: Statement, sites: Site, *, scalar: bool = True) -> np.ndarray:
        r"""An equation on the solution, which near each point is $\sum_\alpha \partial^\alpha u(x) (y - x)^\alpha/\alpha!$."""
        where = sites.x
        unknowns = tuple(self.kernels)
        asked = requested_derivatives(statement, unknowns, sites.at(0), scalar=scalar)
        order = max((sum(alpha) for _, alpha in asked), default=0)
        indices = [alpha for alpha in itertools.product(range(order + 1), repeat=where.shape[1]) if sum(alpha) <= order]
        operators: list[LinearOperator] = [((f, ((alpha, 1.0),)),) for f in range(len(unknowns)) for alpha in indices]
        values = self.predictor.values(operators, where).reshape(len(where), len(unknowns), len(indices))

        def at(site: Site, coefficients: Array) -> Any:
            return statement([functools.partial(_polynomial, indices, own, site.x) for own in coefficients], site)

        return np.asarray(run_compiled(jax.vmap(at), sites.map(on_device), on_device(values)))

    def plot(self, path: str | os.PathLike[str] | None = None, grid: Sequence[int] | None = None, *, std: bool = False) -> Any:
        """A figure of matplotlib: truth where it is known, solution, error, points and history.

        - `path`: where it is saved, if anywhere; the ending says in which format, as `.png`, `.pdf` or `.svg`.
        - `grid`: points along each coordinate drawn, as `(200, 200)`; the problem's own by default.
        - `std`: one more panel, of the standard deviation (in one dimension its band is always drawn).
        """
        from gpde.solution.plotting import plot_solution

        return plot_solution(self, path, grid, std=std)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the solution to an `.npz` file that `gpde.load` reads."""
        files.save(self, path)

    def _means(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "#points fields"]:
        """The prior means of the fields."""
        means = _known(self.fields).means
        if not any(means):
            return np.zeros((1, len(self.fields)))
        columns = [
            np.zeros(len(points)) if m is None else run_compiled(jax.vmap(_as_number(m)), jnp.asarray(points)) for m in means
        ]
        return np.stack([np.asarray(column) for column in columns], axis=1)

    def _alive(self, values: Float[np.ndarray, "points fields"], points: Float[np.ndarray, "points dim"]) -> np.ndarray:
        fields = _known(self.fields)
        return values if fields.everywhere else np.where(fields.alive(self.domain, points), values, np.nan)

    @property
    def _identities(self) -> tuple[LinearOperator, ...]:
        zero = (0,) * self.dim
        return tuple(((index, ((zero, 1.0),)),) for index in range(len(self.fields)))

    def outside(self, points: Float[np.ndarray, "points dim"]) -> Bool[np.ndarray, " points"]:
        """Which points lie outside the domain. A coordinate that is a circle for the kernels has no outside."""
        wrapped = np.array(points, dtype=float)
        periods = np.stack([kernel.periods(self.dim) for kernel in self.kernels.values()], axis=1)
        for axis, period in enumerate(map(common_period, periods)):
            if np.isfinite(period) and period > 0:
                lower = self.domain.lower[axis]
                wrapped[:, axis] = lower + (wrapped[:, axis] - lower) % period
        return ~(self.domain.contains(points) | self.domain.contains(wrapped))

    def _checked(self, points: Any, extrapolate: bool) -> Float[np.ndarray, "points dim"]:
        dim = self.dim
        if hasattr(points, "columns"):
            points = frame_points(points, self.domain.coordinates)
        try:
            array = np.asarray(points, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`points` must be an array of numbers of shape (num, {dim}); came {points!r}.") from error
        if array.ndim == 1 and dim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != dim or not len(array):
            raise ValueError(
                f"`points` must have shape (num, {dim}) with num >= 1, one row per point; came {np.shape(points)}"
                + (". For one point write `solution(points[None])`." if array.shape == (dim,) else ".")
            )
        if not np.isfinite(array).all():
            raise ValueError(f"`points`: {np.sum(~np.isfinite(array).all(axis=1))} of {len(array)} rows are not finite.")
        outside = np.zeros(len(array), dtype=bool) if extrapolate else self.outside(array)
        if outside.any():
            first = np.flatnonzero(outside)[0]
            raise ValueError(
                f"`points`: {outside.sum()} of {len(array)} lie outside {self.domain}; the first is row {first}, "
                f"{np.array2string(array[first], precision=4)}. No equation holds there: check the order of coordinates "
                f"{self.domain.coordinates}, or pass `extrapolate=True` to have them all the same."
            )
        return array


def _known(fields: Sequence[str]) -> Fields:
    """The fields with what is known of each; from a file without its problem, nothing."""
    return fields if isinstance(fields, Fields) else named_fields(fields, None)


def _as_number(mean: Callable[[Array], Any]) -> Callable[[Array], Array]:
    return lambda x: jnp.asarray(mean(x), dtype=x.dtype).reshape(())


def _polynomial(indices: Sequence[MultiIndex], coefficients: Array, centre: Array, y: Array) -> Array:
    r"""$\sum_\alpha c_\alpha (y - x)^\alpha/\alpha!$ around the centre $x$."""
    away = y - centre
    total = jnp.zeros((), dtype=y.dtype)
    for alpha, coefficient in zip(indices, coefficients, strict=True):
        term = coefficient / math.prod(map(math.factorial, alpha))
        for axis, power in enumerate(alpha):
            if power:
                term = term * away[axis] ** power
        total = total + term
    return total


def load(path: str | os.PathLike[str], problem: Problem | None = None) -> Solution:
    """The solution in a file that `Solution.save` wrote, with the same values bit by bit.

    A file holds no equations: give the problem again for `residual` and errors. It must be the one that was solved.
    """
    return restored(*files.read_file(path), path, problem)


def restored(
    header: Mapping[str, Any], arrays: files.Arrays, path: str | os.PathLike[str], problem: Problem | None = None
) -> Solution:
    """The solution in the content of a file, as `files.read_file` gives it."""
    require_double_precision("load")
    names = ("predictor", "points", "latent", "kernels", "settings", "fingerprint", "domain")
    rest = {name: files.decode(header[name], arrays) for name in names}
    result = files.decode(header["result"], arrays)
    notes = result["notes"]
    if problem is None and header.get("needs_problem", False):
        raise ValueError(
            f"`load`: a field of '{path}' lives on a part of the domain or has a prior mean, which the file does not hold; "
            "write `gpde.load(path, problem=...)`."
        )
    if problem is not None:
        check_same(f"`load`: '{path}'", rest["fingerprint"], problem)
        rest["domain"] = problem.domain
    elif lost := files.lost_domain(header["domain"]):
        notes = (*notes, f"the domain in the file is the box around {lost}; `gpde.load(path, problem=...)` gives it again")
    return Solution(
        problem=problem,
        name=header["name"],
        fields=tuple(header["fields"]) if problem is None else problem.fields,
        history=files.rows(files.decode(header["history"], arrays)),
        result=Result(**{**result, "outcome": Outcome[result["outcome"]], "notes": tuple(dict.fromkeys(notes))}),
        seconds=Seconds(**header["seconds"]),
        resume=files.decode(header.get("resume"), arrays),
        parameters={name: Estimate(**numbers) for name, numbers in header.get("parameters", {}).items()},
        **rest,
    )
