"""The benchmarks run; how fast is for `gpde bench` to say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpde.benchmarks
from gpde.benchmarks import BENCHMARKS, bench_clock

# A word that only the table of a benchmark has. Those of commands are runs of `gpde solve`, and take longest.
TABLES = {
    "between-points": "wrong: none",
    "consensus": "points per patch",
    "gallery": "nu =",
    "inverse": "covered",
    "march": "relative error",
    "full-batch": "run/factor",
    "gram": "closed form s",
    "adaptive": "added",
    "learning": "ratio",
    "hard-equations": "its own",
    "linear-solvers": "SuperLU",
    "mini-batch": "ours/LAPACK",
}
COMMANDS = {"methods": "to reach L2", "scaling": "exponent", "clock": "by the wall"}


def bench(*arguments, cwd, timeout=900):
    command = [sys.executable, "-c", "from gpde.cli import main; main()", "bench", *arguments]
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=timeout, env=environment)


@pytest.mark.parametrize("tables", [TABLES, COMMANDS], ids=["tables", "commands"])
def test_every_benchmark_prints_its_table(tables, tmp_path):
    finished = bench(*tables, "--quick", "--output", tmp_path, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    _, *printed = finished.stdout.split("───── ")
    assert len(printed) == len(tables)
    for name, text in zip((name for name in BENCHMARKS if name in tables), printed, strict=True):
        assert text.startswith(f"{name}: {BENCHMARKS[name]}")
        assert tables[name] in text
    drawn = {"gallery", "march", "methods", "scaling"} & set(tables)
    assert {file.name for file in tmp_path.iterdir()} == {name + end for name in drawn for end in (".png", ".json")}


def test_the_list_of_benchmarks_is_that_of_the_files():
    files = {path.stem for folder in gpde.benchmarks.__path__ for path in Path(folder).glob("bench_*.py")}
    names = {name.removeprefix("bench_").replace("_", "-") for name in files}
    assert names == set(BENCHMARKS) == {*TABLES, *COMMANDS}


def test_the_clock_shows_every_line_of_a_command():
    from gpde.solution.report import _PHASES

    assert (*_PHASES, "total") == bench_clock.PARTS


def test_an_unknown_benchmark_is_answered_with_those_there_are(tmp_path):
    finished = bench("grams", cwd=tmp_path)
    assert finished.returncode == 2
    assert "there is no benchmark 'grams'; there are methods, scaling, gallery" in finished.stderr


@pytest.mark.slow
def test_the_residual_between_the_points_tells_good_from_bad(tmp_path):
    assert "wrong: none" in bench("between-points", cwd=tmp_path, timeout=3600).stdout
