"""How long JAX compiled inside a block of code."""

import time
from types import TracebackType

import jax

_COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_clocks: list["CompileClock"] = []


class CompileClock:
    """Measures a block's wall-clock time and, apart, the time JAX spent tracing and compiling in it."""

    def __init__(self) -> None:
        self.compile = 0.0
        self.total = 0.0

    def __enter__(self) -> "CompileClock":
        if not _listening:
            jax.monitoring.register_event_duration_secs_listener(_heard)
            _listening.append(True)
        self._covered = self._start = time.perf_counter()
        _clocks.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _clocks.remove(self)
        self.total = time.perf_counter() - self._start

    def add(self, duration: float) -> None:
        # Traces nest: an event that ends now counts only from where the last one ended.
        now = time.perf_counter()
        self.compile += max(0.0, now - max(self._covered, now - duration))
        self._covered = now

    @property
    def run(self) -> float:
        return max(0.0, self.total - self.compile)


_listening: list[bool] = []


def _heard(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILE_EVENTS:
        for clock in _clocks:
            clock.add(duration_secs)
