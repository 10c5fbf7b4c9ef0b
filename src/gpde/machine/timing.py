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
        self.total = 0.0
        self._spans: list[tuple[float, float]] = []  # disjoint, one after the other

    def __enter__(self) -> "CompileClock":
        if not _listening:
            jax.monitoring.register_event_duration_secs_listener(_heard)
            _listening.append(True)
        self._start = time.perf_counter()
        _clocks.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _clocks.remove(self)
        self.total = time.perf_counter() - self._start

    def add(self, duration: float) -> None:
        """Counts an event that ends now. Traces nest: it swallows those that it contains."""
        end = time.perf_counter()
        start = max(self._start, end - duration)
        while self._spans and self._spans[-1][1] > start:
            start = min(start, self._spans.pop()[0])
        self._spans.append((start, end))

    @property
    def compile(self) -> float:
        return sum((end - start for start, end in self._spans), start=0.0)

    @property
    def run(self) -> float:
        return max(0.0, self.total - self.compile)


_listening: list[bool] = []


def _heard(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILE_EVENTS:
        for clock in _clocks:
            clock.add(duration_secs)
