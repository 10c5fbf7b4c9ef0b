r"""The metrics $Q_k$ of the proximal term that can be asked for by name or by numbers (Remark 2.3)."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.collocation import Collocation
from gpde.collocation.point_table import PointTable, field_values
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.proximal import Anchors

NAMES = ("anchored", "gram-diagonal", "identity")


def is_anchored(given: Any) -> bool:
    return isinstance(given, str) and given == "anchored"


def diagonal(given: Any, collocation: Collocation) -> Float[np.ndarray, " size"] | None:
    """The diagonal of a metric that is one, by latent value; None: it is another. Raises `ValueError` where it is none."""
    if isinstance(given, str) and given != "identity":
        return None
    size = collocation.functionals.size
    metric = np.ones(size) if isinstance(given, str) else np.asarray(given, dtype=float)
    if metric.shape != (size,) or not (np.isfinite(metric) & (metric > 0)).all():
        raise ValueError(
            f"`proximal_metric`: {size} positive numbers are needed, one per latent value; came shape {metric.shape}."
        )
    return metric


def metric(
    given: Any, table: PointTable, scale: Float[Array, " operators"], core_share: float | int, rim_ratio: float | int
) -> Float[Array, "points operators"] | Anchors | None:
    """The metric for the batches of a table, whose operators have the prior variances `scale`; None: the diagonal of $K$."""
    collocation = table.collocation
    own = diagonal(given, collocation)
    if own is not None:
        return jnp.where(table.latent < len(own), table.gather(jnp.asarray(own)), 1.0)
    if not is_anchored(given):
        return None
    values = field_values(collocation)
    if table.operators[: len(values)] == values:
        share, ratio = on_device(float(core_share)), on_device(float(rim_ratio))
        return Anchors(share, ratio, len(values), table.num_points)
    # Values are not first, or not there: this table is for a batch of all points, which has no rim.
    held = jnp.asarray([operator in values for operator in table.operators])
    return jnp.broadcast_to(jnp.where(held, scale, jnp.inf), table.latent.shape)
