r"""What Theorem 3.10 bounds: the gradient of the Moreau envelope along a run of Algorithm 1,

$$|\nabla\varphi_{1/\rho}(z^k)|^2 = \rho^2 |z^k - \hat z^k|^2, \qquad
  \hat z^k = \operatorname{argmin}_z \min_u \varphi(u, z) + \tfrac\rho2 |z - z^k|^2,$$

with all points in one dense proximal problem. The setting is the theorem's: slack $\beta$, relaxed equations, no metric,
constant $\gamma > \rho$, batches drawn uniformly. Its right side falls like $1/K$ down to a floor that falls like $1/M$; its
left side, for $k^*$ uniform in $1 \dots K$, is the mean over the first $K$ iterates.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.gallery import get
from gpde.methods import MiniBatch
from gpde.methods.base import check_count
from gpde.methods.mini_batch.proximal import Batch, ProximalProblem
from gpde.methods.run import Progress
from gpde.paper import panels
from gpde.paper.base import Reproduction, Watch, columns
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.report import strict


@dataclasses.dataclass(frozen=True)
class Settings:
    r"""The paper has no such experiment; everything here is ours. A smooth solution, so that few points resolve it."""

    num_interior: int = 150
    num_boundary: int = 50
    batch_sizes: tuple[int, ...] = (10, 40, 80, 120)
    num_steps: int = 10_000
    realizations: int = 3
    regularization: float = 1e-3  # λ
    slack_weight: float = 1.0  # β
    proximal_weight: float = 1.0  # γ
    envelope_weight: float = 0.5  # ρ

    def __post_init__(self) -> None:
        for name in ("num_steps", "realizations"):
            check_count("convergence", name, getattr(self, name), 1)


FULL = Settings()
QUICK = Settings(num_interior=90, num_boundary=30, batch_sizes=(5, 20, 80), num_steps=4_000, realizations=2)


class Curve(eqx.Module):
    """Squared gradients at some steps, for each realisation."""

    steps: Float[np.ndarray, " samples"]
    squares: Float[np.ndarray, "realizations samples"]

    @property
    def along(self) -> Float[np.ndarray, " samples"]:
        return self.squares.mean(axis=0)

    @property
    def theorem(self) -> Float[np.ndarray, " samples"]:
        """The mean over all earlier iterates: samples are equally far apart."""
        return np.cumsum(self.along) / np.arange(1, len(self.steps) + 1)

    @property
    def floor(self) -> float:
        """The mean over the second half of the run."""
        return float(self.along[len(self.steps) // 2 :].mean())


def run(settings: Settings, seed: int, watch: Watch) -> Reproduction:
    """Runs with every batch size, each with its gradient measured a hundred times."""
    # One problem for all: a step that has been compiled for it is used again.
    problem = get("elliptic").build(amplitude=0.0)
    found: dict[int, Curve] = {}
    for size in settings.batch_sizes:
        with watch(f"{settings.realizations} realisations with M = {size}") as callback:
            squares: list[np.ndarray] = []
            steps = np.zeros(0)
            for realization in range(settings.realizations):
                steps, measured = gradients(problem, settings, size, seed, realization)
                squares.append(measured)
                if callback is not None:
                    info = {"gradient": float(measured[-1])}
                    callback(Progress(realization + 1, settings.realizations, info, 0.0))
        found[size] = Curve(steps, np.stack(squares))
    table = columns(
        ("M", "mean over all steps", "mean over the second half", "the same times M"),
        [
            (str(size), f"{curve.theorem[-1]:.3e}", f"{curve.floor:.3e}", f"{size * curve.floor:.3e}")
            for size, curve in found.items()
        ],
    )
    return Reproduction(_drawn(found), _numbers(settings, seed, found), table)


def gradients(
    problem: Problem, settings: Settings, batch_size: int, seed: int, realization: int
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
    r"""The steps $k$ looked at, and $|\nabla\varphi_{1/\rho}(z^k)|^2$ there."""
    rho = jnp.asarray(settings.envelope_weight)
    points = problem.sample(settings.num_interior, settings.num_boundary, seed=seed)
    num_points = sum(map(len, points.values()))
    method = MiniBatch(
        batch_size=batch_size,
        num_steps=settings.num_steps,
        proximal_weight=settings.proximal_weight,
        regularization=settings.regularization,
        slack_weight=settings.slack_weight,
        proximal_metric="identity",
        constraints="relax",
        sampler="uniform",
    )
    steps: list[int] = []
    squares: list[float] = []
    dense: list[Batch] = []

    def measure(progress: Progress) -> None:
        state, own = progress.state, progress.work.problem
        if not dense:
            # By (2.15) the slack is a nugget λN/β where all points are one batch.
            nugget = jnp.asarray(settings.regularization * num_points / settings.slack_weight)
            dense.append(eqx.filter_jit(own.batch)(jnp.arange(num_points), nugget, rho))
        steps.append(progress.num_steps)
        squares.append(float(squared_gradient(own, dense[0], state.values, rho)))

    solve(problem, points=points, method=method, seed=seed + realization, callback=measure)
    return np.asarray(steps, dtype=float), np.asarray(squares)


@eqx.filter_jit
def squared_gradient(
    problem: ProximalProblem, batch: Batch, values: Float[Array, "points operators"], rho: Float[Array, ""]
) -> Float[Array, ""]:
    r"""$\rho^2 |z - \hat z|^2$ with `batch` all points."""
    nearest = problem.step(batch, values, rho).values
    return rho**2 * jnp.sum(jnp.where(problem.table.active, values - nearest, 0.0) ** 2)


def _drawn(found: Mapping[int, Curve]) -> Any:
    with panels.figure(1, 3) as (figure, (along, theorem, floors)):
        name = r"$|\nabla\varphi_{1/\rho}(z^k)|^2$"
        panels.curves(along, {f"M = {m}": (c.steps, c.along) for m, c in found.items()}, f"{name} along the run", "step k")
        lines = {f"M = {m}": (c.steps, c.theorem) for m, c in found.items()}
        panels.curves(theorem, lines, "mean over the first K steps", "K")
        sizes, heights = np.array(list(found), dtype=float), np.array([curve.floor for curve in found.values()])
        shown = {"measured": (sizes, heights), "∝ 1/M": (sizes, heights[0] * sizes[0] / sizes)}
        panels.curves(floors, shown, "mean over the second half", "M")
        floors.set_xticks(sizes, [str(size) for size in found])
        floors.minorticks_off()
    return figure


def _numbers(settings: Settings, seed: int, found: Mapping[int, Curve]) -> dict[str, Any]:
    return strict(
        {
            "problem": "elliptic",
            "seed": seed,
            "settings": dataclasses.asdict(settings),
            "batch_sizes": {
                size: {
                    "steps": curve.steps,
                    "squared_gradients": curve.along,
                    "mean_over_first_steps": curve.theorem,
                    "mean_over_second_half": curve.floor,
                }
                for size, curve in found.items()
            },
        }
    )
