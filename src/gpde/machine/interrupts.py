"""Ctrl-C. A run that it ends keeps what was reached and returns it; the next run is not started, so that a loop ends too."""

import builtins
from typing import Any

# Where the last run was interrupted, until somebody has heard of it.
_unheeded: list[Any] = []


def remember() -> None:
    """Notes that Ctrl-C ended a run, whose solution is then returned."""
    _unheeded[:] = [_cell()]


def forget() -> None:
    """Lets the next run start."""
    _unheeded.clear()


def pending() -> bool:
    """Whether Ctrl-C ended a run and nothing has been stopped by it since."""
    return _unheeded == [_cell()]


def stop_if_pending() -> None:
    """Raises `KeyboardInterrupt` where Ctrl-C ended the run before, once: whoever asks again means it."""
    stop = pending()
    forget()
    if stop:
        raise KeyboardInterrupt(
            "`solve` was not started: Ctrl-C ended the run before, which kept what it had reached. One Ctrl-C ends a loop of "
            "runs; to go on, call `solve` again."
        )


def _cell() -> int | None:
    """The number of the notebook's cell: who runs a new one has seen how the last one ended."""
    shell: Any = getattr(builtins, "get_ipython", None)
    return None if shell is None else shell().execution_count
