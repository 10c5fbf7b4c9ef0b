"""Equations far from linear, without a start: how runs end from zero, and from the start that they choose themselves."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.methods import Consensus, FullBatch
from gpde.operators import divergence, gradient, laplacian, partial
from gpde.problem.problem import Problem
from gpde.solution._solve import solve

SQUARE, LINE = Box((0.0, 0.0), (1.0, 1.0)), Box(0.0, 1.0)
sin, cos, exp, pi = jnp.sin, jnp.cos, jnp.exp, jnp.pi
Side = Callable[[Any, Any], Any]


def wave(x: Any) -> Any:
    """Steep, and zero on two sides alone."""
    return sin(pi * x[0]) * cos(2 * pi * x[1])


def flux(coefficient: Callable[[Any], Any]) -> Side:
    """-∇·(c(|∇u|²)∇u)."""
    return lambda u, x: -divergence(lambda y: coefficient(jnp.sum(gradient(u)(y) ** 2)) * gradient(u)(y))(x)


def quasilinear(u: Any, x: Any) -> Any:
    """-((1 + u'²)u')' on a line."""
    return -partial(lambda y: (1 + partial(u, 0)(y) ** 2) * partial(u, 0)(y), 0)(x)


def hessian_determinant(u: Any, x: Any) -> Any:
    """The left side of the Monge-Ampère equation."""
    return partial(u, 0, 0)(x) * partial(u, 1, 1)(x) - partial(u, 0, 1)(x) ** 2


def manufactured(left: Side, exact: Callable[[Any], Any], domain: Box = SQUARE) -> Problem:
    """The problem with this solution, given on the whole boundary."""
    equations = {"interior": lambda u, x: left(u, x) - left(exact, x), "boundary": lambda u, x: u(x) - exact(x)}
    return Problem(domain, equations, reference=exact)


def cubic_diffusion(u: Any, x: Any) -> Any:
    """Degenerate at zero."""
    return -laplacian(lambda y: u(y) ** 3)(x) + u(x)


def cases(quick: bool) -> list[tuple[str, Problem, float]]:
    """Names, problems and lengthscales."""
    found = [
        ("-(u³)'' + u", manufactured(cubic_diffusion, lambda x: 1.5 + 0.5 * sin(3 * x[0]), LINE), 0.4),
        ("-((1 + u'²)u')', |u'| < 4", manufactured(quasilinear, lambda x: sin(pi * x[0]) + x[0], LINE), 0.3),
    ]
    if quick:
        return found[:1]
    near_one = lambda x: 1.5 + 0.5 * sin(pi * x[0]) * cos(pi * x[1])  # noqa: E731
    return [
        *found,
        ("-((1 + u'²)u')', |u'| < 14", manufactured(quasilinear, lambda x: 2 * sin(2 * pi * x[0]) + x[0], LINE), 0.15),
        ("-Δ(u³) + u", manufactured(cubic_diffusion, near_one), 0.4),
        ("-∇·((1 + |∇u|²)∇u)", manufactured(flux(lambda s: 1 + s), wave), 0.25),
        ("-∇·((0.01 + |∇u|²)∇u)", manufactured(flux(lambda s: 0.01 + s), lambda x: wave(x) + x[0]), 0.25),
        ("minimal surface, |∇u| < 13", manufactured(flux(lambda s: (1 + s) ** -0.5), lambda x: 2 * wave(x)), 0.25),
        ("det D²u", manufactured(hessian_determinant, lambda x: exp((x[0] ** 2 + x[1] ** 2) / 2)), 0.5),
        ("-Δu + 100u³", manufactured(lambda u, x: -laplacian(u)(x) + 100 * u(x) ** 3, lambda x: 3 * wave(x)), 0.25),
        ("-Δu + exp 5u", manufactured(lambda u, x: -laplacian(u)(x) + exp(5 * u(x)), lambda x: 2 * wave(x)), 0.25),
    ]


def main(quick: bool = False) -> None:
    """Prints the table."""
    table = Table("equation", "method", "start", "outcome", "steps", "Linf", title="hard equations")
    for name, problem, lengthscale in cases(quick):
        exact = problem.reference
        assert exact is not None
        counts = (40 if quick else 60, 2) if problem.domain.dim == 1 else (400, 100)
        for method in (FullBatch(), Consensus(batch_size=16 if problem.domain.dim == 1 else 64)):
            for start, initial in (("zero", lambda x: 0.0 * x[0]), ("its own", None)):
                solution = solve(
                    problem, Gaussian(lengthscale), method=method, initial=initial, nugget=1e-12,
                    num_interior=counts[0], num_boundary=counts[1],
                )  # fmt: skip
                points = problem.domain.test_points((200,) if problem.domain.dim == 1 else (40, 40))
                error = np.max(np.abs(solution(points) - jax.vmap(exact)(jnp.asarray(points))))
                result = solution.result
                table.add_row(name, method.name, start, result.outcome.name.lower(), str(result.num_steps), f"{error:.1e}")
    Console().print(table)
