"""The full GP beside the same linear algebra in SciPy: what everything but the Cholesky factorisations costs."""

import time
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve

from gpde.functionals import gram
from gpde.gram import add_diagonal
from gpde.methods import FullBatch
from gpde.methods.representer import Representer
from gpde.problems import get
from gpde.solution import Solution
from gpde.solve import solve

BAR = 1.5
NUGGET = 1e-13


def best(call: Callable[[], float], repeats: int) -> float:
    """The smallest of several measurements: the one that other processes disturbed least."""
    return min(call() for _ in range(repeats))


@eqx.filter_jit
def matrices(predictor: Representer) -> tuple[jax.Array, jax.Array]:
    r"""The matrix of the last step, $\Psi K \Psi^T + \Lambda$, and the prior covariance $K$."""
    prior = add_diagonal(gram(predictor.kernels, predictor.functionals), predictor.prior_nugget)
    return add_diagonal(predictor.rows.conditioned(prior), predictor.noise), prior


def scipy_seconds(matrix: np.ndarray, num_steps: int) -> float:
    """One factorisation and one solve per step."""
    rhs = np.ones(len(matrix))
    start = time.perf_counter()
    for _ in range(num_steps):
        cho_solve(cho_factor(matrix, lower=True, check_finite=False), rhs, check_finite=False)
    return time.perf_counter() - start


def main(quick: bool = False) -> None:
    """Prints, for each form of the constraints, the seconds of a solve beside those of its factorisations."""
    num_interior, num_boundary, repeats = (90, 30, 1) if quick else (900, 300, 5)
    num_points = num_interior + num_boundary
    problem = get("elliptic").build()
    table = Table(title=f"full GP, elliptic, {num_points} points, Gaussian(0.2), nugget {NUGGET:g}")
    for column in ("constraints", "steps", "compile s", "run s", "SciPy s", f"run / SciPy (bar {BAR})"):
        table.add_column(column, justify="right")
    for form in ("linearize",) if quick else ("linearize", "relax", "eliminate"):
        method = FullBatch(constraints=form)

        def run(method: FullBatch = method) -> Solution:
            return solve(problem, method=method, num_interior=num_interior, num_boundary=num_boundary, nugget=NUGGET)

        first = run()
        seconds = best(lambda run=run: run().seconds.run, repeats)
        assert isinstance(first.predictor, Representer)
        matrix, prior = map(np.asarray, matrices(first.predictor))
        num_steps = len(first.history)
        beside = best(lambda matrix=matrix, num_steps=num_steps: scipy_seconds(matrix, num_steps), repeats)
        if form == "eliminate":  # it also factors the prior covariance of all functionals, once
            beside += best(lambda prior=prior: scipy_seconds(prior, 1), repeats)
        ratio = seconds / beside
        table.add_row(form, str(num_steps), f"{first.seconds.compile:.2f}", f"{seconds:.3f}", f"{beside:.3f}", f"{ratio:.2f}")
    Console().print(table)
