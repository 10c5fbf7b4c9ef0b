"""How much memory a run may still take, of the machine or of the container it runs in, and how much this process has taken."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

# Says how many gigabytes to count on, whatever the machine says: for machines whose swap grows as it is used, and for tests.
VARIABLE = "GPDE_MEMORY_GB"
_CGROUPS, _OWN_CGROUP, _OWN_STATUS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/self/status")


class Group(NamedTuple):
    """A control group with a limit, in bytes: how much its processes may hold and do hold, and how much they may swap."""

    limit: int
    used: int
    swap: float


def total_bytes() -> int:
    """Bytes of memory that this process may hold."""
    return min([psutil.virtual_memory().total, *(group.limit for group in control_groups())])


def available() -> float:
    """Bytes that this process may still take: free memory and free swap, within the limits of its container.

    Swap counts: what fits into both is slow, but it runs.
    """
    told = os.environ.get(VARIABLE)
    if told:
        try:
            return float(told) * 1e9
        except ValueError:
            raise ValueError(f"the environment variable {VARIABLE} must be a number of gigabytes; came {told!r}.") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the system does not say how much was swapped, which nobody asks here
        swap = psutil.swap_memory().free
    free = float(psutil.virtual_memory().available + swap)
    return min([free, *(max(0, group.limit - group.used) + min(swap, group.swap) for group in control_groups())])


def peak_mb() -> float:
    """The most memory this process has held."""
    if _OWN_STATUS.is_file():  # Linux, where `resource` counts what the process that started this one has held, too
        rows = dict(line.split(":", 1) for line in _OWN_STATUS.read_text().splitlines() if ":" in line)
        if "VmHWM" in rows:
            return round(int(rows["VmHWM"].split()[0]) / 2**10, 1)
    try:
        import resource
    except ImportError:  # Windows
        return round(getattr(psutil.Process().memory_info(), "peak_wset") / 2**20, 1)  # noqa: B009 - of Windows alone
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def control_groups(root: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> list[Group]:
    """The limits that Linux sets to this process and the containers around it, which psutil does not know."""
    return [group for folder in _folders(root, own) if (group := _group(folder)) is not None]


def _folders(root: Path, own: Path) -> Iterator[Path]:
    """The folders of the process's group and of those around it, in version 2 and in version 1."""
    lines = own.read_text().splitlines() if own.is_file() else []
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers in ("", "memory"):
            top = root / controllers
            # Inside a container the path may be one that only its host can see: the top is then the group itself.
            inner = top / path.strip("/")
            yield top
            yield from (folder for folder in (inner, *inner.parents) if folder != top and folder.is_relative_to(top))


def _group(folder: Path) -> Group | None:
    limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
    used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    stat = folder / "memory.stat"
    rows = dict(line.split() for line in stat.read_text().splitlines() if line.count(" ") == 1) if stat.is_file() else {}
    # Files that were read count as used, and are dropped when the memory is needed.
    files = sum(int(rows.get(name, 0)) for name in ("active_file", "inactive_file"))
    most, swapped = _number(folder / "memory.swap.max"), _number(folder / "memory.swap.current")
    return Group(limit, max(0, used - files), float("inf") if most is None else max(0, most - (swapped or 0)))


def _number(*files: Path) -> int | None:
    """What the first of the files that exists holds; None where that is no number ("max")."""
    text = next((file.read_text().strip() for file in files if file.is_file()), "")
    return int(text) if text.isdigit() else None
