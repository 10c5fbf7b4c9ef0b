"""Going on from an earlier run, in Python and from the command line; and what Ctrl-C leaves, in one run and in a loop."""

import builtins
import signal
import sys
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from gpde import methods
from gpde.cli import commands as cli
from gpde.collocation.collocation import collocate
from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.machine import interrupts
from gpde.methods import FullBatch, MiniBatch
from gpde.methods.base import Setup
from gpde.methods.full_batch import method as full_batch
from gpde.operators import partial
from gpde.outcomes import Outcome
from gpde.problem.problem import Problem
from gpde.solution._solve import continuation, solve
from gpde.solution.solution import Solution, load


def exact(x):
    return jnp.sin(3 * x[0])


def cubic(strength: float = 1.0) -> Problem:
    def equation(u, x):
        return -partial(u, 0, 0)(x) + strength * (u(x) ** 3 - exact(x) ** 3) - 9 * exact(x)

    return Problem(Box(0, 1), {"interior": equation, "boundary": lambda u, x: u(x) - exact(x)}, reference=exact)


PROBLEM, KERNEL, FINE = cubic(), Gaussian(0.3), np.linspace(0, 1, 101)[:, None]
SIZES: dict[str, Any] = {"num_interior": 20, "num_boundary": 2, "seed": 1}


def mini(num_steps: int, problem: Problem = PROBLEM, **arguments) -> Solution:
    # The paper's metric, whose weights grow with the number of steps; those of anchored batches are in test_anchored.py.
    settings: dict[str, Any] = {"proximal_metric": "gram-diagonal", "replacement": True}
    settings |= {name: arguments.pop(name) for name in ("proximal_weight", "replacement") if name in arguments}
    arguments = {"kernel": KERNEL, **arguments}
    return solve(problem, method=MiniBatch(batch_size=8, num_steps=num_steps, **settings), **arguments)


def error(solution: Solution) -> float:
    return float(np.sqrt(np.mean((solution(FINE) - np.sin(3 * FINE[:, 0])) ** 2)))


@pytest.fixture(scope="module")
def short() -> Solution:
    return mini(100, **SIZES)


# --- going on ----------------------------------------------------------------------------------------------------------


def test_two_runs_one_after_the_other_are_as_good_as_one_with_the_steps_of_both():
    half, whole = mini(2000, **SIZES), mini(4000, **SIZES)
    both = mini(2000, **SIZES, initial=half)
    # What there was before: the function of the first run as a start, with weights from the smallest on.
    anew = mini(2000, **SIZES, initial=half, proximal_weight=f"geometric(1e2, {220 * (2000 * 8 / 22) ** 2})")
    assert "went on after 2000 earlier steps" in str(both.result)
    assert error(both) < 1.3 * error(whole)
    assert error(both) < 0.1 * error(half)
    assert error(both) < 0.1 * error(anew)


def test_with_a_given_weight_two_runs_give_the_bits_of_one():
    settings = {"proximal_weight": 1e4, "replacement": False, **SIZES}
    first = mini(60, **settings)
    np.testing.assert_array_equal(mini(40, **settings, initial=first).latent, mini(100, **settings).latent)


def test_a_file_is_gone_on_with_as_well_and_a_third_run_counts_both(short, tmp_path):
    short.save(tmp_path / "short.npz")
    both = mini(50, **SIZES, initial=short)
    again = mini(50, **SIZES, initial=load(tmp_path / "short.npz"))
    np.testing.assert_array_equal(both.latent, again.latent)
    assert again.resume.num_steps == 150
    assert "went on after 150 earlier steps" in str(mini(10, **SIZES, initial=again).result)


def test_without_a_word_about_points_those_of_the_earlier_run_are_taken(short):
    both = mini(50, initial=short)
    np.testing.assert_array_equal(both.points["interior"], short.points["interior"])
    assert both.settings["seed"] == 1
    assert "went on after 100 earlier steps" in str(both.result)


@pytest.mark.parametrize(
    ("problem", "num_interior", "kernel", "reason"),
    [
        (PROBLEM, 19, KERNEL, "it was solved on other points"),
        (cubic(1.001), 20, KERNEL, "it solves other equations"),
        (PROBLEM, 20, Gaussian(0.31), "it has another kernel"),
    ],
)
def test_a_run_of_another_problem_is_not_gone_on_with(short, problem, num_interior, kernel, reason):
    collocation = collocate(problem, problem.sample(num_interior, 2, seed=1))
    found = (other := MiniBatch(batch_size=8)).resumed(other.prepare(Setup(collocation, (kernel,), 1e-10)), short.resume, 1)
    assert isinstance(found, str)
    assert reason in found


def test_a_solution_of_another_problem_is_a_start_with_weights_anew_and_the_result_says_so(short):
    found = mini(50, **SIZES, kernel=Gaussian(0.31), initial=short)
    assert "started from `initial` anew, without its weights: it has another kernel" in str(found.result)
    assert found.resume.num_steps == 50


def test_the_full_gp_starts_from_a_mini_batch_solution_as_from_any_other(short):
    found = solve(PROBLEM, KERNEL, method=FullBatch(), **SIZES, initial=short)
    assert found.result.notes == ()
    assert error(found) < 1e-3


