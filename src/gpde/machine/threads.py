"""Who uses the cores: many small factorisations want one BLAS thread, a large one wants them all."""

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import scipy.linalg.cython_lapack  # noqa: F401 - JAX calls its LAPACK, and only libraries already loaded can be limited
from threadpoolctl import ThreadpoolController

# Two batched factorisations at once can wait for each other for ever (see `map_chunks`), and the limit below is that of the
# whole process: solves in several threads of a program take turns.
_TURN = threading.RLock()
# From this size on a Cholesky factorisation gains more from a second core than it loses by waiting for it.
_LARGE = 1000


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, BLAS and LAPACK use one thread per call, and no other thread of the program is inside.

    OpenBLAS splits even a 128 x 128 Cholesky over all cores and waits for the slowest: on a busy machine that was seen to
    take sixteen times as long as one core alone. One thread also keeps clear of jax-ml/jax#39292 (batched LAPACK corrupts
    the heap on many cores, jaxlib 0.10.2).
    """
    with _TURN, _libraries().limit(limits=1, user_api="blas"):
        yield


def threads_for(size: int) -> AbstractContextManager[None]:
    """One BLAS thread for matrices of a size that are factored faster so, all of them for larger ones."""
    return one_blas_thread() if size < _LARGE else nullcontext()


@functools.cache
def _libraries() -> ThreadpoolController:
    """Found once: looking through all that a process has loaded takes longer than a small factorisation."""
    return ThreadpoolController()


def map_chunks(
    function: Callable[..., Any], shared: Any, batched: Sequence[np.ndarray], chunk_size: int
) -> tuple[np.ndarray, ...]:
    """`function(shared, *rows)` over chunks of the rows of `batched`, the results joined along their first axis.

    Every core works on a chunk of its own. So `function` must not call LAPACK on a batch (`jax.vmap` of a factorisation; use
    `jax.lax.map`): such calls wait for tasks on the threads that they occupy, and two of them at once wait for ever
    (jaxlib 0.10.2).
    """
    num = len(batched[0])
    size = max(1, min(chunk_size, num))

    def one(first: int) -> tuple[np.ndarray, ...]:
        # The last chunk repeats its last row: one shape is compiled.
        rows = np.minimum(np.arange(first, first + size), num - 1)
        out = function(shared, *[array[rows] for array in batched])
        return tuple(np.asarray(leaf)[: min(size, num - first)] for leaf in out)

    with one_blas_thread(), ThreadPoolExecutor(num_cores()) as pool:
        pieces = [one(0)]  # alone: it compiles
        try:
            pieces += pool.map(one, range(size, num, size))
        except BaseException:  # Ctrl-C among them: leaving the pool would wait for every chunk in the queue
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
