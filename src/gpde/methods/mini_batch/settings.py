"""Which settings of `MiniBatch` there are: what is refused, by name and with what was expected."""

from typing import Any

from gpde.collocation.point_table import table_operators
from gpde.methods.base import Setup, check_count, check_positive
from gpde.methods.mini_batch import metrics, schedules
from gpde.methods.mini_batch.bounds import bounds_on_eliminated
from gpde.methods.mini_batch.mean import global_unknowns

_CHOICES = {
    "constraints": ("eliminate", "relax", None),
    "output": ("last", "uniform"),
    "prediction": ("local", "global"),
}


def check_settings(method: Any) -> None:
    """Raises `ValueError` where a setting is none."""
    check_count("MiniBatch", "batch_size", method.batch_size, 2)  # a point alone learns nothing of the others
    for name in ("max_inner_steps", "parallel_batches"):
        check_count("MiniBatch", name, getattr(method, name), 1)
    check_count("MiniBatch", "num_steps", method.max_steps, 1)
    check_count("MiniBatch", "max_escalations", method.max_escalations)
    for name in ("regularization", "inner_tolerance", "tolerance", "core_share", "rim_ratio"):
        check_positive("MiniBatch", name, getattr(method, name))
    if method.core_share > 1:
        raise ValueError(f"`MiniBatch`: `core_share` is a share of the batch, at most 1; came {method.core_share!r}.")
    for name in ("slack_weight", "final_proximal_weight"):
        if getattr(method, name) is not None:
            check_positive("MiniBatch", name, getattr(method, name))
    if method.patience is not None:
        check_count("MiniBatch", "patience", method.patience, 1)
    if method.memory_budget is not None and not method.memory_budget >= 0:
        raise ValueError(f"`MiniBatch`: `memory_budget` is in megabytes, 0 or more; came {method.memory_budget!r}.")
    for name, choices in _CHOICES.items():
        if getattr(method, name) not in choices:
            raise ValueError(f"`MiniBatch`: `{name}` must be one of {choices}; came {getattr(method, name)!r}.")
    if method.sampler not in ("nearest", "uniform") and not callable(method.sampler):
        raise ValueError(f"`MiniBatch`: `sampler` must be 'nearest', 'uniform' or a function; came {method.sampler!r}.")
    if isinstance(method.proximal_metric, str) and method.proximal_metric not in metrics.NAMES:
        raise ValueError(
            "`MiniBatch`: `proximal_metric` must be 'anchored', 'gram-diagonal', 'identity' or positive numbers, one per "
            f"latent value; came {method.proximal_metric!r}."
        )
    if method.proximal_weight is None:
        return
    schedules.levels(method.proximal_weight, method.max_steps)
    if isinstance(schedules.schedule(method.proximal_weight), schedules.Raising) and method.sampler != "nearest":
        raise ValueError(
            "`MiniBatch`: weights that raise themselves go by sweeps over batches of nearest points; with another `sampler` "
            "give `proximal_weight` as a number or a schedule such as 'geometric(1e2, 1e6)'."
        )


def check_problem(method: Any, setup: Setup) -> None:
    """Raises `ValueError` where the method cannot solve a problem with its settings."""
    if (unknown := global_unknowns(setup)) and (
        method.raising() is None or not method.coarse_to_fine or method.prediction == "global"
    ):
        raise ValueError(
            f"`MiniBatch`: {', '.join(unknown)} is one for all points. It is found by the full GP on some of them, the prior "
            "mean of batches, which goes with the defaults of `coarse_to_fine`, `sampler`, `proximal_metric`, "
            "`proximal_weight` and `prediction`. Leave these, or take `method=gpde.FullBatch()` or `gpde.Consensus()`."
        )
    collocation, operators = setup.collocation, table_operators(setup.collocation, carry_values=True)
    if method.constraints == "eliminate" and not collocation.can_eliminate:
        stuck = [p.name for p in collocation.parts if not p.noisy and p.reading.eliminated is None]
        raise ValueError(
            f'`constraints="eliminate"`: the equation on {stuck} is not affine with a constant coefficient in any of '
            'its functionals, so it cannot be solved for one. Use `constraints="relax"`.'
        )
    if method.constraints == "eliminate" and (taken := bounds_on_eliminated(setup, method.bounds, operators)):
        raise ValueError(
            f"`bounds`: {taken} is what the equations are solved for, so it cannot be bounded as well. "
            'Use `constraints="relax"`.'
        )
