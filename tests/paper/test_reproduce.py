"""The paper's experiments, at sizes that take seconds: what they compute, write and refuse."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from gpde.cli import commands as cli
from gpde.collocation.collocation import collocate
from gpde.functionals.functionals import gram
from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.methods import FullBatch, MiniBatch
from gpde.methods.base import Setup
from gpde.paper import EXPERIMENTS, batch_sizes, burgers, continuation, convergence, elliptic, elliptic_batch_sizes
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values

TINY_ELLIPTIC = elliptic.Settings(num_interior=60, num_boundary=24, batch_size=12, num_steps=40, weights=(1.0, 1e4))
# Points and batches of the same number, so that both share what is compiled.
TINY_BATCH_SIZES = dataclasses.replace(
    elliptic_batch_sizes.FULL, num_interior=60, num_boundary=24, batch_sizes=(6, 12), num_steps=40, realizations=2,
    anchored_factor=2,
)  # fmt: skip


@contextlib.contextmanager
def unwatched(what: str) -> Iterator[None]:
    del what
    yield None


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)])


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny run of `gpde reproduce elliptic --quick`, and the folder it wrote to."""
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elliptic, "QUICK", TINY_ELLIPTIC)
        result = run("elliptic", "--quick", "--num-steps", 30, "--seed", 2, "--output", folder)
    assert result.exit_code == 0, result.output
    return result, folder, json.loads((folder / "numbers.json").read_text(encoding="utf-8"))


# --- the command


def test_an_experiment_writes_a_figure_and_its_numbers_and_prints_a_table(reproduced):
    result, folder, numbers = reproduced
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert [line.split("  ")[0] for line in result.stdout.splitlines() if "e-0" in line or "e+0" in line] == list(
        numbers["cases"]
    )
    assert list(numbers["cases"]) == ["γ/λ = 1", "γ/λ = 10000", "anchored", "full GP"]
    errors = {label: case["errors"]["l2"] for label, case in numbers["cases"].items()}
    assert errors[f"γ/λ = {numbers['best_weight']:g}"] == min(errors["γ/λ = 1"], errors["γ/λ = 10000"])


def test_flags_replace_single_settings(reproduced):
    _, _, numbers = reproduced
    settings = numbers["cases"]["γ/λ = 1"]["settings"]
    assert (settings["num_steps"], settings["batch_size"], settings["proximal_weight"]) == (30, 12, 1.0)
    # One averaged loss for every ten steps.
    assert len(numbers["cases"]["γ/λ = 1"]["averaged_losses"]) == 3
    assert numbers["seed"] == 2


