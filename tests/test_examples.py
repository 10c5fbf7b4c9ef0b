"""Every example runs, and finds what it says it finds."""

import os
import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# Data with noise 0.05 do not give more; patches of 24 or 32 points are small. The others are as good as their kernel.
LARGEST_ERROR = {
    "noisy_observations": 0.1,
    "from_mini_batch_to_consensus": 1e-3,
    "cover_of_patches": 1e-3,
    "unknown_viscosity": 1e-2,
    "regression_without_a_pde": 0.05,
    "unknown_permeability": 0.05,
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_its_solution_is_near_the_exact_one(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(path), run_name="__main__")
    solution, problem = names["solution"], names["problem"]
    points = problem.domain.test_points((7,) * problem.domain.dim)
    truth = np.array([np.ravel(problem.reference(x)) for x in jnp.asarray(points)])
    # NaN where a field does not live
    assert np.nanmax(np.abs(solution(points).reshape(truth.shape) - truth)) < LARGEST_ERROR.get(path.stem, 1e-4)
    assert "converged" in capsys.readouterr().out
    assert {Path(name).suffix for name in os.listdir()} <= {".png", ".npz"}


def test_there_are_examples():
    assert len(EXAMPLES) >= 15
    assert all(len(path.read_text().splitlines()) < 60 for path in EXAMPLES)
