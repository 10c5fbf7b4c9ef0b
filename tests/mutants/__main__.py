"""`make mutants`: every fault in a copy of the library, the likely tests first, then all of them where those find nothing.

A table says what found each fault. The exit code is 1 where more than one in thirty survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
# The copy is tested as the project is, but for this study itself, which would find every fault, and for the checks of types,
# which take longer to load than most faults to find.
_OPTIONS = "addopts=--benchmark-disable -m 'not slow'"
_COMMAND = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--ignore", "tests/mutants", "-o", _OPTIONS)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    arguments.add_argument("words", nargs="*", help="only the faults with one of these words in their name or file")
    arguments.add_argument("--workers", default="2", help="test processes at a time, where all tests are run")
    arguments.add_argument("--likely", action="store_true", help="only the likely tests of each fault")
    options = arguments.parse_args()
    chosen = [f for f in FAULTS if not options.words or any(w in f"{f.name} {f.file}" for w in options.words)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "project")
        for number, fault in enumerate(chosen, start=1):
            start = time.perf_counter()
            found = found_by(fault, copy, options.workers, all_tests=not options.likely)
            if found is None:
                survivors.append(fault)
            line = f"{number:>3}  {time.perf_counter() - start:5.0f} s  {fault.file:<36}{fault.name:<62}"
            print(f"{line}{found or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults found")
    return int(len(survivors) > max(1, len(chosen) // 30))


def copied(copy: Path) -> Path:
    """A copy of the project to put faults into."""
    ignored = shutil.ignore_patterns(".venv", ".git", "results", ".*_cache", "__pycache__", ".hypothesis")
    return Path(shutil.copytree(ROOT, copy, ignore=ignored))


def found_by(fault: Fault, copy: Path, workers: str, *, all_tests: bool = True) -> str | None:
    """The first test that fails with the fault, or None."""
    path = copy / "src" / "gpde" / fault.file
    right = path.read_text(encoding="utf-8")
    path.write_text(faulty(right, fault), encoding="utf-8")
    likely = [f"tests/{part}" for part in fault.tests.split()]
    try:
        found = failing_test(copy, likely)
        return failing_test(copy, ["tests", "-n", workers, "--dist", "loadfile"]) if found is None and all_tests else found
    finally:
        path.write_text(right, encoding="utf-8")


def faulty(source: str, fault: Fault) -> str:
    """The source with the fault in it."""
    if source.count(fault.right) != 1:
        raise ValueError(f"'{fault.name}': {fault.file} holds its place {source.count(fault.right)} times, not once.")
    return source.replace(fault.right, fault.wrong)


def failing_test(copy: Path, tests: Sequence[str]) -> str | None:
    """The first of the tests that fails in a copy of the project."""
    programs = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "programs"))
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "JAX_COMPILATION_CACHE_DIR": programs}
    run = subprocess.run([*_COMMAND, *tests], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    failed = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode and not failed:
        return f"(pytest ended with {run.returncode})"
    return failed[0] if failed else None


if __name__ == "__main__":
    sys.exit(main())
