"""One realisation of Algorithm 1 on a problem, beside the full GP on the same points: Figures 1 and 2 of the paper."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from gpde.methods import AbstractMethod, FullBatch, MiniBatch
from gpde.paper import panels
from gpde.paper.base import Reproduction, Watch, columns
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.errors import error_points, grid_shape, reference_values
from gpde.solution.report import kernels_text, strict
from gpde.solution.solution import Solution

_WINDOW = 10  # "averaged across the subsequent 10 iterations" (Figure 1)
_DIGITS = 5  # of the numbers behind contours


class Case(NamedTuple):
    """A method under a name; with the paper's metric at a constant weight, the ratio γ/λ."""

    label: str
    method: AbstractMethod
    functionals: str
    weight: float | None = None


class CaseRun(NamedTuple):
    """What a case reached: the solution, and its error on the test grid."""

    case: Case
    solution: Solution
    error: Float[np.ndarray, " points"]


def cases(
    batch_size: int,
    num_steps: int,
    max_inner_steps: int,
    functionals: Sequence[str],
    weights: Sequence[float],
    anchored_factor: int = 1,
) -> list[Case]:
    r"""The paper's metric and independent draws at constant weights $\gamma/\lambda$; anchored batches, with so many times the
    steps at most and each choice of latent values; the full GP.

    The paper has $\gamma = 1$ and says of $\lambda$ that it is small: only their ratio matters. It does not say where it
    starts: $z^1 = 0$.
    """
    shared: dict[str, Any] = {"batch_size": batch_size, "max_inner_steps": max_inner_steps}
    plain: dict[str, Any] = {"proximal_metric": "gram-diagonal", "replacement": True, "num_steps": num_steps, **shared}
    held: dict[str, Any] = {"num_steps": anchored_factor * num_steps, **shared}
    first, *others = functionals
    return [
        *(Case(f"γ/λ = {w:g}", MiniBatch(proximal_weight=w, **plain), first, w) for w in weights),
        Case("anchored", MiniBatch(**held), first),
        *(Case(f"anchored, {other}", MiniBatch(**held), other) for other in others),
        Case("full GP", FullBatch(), first),
    ]


def compare(
    problem: Problem, tried: Sequence[Case], num_interior: int, num_boundary: int, seed: int, watch: Watch
) -> Reproduction:
    """Solves the problem by every case on the same points."""
    points = problem.sample(num_interior, num_boundary, seed=seed)
    grid = error_points(problem)
    reference = reference_values(problem, grid)
    if reference is None:
        raise ValueError(f"`reproduce`: '{problem.name}' has no reference solution to compare with.")
    truth = reference[:, 0]
    outcomes = []
    for case in tried:
        with watch(case.label) as callback:
            nugget = None if case.weight is None else problem.defaults.nugget  # the paper's with its metric
            solution = solve(
                problem, points=points, method=case.method, functionals=case.functionals, nugget=nugget, seed=seed,
                callback=callback,
            )  # fmt: skip
        outcomes.append(CaseRun(case, solution, np.abs(solution(grid) - truth)))
    table = columns(
        ("method", "Linf", "L2", "final loss", "seconds"),
        [
            (
                outcome.case.label,
                f"{outcome.error.max():.2e}",
                f"{root_mean_square(outcome.error):.2e}",
                f"{losses[-1]:.3g}" if len(losses := averaged_losses(outcome.solution.history)) else "",
                f"{outcome.solution.seconds.run:.1f}",
            )
            for outcome in outcomes
        ],
    )
    return Reproduction(_drawn(problem, grid, truth, outcomes), _numbers(problem, grid, truth, outcomes, seed), table)


def root_mean_square(error: Float[np.ndarray, " points"]) -> float:
    return float(np.sqrt(np.mean(error**2)))


def averaged_losses(history: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, " windows"]:
    """The mean loss of every ten steps; empty for a method that has none."""
    pieces = [info["averaged_losses"] for info in history if "averaged_losses" in info]
    return np.concatenate(pieces)[_WINDOW - 1 :: _WINDOW] if pieces else np.zeros(0)


