"""Who uses the cores: batched small factorisations run one chunk per device, each with one BLAS thread."""

import collections
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
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
    """`function(shared, *rows)` over chunks of the rows of `batched`, dealt out to all devices, joined along the first axis.

    XLA runs a batched factorisation on one core; a second CPU device (`jax_num_cpu_devices`) is what uses the second core.
    """
    devices = jax.local_devices()
    placed = [_placed(shared, device) for device in devices]
    num = len(batched[0])
    size = max(1, min(chunk_size, -(-num // len(devices))))
    pending: collections.deque[tuple[Any, int]] = collections.deque()
    pieces: list[tuple[np.ndarray, ...]] = []

    def collect() -> None:
        out, count = pending.popleft()
        pieces.append(tuple(np.asarray(leaf)[:count] for leaf in out))

    with one_blas_thread():
        for turn, first in enumerate(range(0, num, size)):
            device = turn % len(devices)
            # The last chunk repeats its last row: one shape is compiled.
            rows = np.minimum(np.arange(first, first + size), num - 1)
            arguments = [jax.device_put(array[rows], devices[device]) for array in batched]
            pending.append((function(placed[device], *arguments), min(size, num - first)))
            while len(pending) > 2 * len(devices):
                collect()
        while pending:
            collect()
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


def _placed(tree: Any, device: Any) -> Any:
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)
