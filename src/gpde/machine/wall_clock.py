"""The clock on the wall: all the time that a program takes, shared out by name."""

import contextlib
import time
from collections.abc import Iterator

import psutil


class WallClock:
    """Shares time out without a gap: every second belongs to the innermost `during`, or to the first name outside them all.

    `age`: seconds that have passed already.
    """

    def __init__(self, name: str, age: float = 0.0) -> None:
        self._seconds, self._names, self._since = {name: age}, [name], time.perf_counter()

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """The time inside is that of `name`."""
        self._turn()
        self._names.append(name)
        try:
            yield
        finally:
            self._turn()
            self._names.pop()

    @property
    def seconds(self) -> dict[str, float]:
        """Up to now, by name."""
        self._turn()
        return dict(self._seconds)

    def _turn(self) -> None:
        now = time.perf_counter()
        self._seconds[self._names[-1]] = self._seconds.get(self._names[-1], 0.0) + now - self._since
        self._since = now


def process_age() -> float:
    """Seconds since this process was started, the interpreter and its imports included."""
    created = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux tells the moment of booting, from which processes are counted, in whole seconds alone.
        return time.clock_gettime(time.CLOCK_BOOTTIME) - (created - psutil.boot_time())
    return time.time() - created
