"""`make mutants`: every fault in a copy of the library, the likely tests first, then all of them where those find nothing.

A table says what found each fault. The exit code is 1 where more than one fault survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    arguments.add_argument("words", nargs="*", help="only the faults with one of these words in their name or file")
    arguments.add_argument("--workers", default="2", help="test processes at a time")
    options = arguments.parse_args()
    chosen = [f for f in FAULTS if not options.words or any(w in f"{f.name} {f.file}" for w in options.words)]
    survivors = []
    for number, fault in enumerate(chosen, start=1):
        start = time.perf_counter()
        found = found_by(fault, options.workers)
        if found is None:
            survivors.append(fault)
        line = f"{number:>3}  {time.perf_counter() - start:5.0f} s  {fault.file:<36}{fault.name:<56}"
        print(f"{line}{found or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults found")
    return int(len(survivors) > 1)


def found_by(fault: Fault, workers: str) -> str | None:
    """The first test that fails with the fault, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "results", ".pytest_cache", "__pycache__"))
        path = copy / "src" / "gpde" / fault.file
        path.write_text(faulty(path.read_text(encoding="utf-8"), fault), encoding="utf-8")
        likely = [f"tests/{part}" for part in fault.tests.split()]
        return failing_test(copy, likely, workers) or failing_test(copy, ["tests"], workers)


def faulty(source: str, fault: Fault) -> str:
    """The source with the fault in it."""
    if source.count(fault.right) != 1:
        raise ValueError(f"'{fault.name}': {fault.file} holds its place {source.count(fault.right)} times, not once.")
    return source.replace(fault.right, fault.wrong)


def failing_test(copy: Path, tests: list[str], workers: str) -> str | None:
    """The first of the tests that fails in a copy of the project."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", workers, "--dist", "worksteal", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    failed = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode and not failed:
        return f"(pytest ended with {run.returncode})"
    return failed[0] if failed else None


if __name__ == "__main__":
    sys.exit(main())
