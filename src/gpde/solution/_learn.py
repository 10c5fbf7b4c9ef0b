"""Learning a kernel without a solve: what `solve` does first where a kernel is to be learned."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from gpde.arguments import named_arguments
from gpde.collocation.collocation import collocate
from gpde.equations import require_double_precision
from gpde.learning.learn import learn_on
from gpde.learning.learned import Learned, Learning
from gpde.methods import AbstractMethod
from gpde.problem.problem import Problem
from gpde.solution._solve import check_kernels, checked_nugget, chosen_kernels, constant_kernels, default_method


@named_arguments
def learn(
    problem: Problem,
    kernel: Any = None,
    *,
    method: AbstractMethod | None = None,
    num_interior: int | None = None,
    num_boundary: int | None = None,
    points: Mapping[str, ArrayLike] | None = None,
    sampling: str = "uniform",
    seed: int = 0,
    nugget: float | None = None,
) -> Learning:
    """Lengthscales and amplitudes from the equations: `learning.kernel` is for `solve`, `print(learning)` shows what was tried.

    `kernel` is where to start: a kernel, a mapping from field to kernel, `Learned(...)` with several to choose from, or None
    for the problem's own. The other arguments are those of `solve`: the best kernel depends on the points and on the method.
    """
    require_double_precision("learn")
    if not isinstance(problem, Problem):
        raise ValueError(f"`learn`: the first argument must be a `gpde.Problem`, not {type(problem).__name__}.")
    start = problem.defaults.kernel if kernel is None else kernel
    given = chosen_kernels(problem, start if start is None or isinstance(start, Learned) else Learned(start))
    located = problem.sample(num_interior, num_boundary, sampling=sampling, seed=seed, points=points)
    collocation = collocate(problem, located)
    assert isinstance(given, Learned)
    starts = given.starts(problem, collocation.order)
    for each in starts:
        check_kernels((*each, *constant_kernels(problem)), collocation, problem)
    chosen = method if method is not None else default_method(collocation, (*starts[0], *constant_kernels(problem)))
    own = chosen.default_nugget(problem.defaults.nugget) if nugget is None else checked_nugget(nugget)
    return learn_on(problem, located, collocation, starts, chosen, own, seed)
