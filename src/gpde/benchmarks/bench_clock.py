"""Where the seconds of `gpde solve` go: the first time, when it compiles, and the second, when it finds what was compiled."""

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import announce, timed_report

PARTS = ("start", "compile", "run", "prediction", "files", "picture", "total")


def main(quick: bool = False) -> None:
    """Prints the lines of the command's own clock, and beside their total the time by a clock outside it."""
    problems = ("elliptic",) if quick else ("elliptic", "burgers")
    sizes = ("--num-interior", "60", "--num-boundary", "20") if quick else ()
    methods: list[tuple[str, ...]] = [("full-batch",)]
    if not quick:
        methods += [("mini-batch", "--num-steps", "500"), ("consensus",)]
    table = Table(title="seconds of `gpde solve`")
    for column in ("problem", "method", "time", *PARTS, "by the wall"):
        table.add_column(column, justify="left" if column in ("problem", "method", "time") else "right")
    for problem in problems:
        for method, *settings in methods:
            with tempfile.TemporaryDirectory() as folder:
                environment = {
                    "JAX_COMPILATION_CACHE_DIR": str(Path(folder) / "programs"),
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
                }
                for time in ("first", "second"):
                    announce(f"{problem}, {method}, the {time} time")
                    arguments = [problem, "--method", method, *settings, *sizes, "--output", folder]
                    report, took = timed_report(arguments, environment)
                    seconds = [f"{report['seconds'][part]:.2f}" for part in PARTS]
                    table.add_row(problem, method, time, *seconds, f"{took:.2f}")
    Console(width=140).print(table)
