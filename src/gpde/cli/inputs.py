"""What the command line asks for, as objects: the problem in a file, the kernel in words."""

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpde.cli import flags
from gpde.cli.terminal import blaming

if TYPE_CHECKING:
    from gpde.kernels import AbstractKernel
    from gpde.learning.learned import Learned
    from gpde.problem.problem import Problem


def problem_in(file: Path) -> "Problem":
    """The `problem` that a Python file defines."""
    from gpde.problem.problem import Problem

    if not file.is_file():
        raise ValueError(f"there is no file '{file}'.")
    sys.path.insert(0, str(file.resolve().parent))  # its neighbours can be imported, as if it were run itself
    with blaming(file):
        found = runpy.run_path(str(file)).get("problem")
    if not isinstance(found, Problem):
        came = "nothing of that name" if found is None else f"a {type(found).__name__}"
        raise ValueError(f"'{file}' must define `problem = gpde.Problem(...)`; it has {came}.")
    return found


def kernel_of(
    problem: "Problem", name: str | None, lengthscale: list[str] | None, amplitude: float | None, *, learn: bool = False
) -> "AbstractKernel | Learned | None":
    """The kernel asked for, to be learned or as it is; what is not said is as in the problem's own. None if nothing is said."""
    kernel = _given_kernel(problem, name, lengthscale, amplitude)
    if not learn:
        return kernel
    from gpde.learning.learned import Learned

    start = problem.defaults.kernel if kernel is None else kernel
    return None if start is None else Learned(start)  # which is what `solve` does with None


def _given_kernel(
    problem: "Problem", name: str | None, lengthscale: list[str] | None, amplitude: float | None
) -> "AbstractKernel | None":
    if name is None and not lengthscale and amplitude is None:
        return None
    from gpde.kernels import Gaussian, Matern, Offset

    own = problem.defaults.kernel
    if name is not None and name not in flags.KERNELS:
        raise ValueError(f"there is no kernel '{name}'; choose from {', '.join(flags.KERNELS)}.")
    nu = flags.KERNELS[name] if name else getattr(own, "nu", None)
    scales = _numbers(lengthscale) if lengthscale else getattr(own, "lengthscale", 0.2 * problem.domain.extent)
    height = getattr(own, "amplitude", 1.0) if amplitude is None else amplitude
    chosen = Gaussian(scales, amplitude=height) if nu is None else Matern(nu, scales, amplitude=height)
    return chosen + Offset(2.0) if own is None else chosen  # as `solve` would by itself


def _numbers(texts: list[str]) -> float | list[float]:
    try:
        numbers = [float(number) for text in texts for number in text.split(",")]
    except ValueError:
        raise ValueError(f"--lengthscale takes numbers, as in 0.2 or 0.2,0.05; came {','.join(texts)}.") from None
    return numbers[0] if len(numbers) == 1 else numbers
