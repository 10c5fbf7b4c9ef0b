"""The benchmarks run; how fast is for `gpde bench` to say."""

import json
import subprocess
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner

import gpde.benchmarks
from gpde.benchmarks import BENCHMARKS, bench_clock, bench_gram, commands
from gpde.cli.commands import app

# A word that only the table of a benchmark has.
TABLES = {
    "between-points": "wrong: none",
    "consensus": "points per patch",
    "gallery": "nu =",
    "statements": "estimate / error",
    "error-bars": "within 5 times",
    "inverse": "covered",
    "march": "relative error",
    "full-batch": "run/factor",
    "gram": "closed form s",
    "adaptive": "added",
    "learning": "ratio",
    "hard-equations": "its own",
    "linear-solvers": "SuperLU",
    "mini-batch": "ours/LAPACK",
    "methods": "to reach L2",
    "scaling": "exponent",
    "clock": "by the wall",
}
LONG = {"mini-batch", "gallery"}
DRAWN = {"gallery", "march", "methods", "scaling"}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def command_in_this_process(command, environment):
    """Stands for the process of a `gpde` command."""
    before = jax.config.values["jax_enable_compilation_cache"]
    finished = run(*command[3:])
    jax.config.update("jax_enable_compilation_cache", before)  # which `--no-cache` turned off, for its own process
    assert not isinstance(finished.exception, Exception), finished.exception
    return subprocess.CompletedProcess(command, finished.exit_code, finished.stdout, finished.stderr)


def report_in_proportion(command, environment):
    """Stands for the process of a `gpde` command, and tells of time and memory in proportion to its points and their square."""
    num_points = int(command[command.index("--num-interior") + 1])
    told = {
        "num_points": num_points,
        "seconds": dict.fromkeys(bench_clock.PARTS, num_points / 100),
        "peak_memory_mb": num_points**2,
        "errors": {"linf": 1e-3},
        "history": {"num_steps": 4},
    }
    return subprocess.CompletedProcess(command, 0, json.dumps(told), "")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in TABLES])
def test_every_benchmark_prints_its_table(name, tmp_path, monkeypatch):
    # Elsewhere each is a process of its own: `tests/cli/test_cli.py` asks for the report of one.
    stand_in = report_in_proportion if name in ("scaling", "clock") else command_in_this_process
    monkeypatch.setattr(commands, "run_process", stand_in)
    finished = run("bench", name, "--quick", "--output", tmp_path)
    assert finished.exit_code == 0, finished.stderr
    assert f"───── {name}: {BENCHMARKS[name]}" in finished.stdout
    assert TABLES[name] in finished.stdout
    assert {file.name for file in tmp_path.iterdir()} == {name + end for end in (".png", ".json") if name in DRAWN}


def test_exponents_of_growth_are_those_of_what_was_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "run_process", report_in_proportion)
    assert run("bench", "scaling", "--quick", "--output", tmp_path).exit_code == 0
    numbers = json.loads((tmp_path / "scaling.json").read_text(encoding="utf-8"))
    assert numbers["exponents"] == pytest.approx({"seconds": 1.0, "memory_mb": 2.0})


def test_several_benchmarks_run_in_the_order_of_the_list(monkeypatch):
    monkeypatch.setattr(bench_clock, "main", lambda quick: None)
    monkeypatch.setattr(bench_gram, "main", lambda quick: None)
    titles = [line.strip("─ ") for line in run("bench", "gram", "clock").stdout.splitlines()]
    assert titles == [f"{name}: {BENCHMARKS[name]}" for name in ("clock", "gram")]


def test_the_list_of_benchmarks_is_that_of_the_files():
    files = {path.stem for folder in gpde.benchmarks.__path__ for path in Path(folder).glob("bench_*.py")}
    names = {name.removeprefix("bench_").replace("_", "-") for name in files}
    assert names == set(BENCHMARKS) == set(TABLES)


def test_the_clock_shows_every_line_of_a_command():
    from gpde.solution.report import _PHASES

    assert (*_PHASES, "total") == bench_clock.PARTS


def test_an_unknown_benchmark_is_answered_with_those_there_are():
    finished = run("bench", "grams")
    assert finished.exit_code == 2
    assert "there is no benchmark 'grams'; there are methods, scaling, gallery" in finished.stderr


@pytest.mark.slow
def test_the_residual_between_the_points_tells_good_from_bad():
    assert "wrong: none" in run("bench", "between-points").stdout
