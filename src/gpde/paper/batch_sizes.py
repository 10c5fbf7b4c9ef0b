"""Figure 3: Burgers' equation with batches of several sizes, averaged over realisations (paper, Sec. 4.2).

Each size is run with the paper's metric and with anchored batches. All realisations share their points and differ in the
batches drawn, so that a pointwise error can be averaged point by point. It is that of the latent values u at the points, which
are all the method computes: see the end of Remark 2.2.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpde.collocation.collocation import Collocation, collocate
from gpde.collocation.point_table import point_table
from gpde.equations.linear_operators import point_value
from gpde.gallery import get
from gpde.machine.timing import CompileClock
from gpde.methods import MiniBatch
from gpde.methods.base import Setup, check_count
from gpde.methods.mini_batch.schedules import Weight
from gpde.methods.run import Progress
from gpde.methods.run import run as run_steps
from gpde.paper import panels
from gpde.paper.base import Reproduction, Watch, columns
from gpde.paper.single_run import averaged_losses, root_mean_square
from gpde.problem.problem import PointsByPart, Problem
from gpde.solution._solve import chosen_kernels
from gpde.solution.errors import reference_values
from gpde.solution.report import strict

# The paper's metric and independent draws; anchored batches, which are the default.
_METRICS: Mapping[str, Mapping[str, Any]] = {
    "gram-diagonal": {"proximal_metric": "gram-diagonal", "replacement": True},
    "anchored": {},
}
_SHORT = {"gram-diagonal": "paper's", "anchored": "anchored"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's, where no other source is named. Kernel and nugget are those of the gallery, which are the paper's too."""

    problem: str = "burgers"
    functionals: str = "derivatives"  # u, u_t, u_x, u_xx
    num_interior: int = 2000
    num_boundary: int = 400
    batch_sizes: tuple[int, ...] = (75, 150, 300)
    # Ours, for the smallest batches: the paper does not say. Larger ones take fewer steps, so that all see each point as often.
    num_steps: int = 2_000
    max_inner_steps: int = 100
    viscosity: float | int = 0.02  # that of the paper's references; it prints 0.2
    realizations: int = 10
    proximal_weight: Weight | None = None  # the method's growing weights; the paper has 1
    # Anchored batches go by sweeps over all points, and only begin where the paper's metric has long come to its floor.
    anchored_factor: int = 6

    def __post_init__(self) -> None:
        for name in ("num_steps", "realizations", "anchored_factor"):
            check_count("batch-sizes", name, getattr(self, name), 1)

    def statement(self) -> Problem:
        entry = get(self.problem)
        return entry.build(**{name: getattr(self, name) for name in entry.parameters if hasattr(self, name)})


FULL = Settings()
QUICK = Settings(num_interior=500, num_boundary=120, batch_sizes=(20, 40, 80), num_steps=400, realizations=2)


class Realization(NamedTuple):
    """Steps taken, the loss of every ten, the error at the points, and seconds without those of compiling."""

    num_steps: int
    losses: Float[np.ndarray, " windows"]
    error: Float[np.ndarray, " points"]
    seconds: float


class Realizations(NamedTuple):
    """All realisations with one metric and batch size: their steps, the loss of every ten, and the error at the points."""

    metric: str
    batch_size: int
    num_steps: int
    losses: Float[np.ndarray, "realizations windows"]
    errors: Float[np.ndarray, "realizations points"]
    seconds: float

    @property
    def label(self) -> str:
        return f"M = {self.batch_size}, {_SHORT[self.metric]}"

    @property
    def averaged_error(self) -> Float[np.ndarray, " points"]:
        return self.errors.mean(axis=0)

    @property
    def averaged_losses(self) -> Float[np.ndarray, " windows"]:
        return np.nanmean(self.losses, axis=0)


def run(settings: Settings, seed: int, watch: Watch) -> Reproduction:
    """Every batch size with either metric, `realizations` times on the same points."""
    problem = settings.statement()
    points = problem.sample(settings.num_interior, settings.num_boundary, seed=seed)
    found = [
        _realized(settings, problem, points, metric, size, seed, watch) for metric in _METRICS for size in settings.batch_sizes
    ]
    table = columns(
        ("metric", "M", "steps", "averaged error: L2", "largest", "averaged final loss", "seconds"),
        [
            (
                runs.metric,
                str(runs.batch_size),
                str(runs.num_steps),
                f"{root_mean_square(runs.averaged_error):.2e}",
                f"{runs.averaged_error.max():.2e}",
                f"{runs.averaged_losses[-1]:.4g}",
                f"{runs.seconds:.0f}",
            )
            for runs in found
        ],
    )
    return Reproduction(_drawn(problem, points, found), _numbers(settings, seed, points, found), table)


