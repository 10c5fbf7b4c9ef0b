"""What does not fit into memory is refused before anything large is made; what there is, also inside a container."""

import functools
import subprocess
import sys
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import psutil
import pytest

from gpde.collocation.collocation import collocate
from gpde.domains import Box
from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.linalg import Schwarz
from gpde.machine import memory
from gpde.methods import Consensus, FullBatch, MiniBatch
from gpde.methods.base import Setup
from gpde.methods.full_batch import method as full_batch
from gpde.methods.full_batch.steps import Form
from gpde.operators import biharmonic, partial
from gpde.problem.problem import Problem
from gpde.solution._solve import default_method, solve

problem = functools.cache(get("elliptic").build)


def elliptic(num_interior: int, num_boundary: int) -> Setup:
    return Setup(collocate(problem(), problem().sample(num_interior, num_boundary)), (Gaussian(0.2),), 1e-10)


@pytest.mark.parametrize(
    ("gigabytes", "method", "num", "message"),
    [
        (20, FullBatch(), 200_000, r"full-batch on 202000 points needs about 19\d\d GB.*20 GB are free.* about 20000 points"),
        (20, FullBatch(constraints="eliminate"), 200_000, r"needs about 32\d\d GB.*`constraints=\"linearize\"`.*consensus"),
        (20, FullBatch(constraints="relax"), 200_000, r"needs about 19\d\d GB.*`method=gpde.Consensus\(\)`"),
        (2, None, 100_000, r"consensus on 102000 points needs about \d\.\d GB.* fits up to about \d+ points.*num_patches"),
        (2, Consensus(linear_solver="direct"), 100_000, r"needs about [2-4]\.\d GB.*`batch_size=\d\d` \(--batch-size"),
        (2, Consensus(linear_solver=Schwarz(coarse_ratio=2)), 100_000, r"needs about 1\d\d GB"),
        (20, MiniBatch(prediction="global"), 100_000, r"mini-batch on 102000 points needs about 19\d\d GB.*\"local\""),
        (4, MiniBatch(memory_budget=10_000), 100_000, r"needs about 22 GB.*A `memory_budget` of 1\d\d0 megabytes fits"),
        (0.1, MiniBatch(memory_budget=0), 100_000, r"needs about 0\.\d+ GB.*smaller `batch_size`"),
    ],
)
def test_what_cannot_fit_into_memory_is_refused_before_it_starts(monkeypatch, gigabytes, method, num, message):
    monkeypatch.setenv(memory.VARIABLE, str(gigabytes))
    before = psutil.Process().memory_info().rss
    with pytest.raises(ValueError, match=message):
        solve(problem(), method=method, num_interior=num, num_boundary=2000)
    assert psutil.Process().memory_info().rss - before < 1e9


@pytest.mark.parametrize("form", full_batch.FORMS)
def test_the_estimate_for_the_full_gp_is_what_xla_plans_for_its_step(form):
    setup, method = elliptic(500, 100), FullBatch(constraints=form)
    work = method.prepare(setup)
    state = method.init(work, None, 0)
    upper = jnp.zeros((state.latent.size,) * 2) if form == "eliminate" else None
    arrays = state.latent, state.weights, work.gram, work.scale, upper, jnp.zeros(())
    step: Any = full_batch.gauss_newton
    arguments = Form(form, None, 20), setup.collocation, arrays, jnp.asarray(1e-10), jnp.asarray(False), None
    compiled = step.lower(*arguments).compile()
    planned = compiled.compiled.memory_analysis()
    total = planned.argument_size_in_bytes + planned.output_size_in_bytes + planned.temp_size_in_bytes
    assert 0.9 * total < method.memory(setup) < 1.5 * total


def test_the_full_gp_is_not_chosen_where_it_does_not_fit(monkeypatch):
    setup = elliptic(3500, 900)
    for gigabytes, expected in (("8", FullBatch), ("0.9", Consensus)):
        monkeypatch.setenv(memory.VARIABLE, gigabytes)
        assert isinstance(default_method(setup.collocation, setup.kernels), expected)


def test_on_few_points_the_full_gp_is_chosen_however_many_operators_equations_have():
    def bending(w, f, x):
        return partial(w, 0, 0)(x) * partial(f, 1, 1)(x) + partial(w, 0, 1)(x) * partial(f, 0, 1)(x)

    equations = {
        "interior": [lambda w, f, x: biharmonic(w)(x) - bending(w, f, x), lambda w, f, x: biharmonic(f)(x) + w(x) ** 2]
    }
    problem = Problem(Box((0.0, 0.0), (1.0, 1.0)), equations, fields=("w", "f"))
    for num_points, expected in ((1500, FullBatch), (2500, Consensus)):
        collocation = collocate(problem, problem.sample(num_points))
        assert 8000 < collocation.functionals.size < 24000
        assert isinstance(default_method(collocation, (Gaussian(0.2), Gaussian(0.2))), expected)


def test_the_variable_for_memory_must_be_a_number(monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, "plenty")
    with pytest.raises(ValueError, match=r"GPDE_MEMORY_GB must be a number of gigabytes; came 'plenty'"):
        memory.available()


# --- what there is -----------------------------------------------------------------------------------------------------


def test_the_limits_of_a_container_count_in_both_versions_of_control_groups(tmp_path, monkeypatch):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.max").write_text("max\n")
    (tmp_path / "memory.max").write_text("4000000000\n")
    (tmp_path / "memory.current").write_text("1500000000\n")
    (tmp_path / "memory.stat").write_text("anon 7\nactive_file 300000000\ninactive_file 200000000\n")
    (tmp_path / "memory.swap.max").write_text("0\n")
    own = tmp_path / "cgroup"
    own.write_text("0::/job\n")
    assert memory.control_groups(tmp_path, own) == [memory.Group(4_000_000_000, 1_000_000_000, 0)]

    (tmp_path / "memory" / "job").mkdir(parents=True)
    (tmp_path / "memory" / "job" / "memory.limit_in_bytes").write_text("2000000000\n")
    (tmp_path / "memory" / "job" / "memory.usage_in_bytes").write_text("500000000\n")
    own.write_text("12:cpu,cpuacct:/elsewhere\n4:memory:/job\n")
    groups = memory.control_groups(tmp_path, own)
    assert groups == [memory.Group(2_000_000_000, 500_000_000, float("inf"))]

    monkeypatch.delenv(memory.VARIABLE, raising=False)
    monkeypatch.setattr(memory, "control_groups", lambda: groups)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(total=16e9, available=12e9))
    for swap, expected in ((0.0, 1.5e9), (3e9, 4.5e9)):
        monkeypatch.setattr(psutil, "swap_memory", lambda swap=swap: types.SimpleNamespace(free=swap))
        assert (memory.total_bytes(), memory.available()) == (2e9, expected)


def test_where_there_are_no_control_groups_the_machine_counts(tmp_path):
    assert memory.control_groups(tmp_path, tmp_path / "none") == []


def test_the_peak_is_known_without_the_module_of_unix(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_OWN_STATUS", tmp_path)  # no file, as elsewhere than on Linux
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows: importing it fails
    monkeypatch.setattr(
        psutil, "Process", lambda: types.SimpleNamespace(memory_info=lambda: types.SimpleNamespace(peak_wset=3 * 2**20))
    )
    assert memory.peak_mb() == 3.0


def test_the_peak_of_a_process_is_its_own_and_not_that_of_the_one_that_started_it():
    code = "from gpde.machine.memory import peak_mb; print(peak_mb())"
    held = np.ones(2**26)  # half a gigabyte, in this process
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 < float(run.stdout) < held.nbytes / 2**20
