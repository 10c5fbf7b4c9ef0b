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

from gpde.checks import checked
from gpde.collocation import Collocation, collocate
from gpde.equations import require_double_precision
from gpde.functionals import Functionals, Kernels, variances
from gpde.kernels import AbstractKernel, Gaussian
from gpde.kernels.function import as_kernel
from gpde.linear_operators import operator_text
from gpde.methods import AbstractMethod, Consensus, FullBatch
from gpde.methods.base import Callback, Setup, run
from gpde.problem import Problem
from gpde.solution import Seconds, Solution
from gpde.timing import CompileClock

# Functionals up to which the full GP takes seconds: its Gram matrix is then half a gigabyte.
_FULL_BATCH_UP_TO = 8000


def solve(
    problem: Problem,
    kernel: AbstractKernel | Callable[..., Any] | Mapping[str, Any] | None = None,
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
    - `method`: `FullBatch(...)`, `MiniBatch(...)` or `Consensus(...)`; None: the full GP while it is cheap, else consensus.
    - `num_interior`, `num_boundary`, `sampling`, `seed`: how many points to draw and how (`"uniform"`, `"sobol"`, `"halton"`,
      `"grid"`); boundary points are shared by all parts but the interior, by their measure. Or `points={part: array}`.
    - `nugget`: what is added to the diagonal of covariances, relative to each operator's prior variance. A numerical device;
      the noise of data belongs to `Observations`.

    **Other arguments:**

    - `functionals`: `"minimal"` or `"derivatives"` (every derivative apart, as in the paper's experiments).
    - `initial`: where to start: a function of one point (a tuple of them for several fields) or an earlier `Solution`.
    - `callback`: called after each step with its progress; returning True stops the run.
    """
    require_double_precision("solve")
    if not isinstance(problem, Problem):
        raise ValueError(f"`solve`: the first argument must be a `gpde.Problem`, not {type(problem).__name__}.")
    if method is not None and not isinstance(method, AbstractMethod):
        raise ValueError(
            f"`method` must be a method object such as `gpde.FullBatch()`, not {method!r}; the command line takes names."
        )
    if callback is not None and not callable(callback):
        raise ValueError(f"`callback` must be a function of the progress after a step; came {type(callback).__name__}.")
    asked_nugget = None if nugget is None else _checked_nugget(nugget)
    kernels = _kernels(problem, kernel)
    with CompileClock() as clock:
        located = problem.sample(num_interior, num_boundary, sampling=sampling, seed=seed, points=points)
        collocation = collocate(problem, located, functionals)
        for field_kernel in kernels:
            field_kernel.check(problem.domain.dim)
            field_kernel.check_smoothness(collocation.order)
        _check_variances(kernels, collocation, problem)
        chosen = method if method is not None else default_method(collocation)
        nugget = chosen.default_nugget(problem.defaults.nugget) if asked_nugget is None else asked_nugget
        setup = Setup(collocation, kernels, nugget, problem.fields, tuple(problem.domain.coordinates))
        chosen.check(setup)
        state = chosen.init(setup, _initial_latent(initial, collocation, problem), seed)
        state, history, result = run(chosen, setup, state, callback)
        if method is None:
            note = f"method {chosen.name}, chosen for {collocation.functionals.size} functionals"
            result = dataclasses.replace(result, notes=(note, *result.notes))
        predictor = chosen.predictor(setup, state)
        result = checked(problem, setup, predictor, result, seed)
        latent = np.asarray(chosen.latent(state))
    return Solution(
        problem=problem,
        fields=problem.fields,
        dim=problem.domain.dim,
        predictor=predictor,
        points={part.name: np.asarray(part.points) for part in collocation.parts},
        latent=latent,
        history=history,
        result=result,
        seconds=Seconds(compile=clock.compile, run=clock.run),
        kernels=dict(zip(problem.fields, kernels, strict=True)),
        settings=_settings(chosen, nugget, sampling, seed, functionals),
    )


def default_method(collocation: Collocation) -> AbstractMethod:
    """The full GP while its Gram matrix is small, consensus beyond."""
    return FullBatch() if collocation.functionals.size <= _FULL_BATCH_UP_TO else Consensus()


def continuation(build: Callable[[Any], Problem], values: Iterable[Any], **arguments: Any) -> list[Solution]:
    """Solves `build(value)` for each value in turn, each started from the solution before: viscosity 1 → 0.02, say.

    `arguments` are those of `solve`; `initial` is where the first one starts.
    """
    solutions: list[Solution] = []
    initial = arguments.pop("initial", None)
    for value in values:
        solutions.append(solve(build(value), initial=initial, **arguments))
        initial = solutions[-1]
    return solutions


def _kernels(problem: Problem, kernel: Any) -> Kernels:
    chosen = problem.defaults.kernel if kernel is None else kernel
    if chosen is None:
        # A fifth of the domain in each coordinate suits smooth solutions with a few oscillations.
        chosen = Gaussian(0.2 * np.asarray(problem.domain.upper - problem.domain.lower))
    if not isinstance(chosen, Mapping):
        return (as_kernel(chosen),) * len(problem.fields)
    if set(chosen) != set(problem.fields):
        raise ValueError(
            f"`kernel`: one kernel per field is needed, for {', '.join(problem.fields)}; came {', '.join(map(str, chosen))}."
        )
    return tuple(as_kernel(chosen[field]) for field in problem.fields)


def _initial_latent(initial: Any, collocation: Collocation, problem: Problem) -> Any:
    if initial is None:
        return None
    if isinstance(initial, Solution):
        if initial.fields != problem.fields or initial.dim != problem.domain.dim:
            raise ValueError("`initial`: the earlier solution has other fields or another number of coordinates.")
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
        latent = collocation.measure(functions)
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


def _check_variances(kernels: Kernels, collocation: Collocation, problem: Problem) -> None:
    """Refuses a kernel under which an operator has no variance: its derivatives on the diagonal are wrong."""
    functionals = collocation.functionals
    for operator, variance in zip(functionals.operators, jax.device_get(_first_variances(kernels, functionals)), strict=True):
        if not (np.isfinite(variance) and variance > 0):
            symbol = operator_text(operator, problem.fields, problem.domain.coordinates)
            raise ValueError(
                f"`kernel`: the prior variance of {symbol} is {variance:.3g}, and must be positive. Where a kernel is a "
                "function of |x - y|, automatic differentiation fails at x = y: write it with |x - y|², or use `gpde.Matern`."
            )


@eqx.filter_jit
def _first_variances(kernels: Kernels, functionals: Functionals) -> tuple[Float[Array, ""], ...]:
    """The prior variance of each operator at its first point."""
    first = Functionals(functionals.operators, tuple(p[:1] for p in functionals.points))
    return tuple(v[0] for v in variances(kernels, first))


def _checked_nugget(nugget: float) -> float:
    number = isinstance(nugget, int | float | np.number) and not isinstance(nugget, bool)
    if not (number and np.isfinite(nugget) and nugget > 0):
        raise ValueError(f"`nugget` must be a small positive number such as 1e-10; came {nugget!r}.")
    return float(nugget)


def _settings(method: AbstractMethod, nugget: float, sampling: str, seed: int, functionals: str) -> dict[str, Any]:
    own = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    common = {"nugget": nugget, "sampling": sampling, "seed": seed, "functionals": functionals}
    return {**common, **own}