def _realized(
    settings: Settings, problem: Problem, points: PointsByPart, metric: str, size: int, seed: int, watch: Watch
) -> Realizations:
    method = MiniBatch(
        batch_size=size,
        num_steps=num_steps(settings, size) * (settings.anchored_factor if metric == "anchored" else 1),
        max_inner_steps=settings.max_inner_steps,
        proximal_weight=settings.proximal_weight,
        **_METRICS[metric],
    )
    nugget = problem.defaults.nugget  # the paper's with its metric
    nugget = method.default_nugget(nugget) if metric == "anchored" else nugget
    collocation = collocate(problem, points, settings.functionals)
    with watch(f"{settings.realizations} realisations with M = {size}, {metric}") as callback:
        runs: list[Realization] = []
        for realization in range(settings.realizations):
            runs.append(_stepped(problem, collocation, method, nugget, seed + realization))
            if callback is not None:
                info = {"loss": float(runs[-1].losses[-1]), "error": root_mean_square(runs[-1].error)}
                callback(Progress(realization + 1, settings.realizations, info, runs[-1].seconds))
    fewest = min(len(one.losses) for one in runs)  # runs that have come to rest end on their own
    return Realizations(
        metric,
        size,
        max(one.num_steps for one in runs),
        np.stack([one.losses[:fewest] for one in runs]),
        np.stack([one.error for one in runs]),
        sum(one.seconds for one in runs),
    )


def _stepped(problem: Problem, collocation: Collocation, method: MiniBatch, nugget: float, seed: int) -> Realization:
    """One realisation, without the function it stands for: of large batches that costs more than the steps."""
    with CompileClock() as clock:
        kernels = chosen_kernels(problem, None)
        assert isinstance(kernels, tuple)  # the gallery names one
        work = method.prepare(Setup(collocation, kernels, nugget, problem.unknowns, tuple(problem.domain.coordinates)))
        state, history, result = run_steps(method, work, method.init(work, None, seed))
        latent = np.asarray(method.latent(work, state))
    return Realization(result.num_steps, averaged_losses(history), errors_at_points(problem, collocation, latent), clock.run)


def num_steps(settings: Settings, batch_size: int) -> int:
    """As many as give every point the same number of visits, whatever the batch size."""
    return max(10, round(settings.num_steps * min(settings.batch_sizes) / batch_size))


def errors_at_points(
    problem: Problem, collocation: Collocation, latent: Float[np.ndarray, " size"]
) -> Float[np.ndarray, " points"]:
    """How far the latent values u are from the truth, part after part."""
    table = point_table(collocation)
    slot = table.collocation.functionals.operators.index(point_value(0, problem.domain.dim))
    values = np.asarray(table.gather(jnp.asarray(latent)))[:, slot]
    truth = reference_values(problem, np.asarray(table.points))
    assert truth is not None  # the gallery has one
    return np.abs(values - truth[:, 0])


def _drawn(problem: Problem, points: PointsByPart, found: Sequence[Realizations]) -> Any:
    """A row for each metric: losses, then the errors of every batch size."""
    levels = panels.error_levels([runs.averaged_error for runs in found])
    rows = [[runs for runs in found if runs.metric == metric] for metric in _METRICS]
    with panels.figure(len(rows), 1 + len(rows[0])) as (figure, axes):
        plane = panels.Map(problem.domain, np.concatenate(list(points.values())))
        for row in rows:
            loss_axes, *rest = (axes.pop(0) for _ in range(1 + len(row)))
            lines = {runs.label: _against_visits(plane.num_points, runs) for runs in row}
            panels.curves(loss_axes, lines, "averaged loss", xlabel="visits of each point")
            for own, runs in zip(rest, row, strict=True):
                title = f"error, {runs.label}: $L_2$ {root_mean_square(runs.averaged_error):.1e}"
                plane.errors(own, runs.averaged_error, title, levels)
    return figure


def _against_visits(num_points: int, runs: Realizations) -> tuple[np.ndarray, np.ndarray]:
    losses = runs.averaged_losses
    return 10 * np.arange(1, len(losses) + 1) * runs.batch_size / num_points, losses


def _numbers(settings: Settings, seed: int, points: PointsByPart, found: Sequence[Realizations]) -> dict[str, Any]:
    by_metric: dict[str, dict[int, Any]] = {metric: {} for metric in _METRICS}
    for runs in found:
        by_metric[runs.metric][runs.batch_size] = {
            "num_steps": runs.num_steps,
            "averaged_error": {"linf": runs.averaged_error.max(), "l2": root_mean_square(runs.averaged_error)},
            "averaged_final_loss": runs.averaged_losses[-1],
            "averaged_losses": runs.averaged_losses,
            "l2_of_realizations": [root_mean_square(error) for error in runs.errors],
            "pointwise_errors": runs.averaged_error,
            "seconds": runs.seconds,
        }
    return strict(
        {
            "problem": settings.problem,
            "seed": seed,
            "settings": dataclasses.asdict(settings),
            "functionals": settings.functionals,
            "batch_sizes": by_metric,
            "points": points,
        }
    )
