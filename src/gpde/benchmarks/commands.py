"""Runs of `gpde solve` in processes of their own, so that time and peak memory are that run's."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """What a benchmark leaves to be written: its numbers and a figure."""

    numbers: dict[str, Any]
    figure: "Figure"


def announce(text: str) -> None:
    """Says on standard error what runs now."""
    print(text, file=sys.stderr)


def report(arguments: Sequence[str]) -> dict[str, Any]:
    """The JSON report of `gpde solve` with these arguments, which compiles afresh and writes nothing."""
    return timed_report([*arguments, "--no-figure", "--no-save", "--no-cache"])[0]


def timed_report(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[dict[str, Any], float]:
    """The JSON report of `gpde solve`, and how long the command took by a clock outside it."""
    command = [sys.executable, "-c", "from gpde.cli import main; main()", "solve", *arguments, "--quiet", "--json", "-"]
    began = time.perf_counter()
    ended = run_process(command, {**os.environ, **(environment or {})})
    took = time.perf_counter() - began
    if ended.returncode == 2 or not ended.stdout:
        raise ValueError(f"`gpde solve {' '.join(arguments)}` failed: {ended.stderr.strip()[-300:]}")
    return json.loads(ended.stdout), took


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def figure_of(draw: Any) -> "Figure":
    """A figure of one panel, drawn by a function of its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw(figure.subplots())
    return figure
