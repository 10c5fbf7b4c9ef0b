"""How many threads LAPACK may use: many small matrices want one, a single large one wants all."""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator

import scipy.linalg.cython_lapack

# How scipy's wheels, conda's builds and plain OpenBLAS name the pair.
_PREFIXES = ("scipy_openblas", "openblas")


@functools.cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Reading and setting the number of threads of the OpenBLAS that JAX calls, which is scipy's; None for other libraries."""
    try:
        library = ctypes.CDLL(scipy.linalg.cython_lapack.__file__)
    except OSError:
        return None
    for prefix in _PREFIXES:
        if hasattr(library, f"{prefix}_set_num_threads"):
            return getattr(library, f"{prefix}_get_num_threads"), getattr(library, f"{prefix}_set_num_threads")
    return None


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """One LAPACK thread inside the block.

    OpenBLAS splits a 128 x 128 Cholesky over all cores and then waits for the slowest: on a busy machine that takes 100
    times as long as one core alone.
    """
    controls = _controls()
    if controls is None:
        yield
        return
    get_num_threads, set_num_threads = controls
    before = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(before)
