"""What `solve` returns: a function with error bars, and how it was found."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde import io
from gpde.equations import Reading, check_operator, known_derivatives, read, require_double_precision
from gpde.kernels import AbstractKernel, MultiIndex
from gpde.linear_operators import LinearOperator
from gpde.methods.base import AbstractPredictor, Info
from gpde.problem import Points, Problem
from gpde.results import Outcome, Result


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Wall-clock time of a solve: compiling, and everything else."""

    compile: float
    run: float


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """A solution: call it with points of shape `(num, dim)`.

    For one field values have shape `(num,)`, for several `(num, num_fields)`, in the order of `fields`.
    `history` has one entry per step, `result` says in words how the run ended, `latent` are the values of the functionals,
    `resume` is what a run needs that goes on from here (`solve(..., initial=solution)`).
    """

    problem: Problem | None
    fields: tuple[str, ...]
    dim: int
    predictor: AbstractPredictor
    points: Points
    latent: Float[np.ndarray, " size"]
    history: list[Info]
    result: Result
    seconds: Seconds
    kernels: Mapping[str, AbstractKernel]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    resume: Any = None

    def __call__(self, points: Any) -> Float[np.ndarray, "points *fields"]:
        """The fields at points."""
        values = self.predictor.values(self._identities, self._checked(points))
        return values[:, 0] if len(self.fields) == 1 else values

    def std(self, points: Any) -> Float[np.ndarray, "points *fields"]:
        """The conditional standard deviation of the fields, for the problem linearised at the solution."""
        values = np.sqrt(self.predictor.variances(self._identities, self._checked(points)))
        return values[:, 0] if len(self.fields) == 1 else values

    def apply(self, operator: Callable[..., Any], points: Any) -> Float[np.ndarray, "points *shape"]:
        """An operator of the solution: `solution.apply(laplacian, points)`, `solution.apply(gradient, points)`, or for
        several fields `solution.apply(lambda u, v: divergence(...), points)`. It need not be linear."""
        if not callable(operator):
            raise ValueError(f"`apply`: `operator` turns functions into a function, as `laplacian`; came {operator!r}.")
        name = "the operator given to `apply`"
        check_operator(operator, name, self.fields)
        where = self._checked(points)

        def equation(*arguments: Any) -> Any:
            *fields, x = arguments
            return operator(*fields)(x)

        # Every point is a probe: a coefficient that vanishes at most of them is seen at the others.
        reading = read(
            (equation,), (name,), where.shape[1], self.fields, where,
            scalar=False, num_probes=len(where),
        )  # fmt: skip
        values = self.predictor.values(reading.operators, where)
        return np.asarray(_outputs(reading)(jnp.asarray(where), jnp.asarray(values)))

    def residual(self, points: Any, part: str = "interior") -> Float[np.ndarray, "points *equations"]:
        """What is left of the equations on `part`: they are evaluated on the solution itself, by differentiating it, and
        not from the latent values."""
        if self.problem is None:
            raise ValueError("`residual`: a file holds no equations; write `gpde.load(path, problem=...)`.")
        given = self.problem.equations.get(part)
        if given is None:
            raise ValueError(f"`residual`: no equation holds on {part!r}; parts: {', '.join(self.problem.equations)}.")
        where = self._checked(points)
        equations = (given,) if callable(given) else tuple(given)
        values = np.stack([self._evaluated(equation, where) for equation in equations], axis=1)
        return values[:, 0] if callable(given) else values

    def _evaluated(self, equation: Callable[..., Any], where: Float[np.ndarray, "points dim"]) -> np.ndarray:
        """An equation on the solution: first which derivatives it asks for, then their values, then the equation."""
        dim, num_fields = where.shape[1], len(self.fields)
        asked: list[tuple[int, MultiIndex]] = []

        def call(x: Array, derivative: Callable[[int, MultiIndex], Array]) -> Any:
            fields = [
                known_derivatives(lambda alpha, _, __, index=index: derivative(index, alpha), dim, {})
                for index in range(num_fields)
            ]
            return equation(*fields, x)

        def record(index: int, alpha: MultiIndex) -> Array:
            if (index, alpha) not in asked:
                asked.append((index, alpha))
            return jnp.zeros(())

        jax.eval_shape(lambda x: call(x, record), jnp.asarray(where[0]))
        operators: list[LinearOperator] = [((index, ((alpha, 1.0),)),) for index, alpha in asked]
        values = jnp.asarray(self.predictor.values(operators, where))

        def at(x: Array, v: Array) -> Any:
            return call(x, lambda index, alpha: v[asked.index((index, alpha))])

        return np.asarray(jax.jit(jax.vmap(at))(jnp.asarray(where), values))

    def plot(self, path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """A figure: truth where it is known, solution, error, points and history; saved if a path is given."""
        from gpde.plotting import plot_solution

        return plot_solution(self, path, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the solution to an `.npz` file that `gpde.load` reads."""
        io.save(self, path)

    @property
    def _identities(self) -> tuple[LinearOperator, ...]:
        zero = (0,) * self.dim
        return tuple(((index, ((zero, 1.0),)),) for index in range(len(self.fields)))

    def _checked(self, points: Any) -> Float[np.ndarray, "points dim"]:
        dim = self.dim
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
        return array


@functools.lru_cache(maxsize=32)
def _outputs(reading: Reading) -> Callable[[Array, Array], Array]:
    return jax.jit(jax.vmap(reading.output))


def load(path: str | os.PathLike[str], problem: Problem | None = None) -> Solution:
    """The solution in a file that `Solution.save` wrote, with the same values bit by bit.

    A file holds no equations: give the problem again for `residual`, `plot` and errors.
    """
    require_double_precision("load")
    header, arrays = io.read(path)
    fields, dim = tuple(header["fields"]), header["dim"]
    if problem is not None and (problem.fields != fields or problem.domain.dim != dim):
        raise ValueError(
            f"`load`: '{path}' holds the fields {', '.join(fields)} of {dim} coordinates, `problem` has "
            f"{', '.join(problem.fields)} of {problem.domain.dim}."
        )
    rest = {name: io.decode(header[name], arrays) for name in ("predictor", "points", "latent", "kernels", "settings")}
    result = io.decode(header["result"], arrays)
    return Solution(
        problem=problem,
        fields=fields,
        dim=dim,
        history=io.rows(io.decode(header["history"], arrays)),
        result=Result(**{**result, "outcome": Outcome[result["outcome"]]}),
        seconds=Seconds(**header["seconds"]),
        resume=io.decode(header.get("resume"), arrays),
        **rest,
    )
