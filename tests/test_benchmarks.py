"""The benchmarks run; how fast is for `make bench` to say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, timeout=300):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("between_points", "wrong: none"),
        ("full_batch", "SciPy"),
        ("gram", "Hessians"),
        ("linear_solvers", "SuperLU"),
        ("mini_batch", "plain port"),
    ],
)
def test_a_benchmark_prints_its_table(name, column):
    finished = run(name, "--quick")
    assert finished.returncode == 0, finished.stderr
    assert name in finished.stdout
    assert column in finished.stdout


def test_an_unknown_benchmark_is_answered_with_those_there_are():
    finished = run("grams")
    assert finished.returncode == 2
    assert "there is no benchmark 'grams'; there are between_points, consensus, full_batch, gram" in finished.stderr


@pytest.mark.slow
def test_the_residual_between_the_points_tells_good_from_bad():
    assert "wrong: none" in run("between_points", timeout=3600).stdout