def _drawn(problem: Problem, grid: np.ndarray, truth: np.ndarray, outcomes: Sequence[CaseRun]) -> Any:
    """Points, loss, truth, solution; then the errors of the paper's metric at its best weight, of anchored batches and of the
    full GP, and the error against the weight."""
    best, anchored, full = best_weight(outcomes), named(outcomes, "anchored"), named(outcomes, "full GP")
    value_levels = panels.value_levels(truth)
    error_levels = panels.error_levels([outcome.error for outcome in (best, anchored, full)])
    with panels.figure(2, 4) as (figure, (points_axes, loss_axes, truth_axes, solution_axes, *rest, curve_axes)):
        plane = panels.Map(problem.domain, grid)
        plane.points(points_axes, truth, best.solution.points, value_levels)
        losses = {o.case.label: averaged_losses(o.solution.history) for o in (best, anchored)}
        lines = {label: (_WINDOW * np.arange(1, len(y) + 1), y) for label, y in losses.items() if len(y)}
        panels.curves(loss_axes, lines, "averaged loss")
        plane.values(truth_axes, truth, "truth $u^*$", value_levels)
        plane.values(solution_axes, best.solution(grid), f"solution, {best.case.label}", value_levels)
        for axes, outcome in zip(rest, (best, anchored, full), strict=True):
            title = f"error, {outcome.case.label}: $L_2$ {root_mean_square(outcome.error):.1e}"
            plane.errors(axes, outcome.error, title, error_levels)
        _draw_curve(curve_axes, outcomes)
    return figure


def named(outcomes: Sequence[CaseRun], label: str) -> CaseRun:
    return next(outcome for outcome in outcomes if outcome.case.label == label)


def best_weight(outcomes: Sequence[CaseRun]) -> CaseRun:
    """The paper's method read charitably: its metric at the weight with the least error."""
    return min((o for o in outcomes if o.case.weight is not None), key=lambda o: root_mean_square(o.error))


def _draw_curve(axes: Any, outcomes: Sequence[CaseRun]) -> None:
    """The error against the weight, and what anchored batches and the full GP reach."""
    curve = [(o.case.weight, root_mean_square(o.error)) for o in outcomes if o.case.weight is not None]
    axes.loglog(*zip(*curve, strict=True), "o-", color="#2c5d8a", label="the paper's metric")
    for colour, label in (("#d1603d", "anchored"), ("#555555", "full GP")):
        axes.axhline(root_mean_square(named(outcomes, label).error), color=colour, label=label)
    axes.set_title("$L_2$ error")
    axes.set_xlabel("$\\gamma / \\lambda$")
    axes.legend()


def _numbers(problem: Problem, grid: np.ndarray, truth: np.ndarray, outcomes: Sequence[CaseRun], seed: int) -> dict[str, Any]:
    solution = outcomes[0].solution
    return strict(
        {
            "problem": problem.name,
            "seed": seed,
            "num_points": sum(map(len, solution.points.values())),
            "num_interior": len(solution.points["interior"]),
            "kernel": kernels_text(solution.kernels),
            "best_weight": best_weight(outcomes).case.weight,
            "cases": {
                outcome.case.label: {
                    "method": outcome.solution.result.method,
                    "functionals": outcome.case.functionals,
                    "weight": outcome.case.weight,
                    "result": str(outcome.solution.result),
                    "errors": {"linf": outcome.error.max(), "l2": root_mean_square(outcome.error)},
                    "seconds": {"compile": outcome.solution.seconds.compile, "run": outcome.solution.seconds.run},
                    "settings": outcome.solution.settings,
                    "averaged_losses": averaged_losses(outcome.solution.history),
                    "pointwise_errors": [float(f"{e:.{_DIGITS}g}") for e in outcome.error],
                }
                for outcome in outcomes
            },
            "grid": {
                "shape": grid_shape(problem.domain.dim, problem),
                "truth": [float(f"{value:.{_DIGITS}g}") for value in truth],
            },
            "points": solution.points,
        }
    )
