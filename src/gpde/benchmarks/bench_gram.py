"""Gram matrices from closed forms beside the same ones from nested automatic differentiation."""

import functools
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import BlockGram, block_gram
from gpde.functionals.functionals import Functionals
from gpde.kernels import AbstractKernel, FunctionKernel, Gaussian, Matern

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


def nested_hessians(kernel: Callable[..., jax.Array], points: jax.Array) -> BlockGram:
    """The same matrix as codes without closed forms write it: the trace of a Hessian of the trace of a Hessian."""

    def laplacian(f: Callable[..., jax.Array], argument: int) -> Callable[..., jax.Array]:
        return lambda x, y: jnp.trace(jax.hessian(f, argument)(x, y))

    def block(f: Callable[..., jax.Array]) -> jax.Array:
        return jax.vmap(lambda x: jax.vmap(lambda y: f(x, y))(points))(points)

    mixed = block(laplacian(kernel, 1))
    n = len(points)
    return BlockGram({(0, 0): block(kernel), (0, n): mixed, (n, n): block(laplacian(laplacian(kernel, 1), 0))})


def seconds(call: Callable[[], BlockGram], repeats: int) -> tuple[float, np.ndarray]:
    """Of the best call after the first, which compiles; and the matrix. Blocks are left apart, as the full GP uses them."""

    def timed() -> float:
        start = time.perf_counter()
        jax.block_until_ready(call())
        return time.perf_counter() - start

    matrix = np.triu(call().upper_triangle())
    return min(timed() for _ in range(repeats)), matrix


def main(quick: bool = False) -> None:
    """Prints seconds and ratios for u and Δu on the same points."""
    num_points, repeats = (60, 1) if quick else (1000, 5)
    points = jnp.asarray(np.random.default_rng(0).random((num_points, 2)))
    functionals = Functionals((VALUE, LAPLACIAN), (points, points))
    table = Table(title=f"Gram matrix of u and Δu on {num_points} points in the plane")
    headers = ("closed form s", "nested Hessians s", f"ratio (bar {BAR:g})", "FunctionKernel s", "ratio", "difference")
    for column in ("kernel", *headers):
        table.add_column(column, justify="right")
    pairs: list[tuple[str, AbstractKernel, Callable[..., jax.Array]]] = [
        ("Gaussian", Gaussian(LENGTHSCALE), gaussian),
        ("Matérn 9/2", Matern(9 / 2, LENGTHSCALE), matern),
    ]
    assemble = eqx.filter_jit(lambda kernel: block_gram((kernel,), functionals, (((0, num_points), num_points),)))
    for name, kernel, function in pairs:
        hessians = jax.jit(functools.partial(nested_hessians, function))
        closed, matrix = seconds(lambda kernel=kernel: assemble(kernel), repeats)
        nested, beside = seconds(lambda hessians=hessians: hessians(points), repeats)
        fallback, _ = seconds(lambda kernel=FunctionKernel(function): assemble(kernel), repeats)
        off_diagonal = np.tile(~np.eye(num_points, dtype=bool), (2, 2))
        difference = np.abs(matrix - beside)[off_diagonal].max() / np.abs(matrix).max()
        numbers = (closed, nested, nested / closed, fallback, fallback / closed)
        table.add_row(name, *(f"{number:.3g}" for number in numbers), f"{difference:.1e}")
    Console().print(table)
