"""Who uses the cores: many small factorisations want one BLAS thread, a large one wants them all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.linalg.cython_lapack  # noqa: F401 - JAX calls its LAPACK, and only libraries already loaded can be limited
from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, BLAS and LAPACK use one thread per call.

    OpenBLAS splits even a 128 x 128 Cholesky over all cores and waits for the slowest: on a busy machine that was seen to
    take sixteen times as long as one core alone.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def map_chunks(
    function: Callable[..., Any], shared: Any, batched: Sequence[np.ndarray], chunk_size: int
) -> tuple[np.ndarray, ...]:
    """`function(shared, *rows)` over chunks of the rows of `batched`, the results joined along their first axis.

    One at a time: batched LAPACK calls of two computations that run at once wait for each other for ever (jaxlib 0.10.2).
    """
    num = len(batched[0])
    size = max(1, min(chunk_size, num))
    pieces: list[tuple[np.ndarray, ...]] = []
    with one_blas_thread():
        for first in range(0, num, size):
            # The last chunk repeats its last row: one shape is compiled.
            rows = np.minimum(np.arange(first, first + size), num - 1)
            out = function(shared, *[array[rows] for array in batched])
            pieces.append(tuple(np.asarray(leaf)[: min(size, num - first)] for leaf in out))
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
