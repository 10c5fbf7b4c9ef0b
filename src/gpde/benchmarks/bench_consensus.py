"""Consensus: how fast patches are assembled beside the machine's dense linear algebra, and errors against the patch size."""

import os
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.collocation.collocation import collocate
from gpde.collocation.cover import cover
from gpde.collocation.neighbours import Metric
from gpde.collocation.point_table import point_table
from gpde.gallery import get
from gpde.methods import AbstractMethod, Consensus, FullBatch
from gpde.methods.consensus.linearization import fixed_values, linearized, starting_values
from gpde.methods.consensus.system import reduce_patches
from gpde.solution._solve import solve
from gpde.solution.errors import Predictions, error_points, errors


def best(call: Callable[[], None], repeats: int) -> float:
    """The smallest of several measurements: the one that other processes disturbed least."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def assembly(quick: bool) -> Table:
    """Arithmetic per second while patches are reduced, beside a large matrix product in the same run."""
    num_interior, num_patches = (200, 16) if quick else (10_000, 3000)
    problem = get("elliptic").build()
    collocation = collocate(problem, problem.sample(num_interior, num_interior // 10))
    kernel: Any = problem.defaults.kernel
    table, kernels = point_table(collocation), (kernel,)
    coordinates = Metric.of(kernels, table.points.shape[1]).coordinates(np.asarray(table.points))
    operators = table.gather(jnp.zeros(collocation.functionals.size))
    equations, _ = linearized(table, operators, kernels)
    values, fixed = starting_values(table, operators, kernels), fixed_values(table, kernels)
    size = 500 if quick else 3000
    matrix = np.random.default_rng(0).normal(size=(size, size))

    def multiply() -> None:
        _ = matrix @ matrix

    peak = 2 * size**3 / best(multiply, 3)

    out = Table(
        title=f"reducing patches, {os.cpu_count()} cores; peak = {peak / 1e9:.0f} Gflop/s (product of two {size}² matrices)"
    )
    for column in ("points per patch", "ms per patch", "Gflop/s", "of the peak", "cores busy"):
        out.add_column(column, justify="right")
    for batch_size in (16,) if quick else (32, 64, 128):
        patches = cover(coordinates, batch_size, num_patches, np.asarray(fixed.all(axis=1)))
        members = patches.members[:num_patches]

        def reduce(members=members) -> None:
            stretch = np.ones((len(members), table.points.shape[1]))
            reduce_patches(equations, kernels, members, values, np.full(len(members), 1e-12), stretch, 0)

        reduce()  # compiles
        busy = time.process_time()
        start = time.perf_counter()
        reduce()
        cores = (time.process_time() - busy) / (time.perf_counter() - start)
        seconds = best(reduce, 1 if quick else 3) / len(members)
        # Cholesky of (ψ, δ), one triangular solve with one and one with M + 1 right sides, one product of M x M matrices.
        flops = (2 * batch_size) ** 3 / 3 + batch_size**2 * (batch_size + 2) + 2 * batch_size**3
        share = f"{flops / seconds / peak:.0%}"
        out.add_row(str(batch_size), f"{1e3 * seconds:.3f}", f"{flops / seconds / 1e9:.1f}", share, f"{cores:.1f}")
    return out


def patch_sizes(quick: bool) -> Table:
    """Errors on the test grid against the patch size, tending to those of the full GP."""
    problem = get("elliptic").build()
    settings: dict[str, Any] = dict(zip(("num_interior", "num_boundary"), (60, 20) if quick else (900, 300), strict=True))
    seeds = (0,) if quick else (0, 1, 2)
    grid = error_points(problem)
    out = Table(title=f"elliptic, {sum(settings.values())} points: errors on the grid, median of seeds {seeds}")
    for column in ("method", "M", "patches", "Linf", "L2"):
        out.add_column(column, justify="right")

    def row(name: str, size: str, patches: str, method: AbstractMethod) -> None:
        found: list[dict[str, Any]] = [
            errors(Predictions(solve(problem, method=method, seed=seed, **settings)), grid) for seed in seeds
        ]
        linf, l2 = (float(np.median([e[key] for e in found])) for key in ("linf", "l2"))
        out.add_row(name, size, patches, f"{linf:.1e}", f"{l2:.1e}")

    for size in (16,) if quick else (32, 48, 64, 100, 150, 300):
        num = settings["num_interior"] // 4 if size >= 100 else None
        row("consensus", str(size), "N/4" if num else "N", Consensus(batch_size=size, num_patches=num))
    row("full GP", "", "", FullBatch())
    return out


def main(quick: bool = False) -> None:
    """Prints both tables, and why assembly does not run at the peak."""
    console = Console()
    console.print(assembly(quick))
    console.print(
        "Below the peak because LAPACK factors matrices of this size mostly outside its blocked kernels, because the kernel's\n"
        "exponentials and polynomials are not counted as arithmetic, and because the first chunk, which compiles, runs alone."
    )
    console.print(patch_sizes(quick))
