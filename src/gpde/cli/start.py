"""What a program of its own may set, and a library may not: double precision, idle threads, compiled programs that are kept."""

import contextlib
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from gpde.machine.wall_clock import WallClock

# Whether this process was started for one command alone: its time then counts from there.
own_process = False
# A program takes ten kilobytes to a megabyte: these are thousands of runs.
_MAX_BYTES = 500_000_000


def prepare_jax(*, cache: bool = True) -> None:
    """Call before anything else of JAX or SciPy. `cache`: whether compiled programs are kept for the next command."""
    # After each call the threads of OpenBLAS look for more work, for 2^26 ticks by default: twenty milliseconds of every core,
    # in which JAX computes the next matrix. 2^16 are enough to go from one part of a factorisation to the next.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    import jax

    if own_process:
        # Tracing makes many small objects and leaves little garbage: to look for it every 700 takes a tenth of a command.
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
    jax.config.update("jax_enable_x64", True)  # Gram matrices need it
    if not cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif jax.config.values["jax_compilation_cache_dir"] is None:  # else the user has chosen where they are kept
        keep_programs(programs_folder())


def clock() -> "WallClock":
    """The clock of a command, which runs."""
    from gpde.machine.wall_clock import WallClock, process_age

    return WallClock("start", process_age() if own_process else 0.0)


def leave(code: object) -> NoReturn:
    """Ends the process, at once: everything is written and closed, and there is nothing to put in order.

    The ordinary way takes JAX, its threads and thousands of modules apart first, up to a second in which the command has said
    its last word. Only for a process of our own: what others have registered with `atexit` is not called.
    """
    for stream in (sys.stdout, sys.stderr):
        # Whoever reads may be gone: `gpde problems | head -1`.
        with contextlib.suppress(OSError):
            stream.flush()
    if isinstance(code, str):  # `sys.exit("words")`
        os.write(2, f"{code}\n".encode())
    os._exit(code if isinstance(code, int) else int(code is not None))


def programs_folder() -> Path:
    """Where compiled programs are kept: a folder of the user's cache, which may be deleted at any time."""
    home = Path.home()
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        base = Path(chosen)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        base = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return base / "gpde" / "programs"


def keep_programs(folder: Path, max_bytes: int = _MAX_BYTES) -> None:
    """Has JAX keep every program it compiles in a folder, and look there first. Where it cannot write, nothing is kept."""
    import jax

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what lies there is run: nobody else may write to it
        trim(folder, max_bytes)
    except OSError:
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        return
    # Small ones too: a solve has fifty of them, and each takes longer to compile than to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # A disk that is full, or a program that another process is just writing: it is compiled, and there is nothing to do.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")


def trim(folder: Path, max_bytes: int) -> None:
    """Deletes what was not used for longest, until half of what is allowed is left. JAX does so itself only with filelock."""
    entries = [(entry, entry.stat()) for entry in os.scandir(folder) if entry.is_file()]
    left = sum(stat.st_size for _, stat in entries)
    if left <= max_bytes:
        return
    for entry, stat in sorted(entries, key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime)):
        if left <= max_bytes / 2:
            break
        Path(entry.path).unlink(missing_ok=True)
        left -= stat.st_size
