"""The entry point: checks the request, chooses what was left open, runs the method, wraps the solution."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from gpde.arguments import named_arguments
from gpde.collocation.collocation import Collocation, collocate
from gpde.equations import require_double_precision, with_means
from gpde.equations.linear_operators import operator_text
from gpde.functionals.functionals import Functionals, Kernels, prior_variances
from gpde.kernels import AbstractKernel, Gaussian, Offset
from gpde.kernels.function import as_kernel
from gpde.learning.learn import learn_on
from gpde.learning.learned import Learned
from gpde.machine import interrupts, memory
from gpde.machine.room import make_room
from gpde.machine.timing import CompileClock
from gpde.methods import AbstractMethod, Consensus, FullBatch
from gpde.methods.base import AbstractPredictor, Setup
from gpde.methods.run import Callback, run
from gpde.outcomes import Outcome, Result
from gpde.problem.problem import PointsByPart, Problem
from gpde.solution.checks import check_scalars, checked
from gpde.solution.estimates import estimates
from gpde.solution.solution import Seconds, Solution

# Functionals up to which the full GP takes seconds: its Gram matrix is then half a gigabyte. On few points it may have twice as
# many: where equations have many operators every patch has as many, and patches cost more than all points at once.
_FULL_BATCH_UP_TO, _FEW_POINTS = 8000, 2000
# What a run takes whatever its size: compiled programs, and the memory in which they were compiled.
_PROGRAM_BYTES = 3.5e8


@named_arguments
def solve(
    problem: Problem,
    kernel: AbstractKernel | Learned | Callable[..., Any] | Mapping[str, Any] | None = None,
    *,
    method: AbstractMethod | None = None,
    num_interior: int | None = None,
    num_boundary: int | None = None,
    points: Mapping[str, ArrayLike] | None = None,
    sampling: str = "uniform",
    seed: int = 0,
    nugget: float | None = None,
    functionals: str = "minimal",
    initial: Any = None,
    callback: Callback | None = None,
) -> Solution:
    """Solves a problem.

    **Main arguments:**

    - `problem`: what to solve.
    - `kernel`: the prior, for all fields or as a mapping from field to kernel; a function of two points is a kernel too.
      `Learned(...)` learns its lengthscales and amplitudes from the equations, as is done where neither this nor the problem
      names a kernel.
    - `method`: `FullBatch(...)`, `MiniBatch(...)` or `Consensus(...)`; None: the full GP while it is cheap, else consensus.
    - `num_interior`, `num_boundary`, `sampling`, `seed`: how many points to draw and how (`"uniform"`, `"sobol"`, `"halton"`,
      `"grid"`, `"poisson"`); boundary points are shared by all parts but the interior. Or `points={part: array}`.
    - `nugget`: what is added to the diagonal of covariances, relative to each operator's prior variance. A numerical device;
      the noise of data belongs to `Observations`.

    **Other arguments:**

    - `functionals`: `"minimal"` or `"derivatives"` (every derivative apart, as in the paper's experiments).
    - `initial`: where to start: a function of one point (a tuple of them for several fields) or an earlier `Solution`. A
      mini-batch solution of the same problem on the same points is gone on with; those points are taken if nothing is said
      of points (no number, `sampling` or `seed`).
    - `callback`: called after each step with its progress; returning True stops the run.

    Ctrl-C ends the run: what was reached is returned, and its result says `INTERRUPTED`. The next call of `solve` then raises
    `KeyboardInterrupt`, once, so that a loop of solves ends too.
    """
    interrupts.stop_if_pending()
    make_room()
    require_double_precision("solve")
    if not isinstance(problem, Problem):
        raise ValueError(f"`solve`: the first argument must be a `gpde.Problem`, not {type(problem).__name__}.")
    if method is not None and not isinstance(method, AbstractMethod):
        raise ValueError(
            f"`method` must be a method object such as `gpde.FullBatch()`, not {method!r}; the command line takes names."
        )
    if callback is not None and not callable(callback):
        raise ValueError(f"`callback` must be a function of the progress after a step; came {type(callback).__name__}.")
    asked_nugget = None if nugget is None else checked_nugget(nugget)
    given = chosen_kernels(problem, kernel)
    if isinstance(initial, Solution):
        _check_initial(initial, problem)
        unsaid = points is None and num_interior is None and num_boundary is None and sampling == "uniform" and seed == 0
        if unsaid and _goes_on(method, initial, problem):
            points, seed = _points_of(initial, problem), initial.settings.get("seed", seed)
    with CompileClock() as clock:
        located = problem.sample(num_interior, num_boundary, sampling=sampling, seed=seed, points=points)
        collocation = collocate(problem, located, functionals)
        starts = given.starts(problem, collocation.order) if isinstance(given, Learned) else [given]
        constants = constant_kernels(problem) if isinstance(given, Learned) else ()
        for start in starts:
            check_kernels((*start, *constants), collocation, problem)
        chosen = method if method is not None else default_method(collocation, (*starts[0], *constants))
        nugget = chosen.default_nugget(problem.defaults.nugget) if asked_nugget is None else asked_nugget
        learning = learn_on(problem, located, collocation, starts, chosen, nugget, seed) if isinstance(given, Learned) else None
        kernels = starts[0] if learning is None else (*learning.kernels, *constants)
        coordinates = tuple(problem.domain.coordinates)
        scalars, learned = tuple(problem.parameters), learning is not None
        setup = Setup(collocation, kernels, nugget, problem.unknowns, coordinates, scalars, learned)
        if not chosen.takes_means and any(part.weights is not None for part in collocation.parts):
            raise ValueError(
                f"`Mean`: the method {chosen.name} looks at few points at a time, and a mean is over many. Take "
                "`method=gpde.FullBatch()` or `gpde.Consensus()`, or pin one value instead, with `gpde.At`."
            )
        chosen = chosen.for_setup(setup)
        chosen.check(setup)
        check_scalars(problem, collocation, seed)
        _check_memory(chosen, setup)
        work = chosen.prepare(setup)
        state = chosen.resumed(work, initial.resume, seed) if isinstance(initial, Solution) else None
        notes = () if method is not None else (f"method {chosen.name}, chosen for {collocation.functionals.size} functionals",)
        notes += () if learning is None else (learning.note,)
        if isinstance(state, str):
            notes = (*notes, f"started from `initial` anew, without its weights: {state}")
        if state is None or isinstance(state, str):
            state = chosen.init(work, _initial_latent(initial, collocation, problem), seed)
        state, history, result = run(chosen, work, state, callback)

        def wrapped_up() -> tuple[Result, AbstractPredictor, np.ndarray, Any]:
            kept = initial if isinstance(initial, Solution) and result.num_steps == 0 else None
            predictor = chosen.predictor(work, state) if kept is None else kept.predictor
            latent, resume = np.asarray(chosen.latent(work, state)), chosen.resume(work, state)
            return checked(problem, setup, predictor, latent, result, seed), predictor, latent, resume

        try:
            result, predictor, latent, resume = wrapped_up()
        except KeyboardInterrupt:
            # The steps are done, and only their function is still to be made: another Ctrl-C gives it up.
            interrupts.remember()
            result = dataclasses.replace(result, outcome=Outcome.INTERRUPTED)
            result, predictor, latent, resume = wrapped_up()
        parameters, said = estimates(problem, setup, predictor, latent, result)
        result = dataclasses.replace(result, notes=(*notes, *result.notes, *said))
    return Solution(
        problem=problem,
        name=problem.name,
        fields=problem.fields,
        domain=problem.domain,
        predictor=predictor,
        points={part.name: np.asarray(part.points) for part in collocation.parts},
        latent=latent,
        history=history,
        result=result,
        seconds=Seconds(compile=clock.compile, run=clock.run),
        kernels=dict(zip(problem.unknowns, kernels, strict=True)),
        parameters=parameters,
        settings=_settings(chosen, nugget, sampling, seed, functionals),
        resume=resume,
        learning=learning,
    )


def default_method(collocation: Collocation, kernels: Kernels) -> AbstractMethod:
    """The full GP while its Gram matrix is small and fits into memory, consensus beyond."""
    full = FullBatch()
    small = collocation.functionals.size <= _FULL_BATCH_UP_TO * (2 if collocation.num_points <= _FEW_POINTS else 1)
    return full if small and _needed_memory(full, Setup(collocation, kernels, 1.0)) <= memory.available() else Consensus()


def _needed_memory(method: AbstractMethod, setup: Setup) -> float:
    return _PROGRAM_BYTES + method.memory(setup)


def _check_memory(method: AbstractMethod, setup: Setup) -> None:
    """Refuses what cannot fit, before anything large is made: the system would end the process without a word."""
    needed, available = _needed_memory(method, setup), memory.available()
    if needed > available and method.memory(setup) > 0:
        raise ValueError(
            f"`solve`: the method {method.name} on {setup.collocation.num_points} points needs about "
            f"{_gigabytes(needed)} of memory, and {_gigabytes(available)} are free, swap included. "
            f"{method.memory_advice(setup, max(0.0, available - _PROGRAM_BYTES))}"
        )


def _gigabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.{1 if num_bytes < 1e10 else 0}f} GB"


@named_arguments
def continuation(build: Callable[[Any], Problem], values: Iterable[Any], **arguments: Any) -> list[Solution]:
    """Solves `build(value)` for each value in turn, each started from the solution before: viscosity 1 → 0.02, say.

    `arguments` are those of `solve`; `initial` is where the first one starts. Ctrl-C ends the last of those returned.
    """
    if not callable(build):
        raise ValueError(
            f"`continuation`: `build` is a function that makes a problem out of a value, as `lambda nu: burgers(nu)`; came "
            f"{type(build).__name__}."
        )
    solutions: list[Solution] = []
    initial = arguments.pop("initial", None)
    for value in values:
        solutions.append(solve(build(value), initial=initial, **arguments))
        initial = solutions[-1]
        if interrupts.pending():
            break
    return solutions


def default_kernel(problem: Problem) -> AbstractKernel:
    """Where learning starts: a Gaussian of a fifth of the domain in each coordinate, which suits smooth solutions with a few
    oscillations, around a level that is not known."""
    return Gaussian(0.2 * problem.domain.extent) + Offset(2.0)


def chosen_kernels(problem: Problem, kernel: Any) -> Kernels | Learned:
    """One kernel per field: the user's, the problem's, or what is to be learned."""
    chosen = problem.defaults.kernel if kernel is None else kernel
    if chosen is None:
        chosen = Learned(default_kernel(problem))
    if isinstance(chosen, Learned):
        return chosen
    periods, constants = problem.domain.periods, constant_kernels(problem)
    if not isinstance(chosen, Mapping):
        return (as_kernel(chosen).with_periods(periods),) * len(problem.fields) + constants
    if set(chosen) != set(problem.fields):
        raise ValueError(
            f"`kernel`: one kernel per field is needed, for {', '.join(problem.fields)}; came {', '.join(map(str, chosen))}."
        )
    return tuple(as_kernel(chosen[field]).with_periods(periods) for field in problem.fields) + constants


def constant_kernels(problem: Problem) -> Kernels:
    """Those of unknown scalars, which are to methods fields that are the same everywhere."""
    return tuple(parameter.kernel for parameter in problem.parameters.values())


def _check_initial(initial: Solution, problem: Problem) -> None:
    if tuple(initial.kernels) != problem.unknowns or initial.dim != problem.domain.dim:
        raise ValueError(
            f"`initial`: the earlier solution has the fields {', '.join(initial.kernels)} of {initial.dim} coordinates, "
            f"the problem {', '.join(problem.unknowns)} of {problem.domain.dim}."
        )


def _goes_on(method: AbstractMethod | None, initial: Solution, problem: Problem) -> bool:
    """Whether a method may go on from a solution of its own, whose points lie where the problem's do."""
    if method is None or initial.resume is None or initial.result.method != method.name:
        return False
    own = _points_of(initial, problem)
    parts = [condition.part for condition in problem.conditions if condition.observations is None]
    return set(own) == set(parts) and all(problem.domain.on_part(part, own[part]).all() for part in parts)


def _points_of(initial: Solution, problem: Problem) -> PointsByPart:
    """The points of a solution, those of observations left out."""
    return {part: points for part, points in initial.points.items() if part in problem.equations}


def _initial_latent(initial: Any, collocation: Collocation, problem: Problem) -> Any:
    if initial is None:
        return None
    if isinstance(initial, Solution):
        pieces = [
            initial.predictor.values((operator,), np.asarray(points))[:, 0]
            for operator, points in zip(collocation.functionals.operators, collocation.functionals.points, strict=True)
        ]
        return jnp.asarray(np.concatenate(pieces))
    functions = initial if isinstance(initial, tuple | list) else (initial,)
    if len(functions) != len(problem.fields) or not all(callable(f) for f in functions):
        raise ValueError(
            f"`initial` must be a function of one point for each of the fields {', '.join(problem.fields)}, or a Solution."
        )
    try:
        # What is unknown of a field is its distance from the prior mean.
        means = [m and (lambda x, m=m: -m(x)) for m in problem.fields.means]
        latent = collocation.measure((*with_means(functions, means), *[_zero] * len(problem.parameters)))
    except Exception as error:
        raise ValueError(
            "`initial` could not be evaluated and differentiated at one point, "
            f"{type(error).__name__}: {str(error).splitlines()[0]}. It is a "
            "function of one point `x` with one number as its value, written with jax.numpy, as in `lambda x: jnp.sin(x[0])`."
        ) from error
    if not np.isfinite(latent).all():
        raise ValueError(
            "`initial`, or a derivative of it that the equations need, is not finite at "
            f"{np.sum(~np.isfinite(latent))} of {len(latent)} functionals."
        )
    return latent


def check_kernels(kernels: Kernels, collocation: Collocation, problem: Problem) -> None:
    """Raises `ValueError` where a kernel does not fit the points or the equations."""
    for kernel in kernels:
        kernel.check(problem.domain.dim)
        kernel.check_smoothness(collocation.order)
    _check_variances(kernels, collocation, problem)


def _zero(x: Array) -> Array:
    return jnp.zeros((), dtype=x.dtype)


def _check_variances(kernels: Kernels, collocation: Collocation, problem: Problem) -> None:
    """Refuses a kernel under which an operator has no variance: its derivatives on the diagonal are wrong."""
    functionals = collocation.functionals
    for operator, variance in zip(functionals.operators, jax.device_get(_first_variances(kernels, functionals)), strict=True):
        if not (np.isfinite(variance) and variance > 0):
            symbol = operator_text(operator, problem.unknowns, problem.domain.coordinates)
            raise ValueError(
                f"`kernel`: the prior variance of {symbol} is {variance:.3g}, and must be positive. Where a kernel is a "
                "function of |x - y|, automatic differentiation fails at x = y: write it with |x - y|², or use `gpde.Matern`."
            )


@eqx.filter_jit
def _first_variances(kernels: Kernels, functionals: Functionals) -> tuple[Float[Array, ""], ...]:
    """The prior variance of each operator at its first point."""
    first = Functionals(functionals.operators, tuple(p[:1] for p in functionals.points))
    return tuple(v[0] for v in prior_variances(kernels, first))


def checked_nugget(nugget: float) -> float:
    number = isinstance(nugget, int | float | np.number) and not isinstance(nugget, bool)
    if not (number and np.isfinite(nugget) and nugget > 0):
        raise ValueError(f"`nugget` must be a small positive number such as 1e-10; came {nugget!r}.")
    return float(nugget)


def _settings(method: AbstractMethod, nugget: float, sampling: str, seed: int, functionals: str) -> dict[str, Any]:
    own = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    common = {"nugget": nugget, "sampling": sampling, "seed": seed, "functionals": functionals}
    return {**common, **own}