def test_the_full_gp_of_an_experiment_is_that_of_solve_on_the_same_points(reproduced):
    _, _, numbers = reproduced
    problem = get("elliptic").build()
    points = {part: np.array(where) for part, where in numbers["points"].items()}
    solution = solve(problem, points=points, method=FullBatch())
    grid = problem.domain.grid((100, 100))
    truth = reference_values(problem, grid)
    assert truth is not None
    error = np.abs(solution(grid) - truth[:, 0])
    np.testing.assert_allclose(numbers["cases"]["full GP"]["errors"]["linf"], error.max(), rtol=1e-6)
    np.testing.assert_allclose(numbers["cases"]["full GP"]["pointwise_errors"], error, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eliptic"], "Did you mean 'elliptic'?"),
        (["elliptic", "--viscosity", "0.1"], "`elliptic` has no setting `viscosity`"),
        (["convergence", "--batch-size", "7"], "it takes num_steps, realizations"),
        (["burgers", "--viscosity", "-1", "--quick"], "`viscosity` is finite and above zero"),
        (["batch-sizes", "--realizations", "0"], "`realizations` must be a whole number >= 1"),
    ],
)
def test_a_bad_request_ends_with_code_2_and_a_sentence(arguments: list[str], message: str, tmp_path: Path):
    result = run(*arguments, "--output", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


def test_every_experiment_has_its_settings():
    for module, name in (
        (elliptic, "elliptic"),
        (burgers, "burgers"),
        (batch_sizes, "batch-sizes"),
        (elliptic_batch_sizes, "elliptic-batch-sizes"),
        (continuation, "continuation"),
        (convergence, "convergence"),
    ):
        for settings in (module.FULL, module.QUICK):
            assert set(EXPERIMENTS[name].settings) <= {field.name for field in dataclasses.fields(settings)}


def test_the_defaults_are_the_settings_of_the_paper():
    first, second, third = elliptic.FULL, burgers.FULL, batch_sizes.FULL
    assert (first.num_interior + first.num_boundary, first.num_interior, first.batch_size) == (1200, 900, 64)
    assert (first.num_steps, first.max_inner_steps) == (40_000, 30)
    assert (second.num_interior + second.num_boundary, second.num_interior, second.batch_size) == (2400, 2000, 75)
    assert (second.max_inner_steps, second.viscosity) == (100, 0.2)
    assert (third.num_interior, third.num_boundary, third.batch_sizes, third.realizations) == (2000, 400, (75, 150, 300), 10)
    # The paper's kernels at one pair of points: exp(-|r|²/2σ²), and exp(-dt²/σ₁² - dx²/σ₂²) without the ½.
    x, y = np.array([0.1, 0.2]), np.array([0.2, 0.23])
    kernels = [get(name).build().defaults.kernel for name in ("elliptic", "burgers")]
    expected = [np.exp(-(0.1**2 + 0.03**2) / (2 * 0.2**2)), np.exp(-(0.1**2) / 0.3**2 - 0.03**2 / 0.05**2)]
    for kernel, value in zip(kernels, expected, strict=True):
        assert isinstance(kernel, Gaussian)
        np.testing.assert_allclose(np.exp(-0.5 * np.sum(((x - y) / kernel.lengthscale) ** 2)), value, rtol=1e-12)
    assert [get(name).build().defaults.nugget for name in ("elliptic", "burgers")] == [1e-13, 1e-10]


# --- batch sizes


@pytest.fixture(scope="module")
def sized() -> Any:
    return batch_sizes.run(TINY_BATCH_SIZES, 5, unwatched)


def test_every_batch_size_gives_each_point_as_many_visits():
    settings = batch_sizes.FULL
    visits = {size: size * batch_sizes.num_steps(settings, size) for size in settings.batch_sizes}
    assert len(set(visits.values())) == 1


def test_batch_sizes_average_errors_point_by_point_over_realisations(sized):
    for size, runs in sized.numbers["batch_sizes"]["gram-diagonal"].items():
        averaged = np.array(runs["pointwise_errors"])
        assert averaged.shape == (84,)
        np.testing.assert_allclose(runs["averaged_error"]["l2"], np.sqrt(np.mean(averaged**2)))
        # The error of the mean is at most the mean of the errors, and realisations differ.
        assert runs["averaged_error"]["l2"] <= np.mean(runs["l2_of_realizations"]) * (1 + 1e-12)
        assert len(set(runs["l2_of_realizations"])) == TINY_BATCH_SIZES.realizations
        assert runs["averaged_final_loss"] == runs["averaged_losses"][-1]
        assert len(runs["averaged_losses"]) == batch_sizes.num_steps(TINY_BATCH_SIZES, int(size)) // 10


def test_either_metric_runs_every_batch_size_and_anchored_batches_take_more_steps(sized):
    found = sized.numbers["batch_sizes"]
    assert {metric: list(sizes) for metric, sizes in found.items()} == {"gram-diagonal": ["6", "12"], "anchored": ["6", "12"]}
    steps = {metric: [runs["num_steps"] for runs in sizes.values()] for metric, sizes in found.items()}
    assert steps == {"gram-diagonal": [40, 20], "anchored": [80, 40]}


def test_batch_sizes_of_the_elliptic_equation_are_those_of_the_papers_figure():
    settings = elliptic_batch_sizes.FULL
    assert (settings.statement().name, settings.batch_sizes, settings.realizations) == ("elliptic", (12, 24, 48), 10)
    assert settings.num_interior + settings.num_boundary == 1200


def test_continuation_goes_on_from_the_viscosity_before(monkeypatch):
    settings = continuation.Settings(num_interior=60, num_boundary=30, batch_size=12, num_steps=30, viscosities=(0.3, 0.2))
    asked = []

    def full_gp(problem, *, method, initial=None, **arguments):
        """Who starts where is what counts here: all by the full GP, with losses as batches would have them."""
        found = solve(problem, method=FullBatch(), initial=initial, **arguments)
        found = dataclasses.replace(found, history=[{"averaged_losses": np.arange(1.0, 31.0)}])
        asked.append((method, initial, found))
        return found

    monkeypatch.setattr(continuation, "solve", full_gp)
    numbers = continuation.run(settings, 1, unwatched).numbers
    told = ["ν = 0.3", "ν = 0.2, from the one before", "ν = 0.2, from its own start", "ν = 0.2, full GP"]
    assert list(numbers["runs"]) == told
    methods, starts, solutions = zip(*asked, strict=True)
    assert methods[:3] == (MiniBatch(batch_size=12, num_steps=30, max_inner_steps=100),) * 3
    assert isinstance(methods[3], FullBatch)
    assert starts[0] is starts[2] is starts[3] is None
    assert starts[1] is solutions[0]
    for viscosity, label, found in zip((0.3, 0.2, 0.2, 0.2), told, solutions, strict=True):
        problem = get("burgers").build(viscosity=viscosity)
        truth = reference_values(problem, grid := error_points(problem))
        assert truth is not None
        expected = np.abs(found(grid) - truth[:, 0]).max()
        assert numbers["runs"][label]["errors"]["linf"] == pytest.approx(expected, rel=1e-6)


def test_errors_at_points_are_those_of_the_latent_values_u():
    problem = get("burgers").build(viscosity=0.1)
    points = problem.sample(20, 12, seed=1)
    collocation, truth = collocate(problem, points, "derivatives"), problem.reference
    assert truth is not None
    # Every latent value of the truth, all a thousandth too high; u is one of them at every point.
    shifted = np.asarray(collocation.measure((truth,)) + 1e-3)
    np.testing.assert_allclose(batch_sizes.errors_at_points(problem, collocation, shifted), 1e-3, rtol=1e-9)


# --- convergence


def test_the_squared_gradient_on_a_linear_equation_is_that_of_its_normal_equations():
    r"""For $f(z) = Bz$: $(\lambda(K + \lambda N/\beta)^{-1} + B^TB/N + \rho)\hat z = B^Ty/N + \rho z$."""
    lam, beta, rho = 0.02, 3.0, 0.4
    problem, kernel = get("poisson").build(), Gaussian(0.3)
    collocation = collocate(problem, problem.sample(14, 8, seed=3))
    num = collocation.num_points
    setup = Setup(collocation, (kernel,), 1e-12, problem.fields, tuple(problem.domain.coordinates))
    method = MiniBatch(
        batch_size=num, regularization=lam, slack_weight=beta, proximal_metric="identity", constraints="relax", num_steps=1
    )
    proximal = method.problem(setup, carried=False)
    batch = eqx.filter_jit(proximal.batch)(jnp.arange(num), jnp.asarray(lam * num / beta), jnp.asarray(rho))
    latent = np.random.default_rng(0).normal(size=collocation.functionals.size)
    found = convergence.squared_gradient(proximal, batch, proximal.table.gather(jnp.asarray(latent)), jnp.asarray(rho))

    @jax.jit
    def residuals(z: jax.Array) -> jax.Array:
        return jax.vmap(lambda one: proximal.residual(jnp.arange(num), proximal.table.gather(one)).ravel())(z)

    minus_y, *columns = np.asarray(residuals(jnp.asarray(np.vstack([np.zeros_like(latent), np.eye(len(latent))]))))
    b = np.stack(columns, axis=1) - minus_y[:, None]
    covariance = np.asarray(gram((kernel,), collocation.functionals)) + lam * num / beta * np.eye(len(latent))
    matrix = lam * np.linalg.inv(covariance) + b.T @ b / num + rho * np.eye(len(latent))
    nearest = np.linalg.solve(matrix, -b.T @ minus_y / num + rho * latent)
    np.testing.assert_allclose(found, rho**2 * np.sum((latent - nearest) ** 2), rtol=1e-8)


@pytest.mark.slow
def test_the_gradient_falls_along_a_run_and_its_mean_is_that_of_the_theorem():
    settings = convergence.Settings(num_interior=24, num_boundary=12, batch_sizes=(12, 36), num_steps=600, realizations=1)
    numbers = convergence.run(settings, 0, unwatched).numbers
    for curve in numbers["batch_sizes"].values():
        squares = np.array(curve["squared_gradients"])
        assert squares[-1] < 0.1 * squares[0]
        assert curve["mean_over_first_steps"][-1] == pytest.approx(squares.mean())
    # A batch of all points has no statistical error: its floor is the lower one.
    floors = [curve["mean_over_second_half"] for curve in numbers["batch_sizes"].values()]
    assert floors[1] < floors[0]
