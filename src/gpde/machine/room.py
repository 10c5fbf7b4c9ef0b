"""Room for compiled programs: each holds pieces of memory that the system maps for it, of which a process has so many."""

from pathlib import Path

import jax

# Of the pieces that a process may have: beyond this share, programs compiled so far are given up.
_FULL = 0.6
_LIMIT, _OWN = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def make_room() -> bool:
    """Forgets compiled programs where the system is about to run out of room for more, which would end the process: after some
    hundred different problems solved in one. Whether it did. Only Linux has such a limit, and tells it."""
    try:
        limit, used = int(_LIMIT.read_text()), _OWN.read_bytes().count(b"\n")
    except (OSError, ValueError):
        return False
    if used < _FULL * limit:
        return False
    jax.clear_caches()
    return True
