"""What the user says and gets: a kernel that is to be learned, and what came of it."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from gpde.functionals.functionals import Kernels
from gpde.kernels import AbstractKernel, Gaussian, Matern
from gpde.kernels.base import LARGEST_MATERN_ORDER
from gpde.kernels.function import as_kernel
from gpde.kernels.text import kernels_text
from gpde.learning.shape import can_learn
from gpde.problem.problem import Problem


class Learned:
    """A kernel whose lengthscales and amplitudes are learned from the equations, for `solve` in place of a kernel.

    `Learned(Gaussian)` starts from a fifth of the domain, `Learned(Gaussian(0.6))` from what is given. Of several, as in
    `Learned(Gaussian, Matern)`, the one with the largest likelihood is taken; `Matern` as a class is the least smooth one that
    the equations allow. Every field gets a kernel of its own, from the same start or, with a mapping from field to kernel, from
    another.
    """

    def __init__(self, *kernels: Any):
        if not kernels:
            raise ValueError("`Learned`: give the kernel to start from, as in `gpde.Learned(gpde.Gaussian)`.")
        for kernel in kernels:
            if inspect.isclass(kernel) and kernel not in (Gaussian, Matern):
                raise ValueError(
                    f"`Learned`: of classes it knows `Gaussian` and `Matern`, not {kernel.__name__}; give a kernel with its "
                    "numbers to start from, as in `gpde.Learned(gpde.Gaussian(0.2) + gpde.Offset())`."
                )
            for one in kernel.values() if isinstance(kernel, Mapping) else (kernel,):
                _check(one)
        self.kernels = kernels

    def __repr__(self) -> str:
        return f"Learned({', '.join(k.__name__ if inspect.isclass(k) else repr(k) for k in self.kernels)})"

    def starts(self, problem: Problem, order: int) -> list[Kernels]:
        """The kernels to start from, one for each field, for operators of an order."""
        found = []
        for kernel in self.kernels:
            if isinstance(kernel, Mapping) and set(kernel) != set(problem.fields):
                raise ValueError(
                    f"`Learned`: one kernel per field is needed, for {', '.join(problem.fields)}; came "
                    f"{', '.join(map(str, kernel))}."
                )
            each = [kernel[field] if isinstance(kernel, Mapping) else kernel for field in problem.fields]
            periods = problem.domain.periods
            kernels = tuple(_start(one, problem.domain.extent, order).with_periods(periods) for one in each)
            if not can_learn(kernels):
                raise ValueError(
                    f"`Learned`: {type(kernel).__name__} has no lengthscale that could be learned. Give `Gaussian`, `Matern`, "
                    "or a sum or product with one of them."
                )
            found.append(kernels)
        return found


def _check(kernel: Any) -> None:
    """Raise `ValueError` for what no start can be made of."""
    if kernel is Gaussian or kernel is Matern:
        return
    try:
        as_kernel(kernel)
    except ValueError as error:
        raise ValueError(
            "`Learned`: give kernels to start from, as in `gpde.Learned(gpde.Gaussian)` or `gpde.Learned(gpde.Gaussian(0.2))`; "
            f"came {kernel!r}."
        ) from error


def _start(kernel: Any, extent: Float[np.ndarray, " dim"], order: int) -> AbstractKernel:
    if kernel is Gaussian:
        return Gaussian(0.2 * extent)
    if kernel is Matern:
        return Matern(min(max(order, 2), LARGEST_MATERN_ORDER) + 0.5, 0.2 * extent)
    return as_kernel(kernel)


@dataclasses.dataclass(frozen=True)
class Learning:
    """What was learned: one kernel for each field, and a table of what was tried.

    `score` is the negative log likelihood per equation of what was taken, `tried` has a row for each kernel looked at: in which
    stage, its text, its score. `rounds` is how often equations were linearised anew, `seconds` how long it all took.
    """

    fields: tuple[str, ...]
    kernels: Kernels
    score: float
    tried: list[dict[str, Any]]
    rounds: int
    seconds: float

    @property
    def kernel(self) -> AbstractKernel | dict[str, AbstractKernel]:
        """For `solve(problem, learning.kernel)`."""
        return self.kernels[0] if len(self.fields) == 1 else dict(zip(self.fields, self.kernels, strict=True))

    @property
    def note(self) -> str:
        """For the result of a run."""
        return f"kernel learned in {self.rounds} round{'' if self.rounds == 1 else 's'}"

    def __str__(self) -> str:
        """The table, the best of every stage."""
        lines = [f"learned {kernels_text(dict(zip(self.fields, self.kernels, strict=True)))} in {self.seconds:.1f} s"]
        lines += [f"  {row['stage']:<24} {row['score']:10.4f}  {row['kernel']}" for row in self.tried]
        return "\n".join(lines)
