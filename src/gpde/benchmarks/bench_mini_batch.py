"""What a mini-batch step costs: beside a plain port, beside bare LAPACK, and as the number of points grows; and how many
sweeps it takes: with batches in permutations or drawn one by one, and as the number of points grows.

Every ratio is measured in one run, on one BLAS thread.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from gpde.collocation.collocation import collocate
from gpde.gallery import get
from gpde.kernels.function import as_kernel
from gpde.linalg.line_search import backtrack
from gpde.machine.threads import one_blas_thread
from gpde.methods import MiniBatch
from gpde.methods.base import Setup
from gpde.methods.mini_batch.proximal import Batch, ProximalProblem
from gpde.methods.mini_batch.state import State, Work
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import Predictions, error_points, errors


class Case(NamedTuple):
    """A problem with its numbers of points, batch size and proximal weight."""

    name: str
    num_interior: int
    num_boundary: int
    batch_size: int
    weight: float


def main(quick: bool = False) -> None:
    cases = [Case("elliptic", 60, 20, 16, 1e6)]
    if not quick:
        cases = [Case("elliptic", 900, 300, 64, 1e6), *(Case("burgers", 2000, 400, size, 1e4) for size in (75, 300))]
    with one_blas_thread():
        step_table(cases, num_steps=10 if quick else 1000)
        growth_table(cases[0], (80,) if quick else (10_000, 100_000, 400_000), num_steps=10 if quick else 400)
        memory_table((80,) if quick else (1_200, 2_400, 4_800, 9_600), budget_mb=200.0 if quick else 800.0)
    sampling_table(cases[:1] if quick else cases[:2], seeds=(0,) if quick else (0, 1, 2))
    sweeps_table(cases[0], ((60, 20),) if quick else ((900, 300), (3_600, 400), (9_400, 600), (38_800, 1_200)))


# --- a step beside other ways to take it ------------------------------------------------------------------------------


def step_table(cases: list[Case], num_steps: int) -> None:
    print("A step, in milliseconds (inner steps in brackets), and how many of ours it takes")
    print(
        f"{'problem':<18}{'M':>5}{'ours, kept':>18}{'anchored':>18}{'recomputed':>14}{'plain port':>14}{'LAPACK alone':>14}"
        f"{'anchored/ours':>15}{'plain/ours':>12}{'ours/LAPACK':>13}"
    )
    for case in cases:
        setup = setup_of(get(case.name).build(), case.num_interior, case.num_boundary)
        size = case.batch_size * len(setup.collocation.functionals.operators)
        repeats = max(3, int(num_steps * min(1.0, (128 / size) ** 2)))
        # Kept factors are measured on as many batches as a gigabyte holds.
        kept, inner, work, state = run(setup, case, repeats, memory_budget=1000.0, warm_up=10 * repeats)
        held, inner_held, *_ = run(
            setup, case, repeats, memory_budget=1000.0, warm_up=10 * repeats, metric="anchored", start=state
        )
        fresh, *_ = run(setup, case, max(3, repeats // 5), memory_budget=0.0, warm_up=0, start=state)
        plain = plain_port(work, case, state, num_steps=max(2, repeats // 50))
        bare = lapack_alone(work, state, case, inner, num_steps=max(5, repeats // 5))
        print(
            f"{case.name:<18}{case.batch_size:>5}{1e3 * kept:>11.3f} ({inner:.1f}){1e3 * held:>11.3f} ({inner_held:.1f})"
            f"{1e3 * fresh:>14.3f}{1e3 * plain:>14.2f}{1e3 * bare:>14.3f}{held / kept:>15.2f}{plain / kept:>12.1f}"
            f"{kept / bare:>13.2f}",
            flush=True,
        )
    print()


class KeptBatches(MiniBatch):
    """Takes only batches whose factors are kept, if any are."""

    def _drawn(self, work: Work, state: State, first: int, num: int, room: int) -> Any:
        table, rows = super()._drawn(work, state, first, num, room)
        return table, rows if work.cache is None or work.cache.room == 0 else rows % work.cache.room


def run(
    setup: Setup,
    case: Case,
    num_steps: int,
    *,
    memory_budget: float,
    warm_up: int,
    metric: str = "gram-diagonal",
    start: State | None = None,
) -> tuple[float, float, Work, State]:
    """Seconds and inner steps per step, after some steps to leave the start behind."""
    method = KeptBatches(
        batch_size=case.batch_size,
        num_steps=100 * num_steps,
        proximal_weight=case.weight,
        proximal_metric=metric,
        memory_budget=memory_budget,
    )
    work = method.prepare(setup)
    state = method.init(work, None, seed=0)
    state = state if start is None else state._replace(values=start.values)
    state, *_ = method.step(work, state)
    for _ in range(warm_up // num_steps):
        state, *_ = method.step(work, state)
    seconds, inner = [], []
    for _ in range(3):
        begin = time.perf_counter()
        state, info, _ = method.step(work, state)
        seconds.append((time.perf_counter() - begin) / num_steps)
        inner.append(info["inner_steps"].mean())
    return min(seconds), float(np.mean(inner)), work, state


def plain_port(work: Work, case: Case, state: State, num_steps: int) -> float:
    """Seconds per step of a plain port: the Gram matrix by nested automatic differentiation of the kernel, a Cholesky
    factor, and Gauss-Newton by dense least squares on the residuals of (2.16)."""
    setup, batches = work.setup, work.batches
    assert batches is not None
    kernel = setup.kernels[0]
    problem = eqx.tree_at(lambda p: p.kernels, work.problem, (as_kernel(lambda x, y: kernel(x, y)),))
    nugget, weight = jnp.asarray(setup.nugget), jnp.asarray(case.weight)

    @eqx.filter_jit
    def step(problem: ProximalProblem, points: jax.Array, old: jax.Array) -> jax.Array:
        prior = problem.prior(points, nugget)
        shape, unit = old.shape, prior.unit.T
        free = jax.vmap(jax.jacfwd(problem.table.eliminate, argnums=1))(points, old)
        held = (jnp.max(jnp.abs(free), axis=1) == 0).reshape(-1)

        def residuals(scaled: jax.Array) -> jax.Array:
            z = problem.retract(points, scaled.reshape(shape) * unit) / unit
            energy = jax.scipy.linalg.solve_triangular(prior.lower, z.T.reshape(-1), lower=True)
            proximal = jnp.sqrt(weight) * (z - old / unit)
            return jnp.concatenate([energy, proximal.reshape(-1)])

        def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            z, num, _ = carry
            r, jacobian = residuals(z), jax.jacfwd(residuals)(z)
            # Values that the equations fix have no say: a row each keeps the least squares problem regular.
            q, upper = jnp.linalg.qr(jnp.concatenate([jacobian, jnp.diag(held.astype(float))]))
            move = -jax.scipy.linalg.solve_triangular(upper, q.T @ jnp.concatenate([r, jnp.zeros(held.shape)]))

            def trial(t: jax.Array) -> tuple[jax.Array, jax.Array]:
                return z + t * move, 0.5 * jnp.sum(residuals(z + t * move) ** 2)

            small = jnp.max(jnp.abs(move)) <= problem.inner_tolerance
            damped = backtrack(trial, jnp.where(small, jnp.inf, 0.5 * jnp.sum(r**2)), start=z)
            return damped.point, num + 1, ~small & damped.accepted

        start = ((old / unit).reshape(-1), jnp.zeros((), dtype=int), jnp.ones((), dtype=bool))
        z, *_ = jax.lax.while_loop(lambda c: c[2] & (c[1] < problem.max_inner_steps), body, start)
        return problem.retract(points, z.reshape(shape) * unit)

    rows = np.random.default_rng(1).integers(len(batches), size=num_steps)
    return timed(lambda row: step(problem, batches[row], state.values[batches[row]]), rows)


def lapack_alone(work: Work, state: State, case: Case, num_inner: float, num_steps: int) -> float:
    """Seconds per step of the linear algebra of `proximal.py`, issued from numpy to BLAS and LAPACK: for every inner step
    the products with Ψ, a Cholesky factor and its solves, one product with ΨA and one triangular solve with C."""
    assert work.batches is not None
    problem, points = work.problem, work.batches[0]
    batch: Batch = eqx.filter_jit(problem.batch)(points, jnp.asarray(1e-10), jnp.asarray(case.weight))
    psi = np.asarray(eqx.filter_jit(problem.linearized)(points, state.values[points], batch.prior.unit)[0])[0]
    a, c = (np.asfortranarray(leaf) for leaf in (batch.smoother, batch.prior.lower))
    num_operators, num_points = psi.shape
    z = np.random.default_rng(0).normal(size=a.shape[0])
    blocks = a.reshape(num_operators, num_points, -1, order="C")
    blocks = np.ascontiguousarray(blocks)

    gemv, trsv = get_blas_funcs(("gemv", "trsv"), (a,))
    potrf, potrs = get_lapack_funcs(("potrf", "potrs"), (a,))

    def step(_: Any) -> None:
        gemv(1.0, a, z)
        trsv(c, z, lower=1)
        for _ in range(max(1, round(num_inner))):
            psi_a = functools.reduce(np.add, [psi[d][:, None] * blocks[d] for d in range(num_operators)])
            parts = psi_a.reshape(num_points, num_operators, num_points)
            matrix = functools.reduce(np.add, [parts[:, d] * psi[d][None] for d in range(num_operators)])
            matrix[np.diag_indices(num_points)] += 1e-12 * matrix.diagonal()
            lower, _ = potrf(matrix.T, lower=1, overwrite_a=1)
            dual, _ = potrs(lower, z[:num_points], lower=1)
            gemv(1.0, psi_a.T, dual)
            trsv(c, z, lower=1)

    return timed(step, range(num_steps))


def timed(step: Callable[[Any], Any], arguments: Any) -> float:
    """Seconds per call, compilation left out; the best of three rounds."""
    jax.block_until_ready(step(arguments[0]))
    rounds = []
    for _ in range(3):
        begin = time.perf_counter()
        for argument in arguments:
            jax.block_until_ready(step(argument))
        rounds.append((time.perf_counter() - begin) / len(arguments))
    return min(rounds)


# --- as the number of points grows ------------------------------------------------------------------------------------


def growth_table(case: Case, numbers: tuple[int, ...], num_steps: int) -> None:
    print(f"A step on the elliptic problem (M = {case.batch_size}) with nothing kept, as the number of points grows")
    print(f"{'points':>10}{'ms':>10}{'inner':>8}{'of a kept one':>16}")
    setup = setup_of(get("elliptic").build(), case.num_interior, case.num_boundary)
    kept, kept_inner, *_ = run(setup, case, num_steps, memory_budget=1000.0, warm_up=5 * num_steps)
    print(f"{case.num_interior + case.num_boundary:>10}{1e3 * kept:>10.3f}{kept_inner:>8.1f}{'1 (kept)':>16}")
    for number in numbers:
        # The kernel narrows with the spacing, as it would; the batches then look alike at every size.
        problem = get("elliptic").build()
        scaled = setup_of(problem, number - number // 10, number // 10, lengthscale=0.2 * np.sqrt(1200 / max(number, 1200)))
        seconds, inner, *_ = run(scaled, case, num_steps, memory_budget=0.0, warm_up=0)
        print(f"{number:>10}{1e3 * seconds:>10.3f}{inner:>8.1f}{seconds / kept:>16.1f}", flush=True)
    print()


def memory_table(numbers: tuple[int, ...], budget_mb: float) -> None:
    print(f"Memory of kept factors, with a budget of {budget_mb:.0f} MB")
    print(f"{'points':>10}{'batches kept':>15}{'MB':>10}")
    for number in numbers:
        setup = setup_of(get("elliptic").build(), number - number // 4, number // 4)
        method = MiniBatch(batch_size=64, num_steps=100, proximal_weight=1e6, memory_budget=budget_mb)
        work = method.prepare(setup)
        cache = work.cache
        factors = cache.at(1e6, work.rungs[-1].rows) if cache is not None else None
        held = sum(leaf.nbytes for leaf in jax.tree.leaves(factors)) / 2**20
        print(f"{number:>10}{cache.room if cache else 0:>15}{held:>10.0f}", flush=True)


# --- how many sweeps it takes -----------------------------------------------------------------------------------------


def sampling_table(cases: list[Case], seeds: tuple[int, ...]) -> None:
    print("Batches in permutations of all, or drawn one by one: runs with the defaults, for several seeds")
    print(f"{'problem':<18}{'batches':<16}{'L2':<36}sweeps over all points")
    for case in cases:
        problem = get(case.name).build()
        for name, replacement in (("permutations", False), ("draws", True)):
            method = MiniBatch(batch_size=case.batch_size, replacement=replacement)
            runs = [solved(problem, method, (case.num_interior, case.num_boundary), seed) for seed in seeds]
            errors = "  ".join(f"{error:.1e}" for error, _ in runs)
            print(f"{case.name:<18}{name:<16}{errors:<36}{'  '.join(str(sweeps[-1][1]) for _, sweeps in runs)}", flush=True)
    print()


def sweeps_table(case: Case, numbers: tuple[tuple[int, int], ...]) -> None:
    print(f"Sweeps on each set of points, the elliptic problem (M = {case.batch_size}) with the defaults")
    print(f"{'points':>10}{'L2':>12}   sweeps on points")
    for number in numbers:
        error, sweeps = solved(get(case.name).build(), MiniBatch(batch_size=case.batch_size), number, seed=0)
        print(f"{sum(number):>10}{error:>12.1e}   {', '.join(f'{num} on {size}' for size, num in sweeps)}", flush=True)


def solved(problem: Problem, method: MiniBatch, number: tuple[int, int], seed: int) -> tuple[float, list[tuple[int, int]]]:
    """The L2 error of a run, and how many sweeps it took on each set of points, the coarsest first."""
    solution = solve(problem, method=method, num_interior=number[0], num_boundary=number[1], seed=seed)
    error = errors(Predictions(solution), error_points(problem))["l2"]
    assert error is not None  # the gallery has a reference
    sizes = [sweep["num_points"] for info in solution.history for sweep in info["sweeps"]]
    return error, [(size, sizes.count(size)) for size in sorted(set(sizes))]


def setup_of(problem: Problem, num_interior: int, num_boundary: int, lengthscale: float | None = None) -> Setup:
    collocation = collocate(problem, problem.sample(num_interior, num_boundary, seed=0))
    kernel: Any = problem.defaults.kernel
    kernel = kernel if lengthscale is None else type(kernel)(lengthscale)
    return Setup(collocation, (kernel,), problem.defaults.nugget)