# --- from the command line ---------------------------------------------------------------------------------------------

FAST = ("elliptic", "--num-interior", "30", "--num-boundary", "16", "--no-figure")


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("method", ["full-batch", "mini-batch", "consensus"])
def test_every_method_is_given_the_solution_in_a_file_to_start_from(short, method, tmp_path, monkeypatch):
    def solve(problem, kernel, **arguments):
        np.testing.assert_array_equal(arguments["initial"].latent, short.latent)
        raise ValueError(f"started {arguments['method'].name}")

    short.save(tmp_path / "short.npz")
    monkeypatch.setattr(sys.modules["gpde.solution._solve"], "solve", solve)
    result = run("solve", *FAST, "--method", method, "--initial", tmp_path / "short.npz")
    assert f"started {method}" in result.stderr


def test_the_command_line_starts_from_a_file(tmp_path):
    assert run("solve", *FAST, "--output", tmp_path).exit_code == 0
    again = run("solve", *FAST, "--output", tmp_path, "--initial", tmp_path / "solution.npz")
    assert again.exit_code == 0, again.output
    assert "(1 step)" in again.stdout


def test_a_file_that_cannot_be_started_from_is_refused_in_words(short, tmp_path):
    short.save(tmp_path / "line.npz")
    for name, message in (("none.npz", "there is no file"), ("line.npz", "fields u of 1 coordinates, the problem u of 2")):
        result = run("solve", *FAST, "--initial", tmp_path / name, "--output", tmp_path)
        assert result.exit_code == 2
        assert message in result.stderr.replace("\n", " ")


# --- Ctrl-C ------------------------------------------------------------------------------------------------------------


def interrupt_at(step: int):
    def callback(progress):
        if progress.num_steps == step:
            signal.raise_signal(signal.SIGINT)

    return callback


def test_one_interrupt_ends_a_loop_of_solves_and_asking_again_goes_on():
    found = []
    with pytest.raises(KeyboardInterrupt, match="`solve` was not started"):  # noqa: PT012 - a loop is what it is about
        for _ in range(4):
            found.append(solve(PROBLEM, KERNEL, **SIZES, callback=interrupt_at(1)))
    assert [solution.result.outcome for solution in found] == [Outcome.INTERRUPTED]
    assert np.isfinite(found[0](FINE)).all()
    assert solve(PROBLEM, KERNEL, **SIZES, initial=found[0]).result.outcome is Outcome.CONVERGED


def test_a_continuation_returns_what_it_has_when_interrupted():
    found = continuation(cubic, [0.5, 1.0, 2.0], kernel=KERNEL, **SIZES, callback=interrupt_at(2))
    assert [solution.result.outcome for solution in found] == [Outcome.INTERRUPTED]


def test_a_callback_that_stops_a_run_is_no_interrupt():
    stop = {"callback": lambda progress: progress.num_steps == 1}
    found = continuation(cubic, [0.5, 1.0], kernel=KERNEL, **SIZES, **stop)
    assert [solution.result.outcome for solution in found] == [Outcome.INTERRUPTED] * 2


def test_a_new_cell_of_a_notebook_is_not_held_up(monkeypatch):
    shell = types.SimpleNamespace(execution_count=7)
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    interrupts.remember()
    assert interrupts.pending()
    shell.execution_count = 8
    interrupts.stop_if_pending()  # raises nothing


def test_an_interrupt_while_the_function_is_made_keeps_the_steps(monkeypatch):
    expected, make, calls = solve(PROBLEM, KERNEL, **SIZES), FullBatch.predictor, []

    def predictor(self, setup, state):
        calls.append(state)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return make(self, setup, state)

    monkeypatch.setattr(FullBatch, "predictor", predictor)
    found = solve(PROBLEM, KERNEL, **SIZES)
    assert found.result.outcome is Outcome.INTERRUPTED
    np.testing.assert_array_equal(found(FINE), expected(FINE))


def test_a_second_interrupt_while_the_function_is_made_goes_through(monkeypatch):
    monkeypatch.setattr(FullBatch, "predictor", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        solve(PROBLEM, KERNEL, **SIZES)


def test_interrupted_while_its_first_step_compiles_a_run_keeps_the_solution_it_started_from(short, monkeypatch):
    monkeypatch.setattr(full_batch, "gauss_newton", lambda *_: signal.raise_signal(signal.SIGINT))
    found = solve(PROBLEM, KERNEL, method=FullBatch(), **SIZES, initial=short)
    assert (found.result.outcome, found.result.num_steps) == (Outcome.INTERRUPTED, 0)
    np.testing.assert_array_equal(found(FINE), short(FINE))


def test_interrupted_before_the_first_step_the_command_line_writes_nothing(tmp_path, monkeypatch):
    (tmp_path / "solution.npz").write_text("of another run")
    monkeypatch.setattr(methods.FullBatch, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    result = run("solve", *FAST, "--output", tmp_path)
    assert result.exit_code == 130
    assert "before the first step; nothing was written" in result.stderr
    assert (tmp_path / "solution.npz").read_text() == "of another run"
