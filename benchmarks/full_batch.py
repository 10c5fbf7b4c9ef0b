"""The full GP beside SciPy: its Cholesky factorisations and solves alone, and the whole linear algebra of its steps.

"factor" is the floor: matrices that lie there already, factored and solved with. "steps" starts from the Gram matrix, as the
method does. The method also computes that Gram matrix, and checks, linearises and searches along its steps.
"""

import math
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve

from gpde.block_gram import block_gram
from gpde.methods import FullBatch
from gpde.methods.representer import Representer
from gpde.problems import get
from gpde.solution import Solution
from gpde.solve import solve

BAR = 1.5
NUGGET = 1e-13


@eqx.filter_jit
def matrices(predictor: Representer) -> tuple[jax.Array, jax.Array]:
    r"""The matrix of the last step, $\Psi K \Psi^T + \Lambda$, and the prior covariance $K$."""
    prior = block_gram(predictor.kernels, predictor.functionals, predictor.rows.layout).plus_diagonal(predictor.prior_nugget)
    return symmetric(predictor.rows.conditioned(prior, predictor.noise)), symmetric(prior.upper_triangle())


def symmetric(upper: jax.Array) -> jax.Array:
    """The whole matrix that `upper` is the upper triangle of, with the blocks on the diagonal whole or not."""
    upper = jnp.triu(upper)
    return upper + upper.T - jnp.diag(jnp.diag(upper))


def scipy_factorisations(system: np.ndarray, prior: np.ndarray | None, num_steps: int) -> None:
    """A Cholesky factorisation and a solve for each step, and one of the prior where the form needs it: nothing else."""
    for matrix in [system] * num_steps + [m for m in (prior,) if m is not None]:
        cho_solve(cho_factor(matrix, lower=True, check_finite=False), np.ones(len(matrix)), check_finite=False)


def scipy_steps(gram: np.ndarray, num_interior: int, num_steps: int) -> None:
    r"""The linear algebra of linearised steps on the same Gram matrix: $\Psi\Theta\Psi^T$, factor, solve, $\Theta\Psi^T d$."""
    num_points = len(gram) - num_interior  # the values of u come first, those of its Laplacian, inside only, after them
    a = np.linspace(10.0, 50.0, num_interior)
    for _ in range(num_steps):
        rows = gram[:num_points].copy()
        rows[:num_interior] *= a[:, None]
        rows[:num_interior] -= gram[num_points:]
        system = rows[:, :num_points].copy()
        system[:, :num_interior] *= a
        system[:, :num_interior] -= rows[:, num_points:]
        system[np.diag_indices(num_points)] += 1e-6 * system.diagonal()
        dual = cho_solve(cho_factor(system, lower=True, check_finite=False), np.ones(num_points), check_finite=False)
        gram @ np.concatenate([a * dual[:num_interior], dual[num_interior:], -dual[:num_interior]])


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(quick: bool = False) -> None:
    """Prints, for each form of the constraints, the seconds of a solve beside those of its factorisations."""
    num_interior, num_boundary, repeats = (90, 30, 1) if quick else (900, 300, 20)
    num_points = num_interior + num_boundary
    problem = get("elliptic").build()
    table = Table(title=f"full GP beside SciPy (bar {BAR}), elliptic, {num_points} points, Gaussian(0.2), nugget {NUGGET:g}")
    for column in ("form", "steps", "compile s", "run ms", "factor ms", "steps ms", "run/factor", "run/steps"):
        table.add_column(column, justify="right")
    for form in ("linearize",) if quick else ("linearize", "relax", "eliminate"):
        method = FullBatch(constraints=form)

        def run(method: FullBatch = method) -> Solution:
            return solve(problem, method=method, num_interior=num_interior, num_boundary=num_boundary, nugget=NUGGET)

        first = run()
        assert isinstance(first.predictor, Representer)
        matrix, prior = map(np.asarray, matrices(first.predictor))
        num_steps = len(first.history)
        factored = prior if form == "eliminate" else None

        def measure(run=run, matrix=matrix, factored=factored, prior=prior, num_steps=num_steps) -> tuple[float, ...]:
            """In turn, so that what else the machine does disturbs all alike."""
            return (
                run().seconds.run,
                seconds(lambda: scipy_factorisations(matrix, factored, num_steps)),
                seconds(lambda: scipy_steps(prior, num_interior, num_steps)) if factored is None else math.nan,
            )

        best = [min(column) for column in zip(*(measure() for _ in range(repeats)), strict=True)]
        ratios = [f"{best[0] / beside:.2f}" for beside in best[1:]]
        cells = (f"{first.seconds.compile:.2f}", *(f"{1e3 * value:.0f}" for value in best), *ratios)
        table.add_row(form, str(num_steps), *cells)
    Console().print(table)
