"""The full GP beside SciPy: its Cholesky factorisations and solves alone, and the whole linear algebra of its steps.

"factor" is the floor: matrices that lie there already, factored and solved with. "steps" starts from the Gram matrix, as the
method does. The method also computes that Gram matrix, and checks, linearises and searches along its steps.
"""

import functools
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve

from gpde.domains import Box
from gpde.functionals.block_gram import block_gram
from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.methods import FullBatch
from gpde.methods.representer import Representer
from gpde.operators import laplacian, partial
from gpde.problem.problem import Problem
from gpde.solution._solve import solve

Field = Callable[[jax.Array], jax.Array]
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
        _ = gram @ np.concatenate([a * dual[:num_interior], dual[num_interior:], -dual[:num_interior]])


def seconds(call: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def coupled() -> Problem:
    """Two fields and two equations: many more blocks than the elliptic problem's, which has one of each."""

    def exact_u(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1])

    def exact_v(x: jax.Array) -> jax.Array:
        return jnp.cos(jnp.pi * x[0]) + x[1] ** 2

    def reaction(u: Field, v: Field, x: jax.Array) -> jax.Array:
        return -laplacian(u)(x) + u(x) * v(x) ** 2

    def transport(u: Field, v: Field, x: jax.Array) -> jax.Array:
        return -laplacian(v)(x) + u(x) * partial(v, 0)(x)

    return Problem(
        Box((0.0, 0.0), (1.0, 1.0)),
        {
            "interior": [
                lambda u, v, x: reaction(u, v, x) - reaction(exact_u, exact_v, x),
                lambda u, v, x: transport(u, v, x) - transport(exact_u, exact_v, x),
            ],
            "boundary": [lambda u, v, x: u(x) - exact_u(x), lambda u, v, x: v(x) - exact_v(x)],
        },
        fields=("u", "v"),
    )


def main(quick: bool = False) -> None:
    """Prints, for a problem of one field in each form and for a system of two, seconds beside those of its factorisations."""
    num_interior, num_boundary, repeats = (90, 30, 1) if quick else (900, 300, 100)
    table = Table(title=f"full GP beside SciPy (bar {BAR}), Gaussian(0.2), nugget {NUGGET:g}")
    for column in ("problem", "N", "form", "steps", "compile s", "run ms", "factor ms", "steps ms", "run/factor", "run/steps"):
        table.add_column(column, justify="right")
    elliptic, system = get("elliptic").build(), coupled()
    rows = [("elliptic", elliptic, num_interior, num_boundary, form) for form in ("linearize", "relax", "eliminate")]
    rows += [("system", system, num_interior // 2, num_boundary // 2, "linearize")]
    for name, problem, interior, boundary, form in rows[:1] if quick else rows:
        run = functools.partial(
            solve, problem, Gaussian(0.2), method=FullBatch(constraints=form),
            num_interior=interior, num_boundary=boundary, nugget=NUGGET,
        )  # fmt: skip
        first = run()
        assert isinstance(first.predictor, Representer)
        matrix, prior = map(np.asarray, matrices(first.predictor))
        num_steps = len(first.history)
        calls: list[Callable[[], float]] = [
            lambda run=run: run().seconds.run,
            lambda args=(matrix, prior if form == "eliminate" else None, num_steps): seconds(scipy_factorisations, *args),
        ]
        if problem is elliptic and form != "eliminate":
            calls.append(lambda args=(prior, interior, num_steps): seconds(scipy_steps, *args))
        # In turn, so that what else the machine does disturbs all alike.
        best = [min(column) for column in zip(*([call() for call in calls] for _ in range(repeats)), strict=True)]
        numbers = [f"{1e3 * value:.0f}" for value in best] + ["–"] * (3 - len(best))
        ratios = [f"{best[0] / beside:.2f}" for beside in best[1:]] + ["–"] * (3 - len(best))
        table.add_row(name, str(len(matrix)), form, str(num_steps), f"{first.seconds.compile:.2f}", *numbers, *ratios)
    Console(width=110).print(table)
