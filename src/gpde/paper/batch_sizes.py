"""Figure 3: Burgers' equation with batches of several sizes, averaged over realisations (paper, Sec. 4.2).

All realisations share their points and differ in the batches drawn, so that a pointwise error can be averaged point by point.
It is that of the latent values u at the points, which are all the method computes: see the end of Remark 2.2.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpde.collocation.collocation import collocate
from gpde.collocation.point_table import point_table
from gpde.equations.linear_operators import LinearOperator
from gpde.gallery import get
from gpde.methods import MiniBatch
from gpde.methods.base import check_count
from gpde.methods.mini_batch.schedules import Weight
from gpde.methods.run import Progress
from gpde.paper import panels
from gpde.paper.base import Reproduction, Watch, columns
from gpde.paper.single_run import averaged_losses, root_mean_square
from gpde.problem.problem import PointsByPart, Problem
from gpde.solution._solve import solve
from gpde.solution.errors import reference_values
from gpde.solution.report import strict
from gpde.solution.solution import Solution

_FUNCTIONALS = "derivatives"  # u, u_t, u_x, u_xx, as in the paper


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's, where no other source is named. Kernel and nugget are those of the gallery, which are the paper's too."""

    num_interior: int = 2000
    num_boundary: int = 400
    batch_sizes: tuple[int, ...] = (75, 150, 300)
    # Ours, for the smallest batches: the paper does not say. Larger ones take fewer steps, so that all see each point as often.
    num_steps: int = 2_000
    max_inner_steps: int = 100
    viscosity: float | int = 0.02  # that of the paper's references; it prints 0.2
    realizations: int = 10
    proximal_weight: Weight | None = None  # the method's growing weights; the paper has 1

    def __post_init__(self) -> None:
        for name in ("num_steps", "realizations"):
            check_count("batch-sizes", name, getattr(self, name), 1)


FULL = Settings()
QUICK = Settings(num_interior=500, num_boundary=120, batch_sizes=(20, 40, 80), num_steps=400, realizations=2)


class Realizations(NamedTuple):
    """All realisations with one batch size: the loss of every ten steps, and the error at the points."""

    losses: Float[np.ndarray, "realizations windows"]
    errors: Float[np.ndarray, "realizations points"]
    seconds: float

    @property
    def averaged_error(self) -> Float[np.ndarray, " points"]:
        return self.errors.mean(axis=0)

    @property
    def averaged_losses(self) -> Float[np.ndarray, " windows"]:
        return np.nanmean(self.losses, axis=0)


def run(settings: Settings, seed: int, watch: Watch) -> Reproduction:
    """Every batch size, `realizations` times on the same points."""
    problem = get("burgers").build(viscosity=settings.viscosity)
    points = problem.sample(settings.num_interior, settings.num_boundary, seed=seed)
    found: dict[int, Realizations] = {}
    for size in settings.batch_sizes:
        with watch(f"{settings.realizations} realisations with M = {size}") as callback:
            runs: list[tuple[Solution, np.ndarray]] = []
            for realization in range(settings.realizations):
                method = MiniBatch(
                    batch_size=size,
                    num_steps=num_steps(settings, size),
                    max_inner_steps=settings.max_inner_steps,
                    proximal_weight=settings.proximal_weight,
                    proximal_metric="gram-diagonal",
                    replacement=True,
                )
                solution = solve(problem, points=points, method=method, functionals=_FUNCTIONALS, seed=seed + realization)
                runs.append((solution, errors_at_points(problem, solution)))
                if callback is not None:
                    info = {"loss": float(averaged_losses(solution)[-1]), "error": root_mean_square(runs[-1][1])}
                    callback(Progress(realization + 1, settings.realizations, info, solution.seconds.run))
        found[size] = Realizations(
            np.stack([averaged_losses(solution) for solution, _ in runs]),
            np.stack([error for _, error in runs]),
            sum(solution.seconds.run for solution, _ in runs),
        )
    table = columns(
        ("M", "steps", "averaged error: L2", "largest", "averaged final loss", "seconds"),
        [
            (
                str(size),
                str(num_steps(settings, size)),
                f"{root_mean_square(runs.averaged_error):.2e}",
                f"{runs.averaged_error.max():.2e}",
                f"{runs.averaged_losses[-1]:.4g}",
                f"{runs.seconds:.0f}",
            )
            for size, runs in found.items()
        ],
    )
    return Reproduction(_drawn(problem, points, found), _numbers(settings, seed, points, found), table)


def num_steps(settings: Settings, batch_size: int) -> int:
    """As many as give every point the same number of visits, whatever the batch size."""
    return max(10, round(settings.num_steps * min(settings.batch_sizes) / batch_size))


def errors_at_points(problem: Problem, solution: Solution) -> Float[np.ndarray, " points"]:
    """How far the latent values u are from the truth, part after part."""
    table = point_table(collocate(problem, solution.points, _FUNCTIONALS))
    identity: LinearOperator = ((0, (((0,) * problem.domain.dim, 1.0),)),)
    slot = table.collocation.functionals.operators.index(identity)
    values = np.asarray(table.gather(jnp.asarray(solution.latent)))[:, slot]
    truth = reference_values(problem, np.asarray(table.points))
    assert truth is not None  # the gallery has one
    return np.abs(values - truth[:, 0])


def _drawn(problem: Problem, points: PointsByPart, found: Mapping[int, Realizations]) -> Any:
    levels = panels.error_levels([runs.averaged_error for runs in found.values()])
    with panels.figure(1, 1 + len(found)) as (figure, (loss_axes, *rest)):
        plane = panels.Map(problem.domain, np.concatenate(list(points.values())))
        lines = {f"M = {size}": _against_visits(size, plane.num_points, runs) for size, runs in found.items()}
        panels.curves(loss_axes, lines, "averaged loss", xlabel="visits of each point")
        for axes, (size, runs) in zip(rest, found.items(), strict=True):
            error = runs.averaged_error
            plane.errors(axes, error, f"averaged error, M = {size}: $L_2$ {root_mean_square(error):.1e}", levels)
    return figure


def _against_visits(size: int, num_points: int, runs: Realizations) -> tuple[np.ndarray, np.ndarray]:
    losses = runs.averaged_losses
    return 10 * np.arange(1, len(losses) + 1) * size / num_points, losses


def _numbers(settings: Settings, seed: int, points: PointsByPart, found: Mapping[int, Realizations]) -> dict[str, Any]:
    return strict(
        {
            "problem": "burgers",
            "seed": seed,
            "settings": dataclasses.asdict(settings),
            "functionals": _FUNCTIONALS,
            "batch_sizes": {
                size: {
                    "num_steps": num_steps(settings, size),
                    "averaged_error": {"linf": runs.averaged_error.max(), "l2": root_mean_square(runs.averaged_error)},
                    "averaged_final_loss": runs.averaged_losses[-1],
                    "averaged_losses": runs.averaged_losses,
                    "l2_of_realizations": [root_mean_square(error) for error in runs.errors],
                    "pointwise_errors": runs.averaged_error,
                    "seconds": runs.seconds,
                }
                for size, runs in found.items()
            },
            "points": points,
        }
    )
