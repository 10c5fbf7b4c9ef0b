"""Gram matrices from closed forms beside the same ones from nested automatic differentiation."""

import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.functionals import Functionals, gram
from gpde.kernels import AbstractKernel, FunctionKernel, Gaussian, Matern
from gpde.linear_operators import LinearOperator

BAR = 10.0
LENGTHSCALE = 0.2
VALUE: LinearOperator = ((0, (((0, 0), 1.0),)),)
LAPLACIAN: LinearOperator = ((0, (((2, 0), 1.0), ((0, 2), 1.0))),)


def gaussian(x: jax.Array, y: jax.Array) -> jax.Array:
    """The Gaussian kernel as a user writes it."""
    return jnp.exp(-0.5 * jnp.sum((x - y) ** 2) / LENGTHSCALE**2)


def matern(x: jax.Array, y: jax.Array) -> jax.Array:
    """Matérn 9/2, with a root that automatic differentiation survives (and gets wrong) where x = y."""
    square = jnp.sum((x - y) ** 2)
    r = 3 * jnp.sqrt(jnp.where(square > 0, square, 1e-30)) / LENGTHSCALE
    return (1 + r + 3 * r**2 / 7 + 2 * r**3 / 21 + r**4 / 105) * jnp.exp(-r)


def measure(kernel: AbstractKernel, functionals: Functionals, repeats: int) -> tuple[float, float, np.ndarray]:
    """Seconds of the first call, of the best later one, and the matrix."""
    assemble = eqx.filter_jit(gram)

    def timed() -> tuple[float, np.ndarray]:
        start = time.perf_counter()
        matrix = assemble((kernel,), functionals).block_until_ready()
        return time.perf_counter() - start, np.asarray(matrix)

    first, matrix = timed()
    return first, min(timed()[0] for _ in range(repeats)), matrix


def main(quick: bool = False) -> None:
    """Prints seconds and ratios for u and Δu on the same points."""
    num_points, repeats = (60, 1) if quick else (1000, 5)
    points = jnp.asarray(np.random.default_rng(0).random((num_points, 2)))
    functionals = Functionals((VALUE, LAPLACIAN), (points, points))
    table = Table(title=f"Gram matrix of u and Δu on {num_points} points in the plane")
    for column in ("kernel", "closed form s", "autodiff s", f"ratio (bar {BAR:g})", "ratio with compiling", "difference"):
        table.add_column(column, justify="right")
    pairs: list[tuple[str, AbstractKernel, Callable[..., jax.Array]]] = [
        ("Gaussian", Gaussian(LENGTHSCALE), gaussian),
        ("Matérn 9/2", Matern(9 / 2, LENGTHSCALE), matern),
    ]
    for name, closed, function in pairs:
        first, seconds, matrix = measure(closed, functionals, repeats)
        first_nested, nested, beside = measure(FunctionKernel(function), functionals, repeats)
        off = ~np.eye(num_points, dtype=bool)
        difference = np.abs(matrix - beside)[np.tile(off, (2, 2))].max() / np.abs(matrix).max()
        table.add_row(
            name,
            f"{seconds:.4f}",
            f"{nested:.4f}",
            f"{nested / seconds:.1f}",
            f"{first_nested / first:.1f}",
            f"{difference:.1e}",
        )
    Console().print(table)
