"""Burgers' equation at decreasing viscosities, each run started from the one before (paper's source, Sec. 4.2).

Beside it the last viscosity from the method's own start and by the full GP, on the same points.
"""

import dataclasses
from typing import Any

import numpy as np

from gpde.gallery import get
from gpde.methods import FullBatch, MiniBatch
from gpde.paper import panels
from gpde.paper.base import Reproduction, Watch, columns
from gpde.paper.single_run import averaged_losses, root_mean_square
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, reference_values
from gpde.solution.report import strict
from gpde.solution.solution import Solution


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's, where no other source is named. It begins at ν = 1 and tells of the last step, from 0.03."""

    num_interior: int = 2000
    num_boundary: int = 400
    batch_size: int = 75
    num_steps: int = 10_000  # ours, at each viscosity: the paper does not say
    max_inner_steps: int = 100
    viscosities: tuple[float, ...] = (0.03, 0.02)


FULL = Settings()
QUICK = Settings(num_interior=1000, num_boundary=200, batch_size=50, num_steps=2_000)


def run(settings: Settings, seed: int, watch: Watch) -> Reproduction:
    """Anchored batches down the viscosities; from their own start; the full GP."""
    problems = [get("burgers").build(viscosity=viscosity) for viscosity in settings.viscosities]
    points = problems[-1].sample(settings.num_interior, settings.num_boundary, seed=seed)
    method = MiniBatch(batch_size=settings.batch_size, num_steps=settings.num_steps, max_inner_steps=settings.max_inner_steps)
    found: dict[str, tuple[float, Solution]] = {}
    before: Solution | None = None
    for viscosity, problem in zip(settings.viscosities, problems, strict=True):
        label = f"ν = {viscosity:g}" + ("" if before is None else ", from the one before")
        with watch(label) as callback:
            before = solve(problem, points=points, method=method, initial=before, seed=seed, callback=callback)
        found[label] = viscosity, before
    last = settings.viscosities[-1]
    for label, chosen in ((f"ν = {last:g}, from its own start", method), (f"ν = {last:g}, full GP", FullBatch())):
        with watch(label) as callback:
            found[label] = last, solve(problems[-1], points=points, method=chosen, seed=seed, callback=callback)
    grid = error_points(problems[-1])
    truths = {viscosity: _truth(viscosity, grid) for viscosity in settings.viscosities}
    errors = {label: np.abs(solution(grid) - truths[viscosity]) for label, (viscosity, solution) in found.items()}
    table = columns(
        ("run", "steps", "Linf", "L2", "result", "seconds"),
        [
            (
                label,
                str(solution.result.num_steps),
                f"{errors[label].max():.2e}",
                f"{root_mean_square(errors[label]):.2e}",
                solution.result.outcome.name.lower(),
                f"{solution.seconds.run:.1f}",
            )
            for label, (_, solution) in found.items()
        ],
    )
    with panels.figure(1, 1 + len(found)) as (figure, (loss_axes, *rest)):
        lines = {label: averaged_losses(solution.history) for label, (_, solution) in found.items()}
        steps = {label: (10 * np.arange(1, len(y) + 1), y) for label, y in lines.items() if len(y)}
        panels.curves(loss_axes, steps, "averaged loss")
        plane, levels = panels.Map(problems[-1].domain, grid), panels.error_levels(list(errors.values()))
        for axes, (label, error) in zip(rest, errors.items(), strict=True):
            plane.errors(axes, error, f"{label}: $L_2$ {root_mean_square(error):.1e}", levels)
    return Reproduction(figure, _numbers(settings, seed, found, errors), table)


def _truth(viscosity: float, grid: np.ndarray) -> np.ndarray:
    truth = reference_values(get("burgers").build(viscosity=viscosity), grid)
    assert truth is not None  # the gallery has one
    return truth[:, 0]


def _numbers(
    settings: Settings, seed: int, found: dict[str, tuple[float, Solution]], errors: dict[str, np.ndarray]
) -> dict[str, Any]:
    return strict(
        {
            "problem": "burgers",
            "seed": seed,
            "settings": dataclasses.asdict(settings),
            "runs": {
                label: {
                    "viscosity": viscosity,
                    "num_steps": solution.result.num_steps,
                    "result": str(solution.result),
                    "errors": {"linf": errors[label].max(), "l2": root_mean_square(errors[label])},
                    "averaged_losses": averaged_losses(solution.history),
                    "seconds": {"compile": solution.seconds.compile, "run": solution.seconds.run},
                }
                for label, (viscosity, solution) in found.items()
            },
        }
    )
