r"""Equations that hold on average, in consensus: a border of the system over the values that patches share.

Linearised, a mean is one row $c \cdot w = d$ over the values $w$ at its nodes, which are points as others are. So with
$C w = d$ for all of them, the minimum over $w$ of what the patches say is $w_0 + H^{-1}C^T\mu$, where $w_0$ is the one
without means and $\mu = (C H^{-1} C^T)^{-1} (d - C w_0)$; the covariance loses $H^{-1}C^T (C H^{-1} C^T)^{-1} C H^{-1}$.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.collocation import Part
from gpde.collocation.point_table import PointTable, field_values
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup


class Means(NamedTuple):
    """The means at given values: their gradient in all values, and what they are."""

    gradient: Float[np.ndarray, "means points fields"]
    residual: Float[np.ndarray, " means"]


def check_means(setup: Setup) -> None:
    """Raises `ValueError` where a mean is not one of values: derivatives are not shared by the patches."""
    for part in setup.collocation.parts:
        if part.weights is not None and not set(part.reading.operators) <= set(field_values(setup.collocation)):
            raise ValueError(
                f"`Consensus`: the equation '{part.name}' is a mean of derivatives, and patches share values alone. Take "
                "`method=gpde.FullBatch()`, or state it as a mean of values."
            )


def means_at(table: PointTable, values: Float[np.ndarray, "points fields"]) -> Means:
    """The means of the problem for these values at the points."""
    collocation = table.collocation
    slots = {operator: field for field, operator in enumerate(field_values(collocation))}
    gradients, residuals, first = [], [], 0
    for part in collocation.parts:
        rows = np.arange(first, first + part.num_points)
        first += part.num_points
        if part.weights is None:
            continue
        fields = np.array([slots[operator] for operator in part.reading.operators])
        found, mean = (np.asarray(array) for array in _linearized(part, on_device(values[np.ix_(rows, fields)])))
        weights = np.asarray(part.weights)
        residuals.extend(mean)
        for e in range(part.num_equations):
            gradient = np.zeros(values.shape)
            gradient[np.ix_(rows, fields)] = weights[:, None] * found[:, e]
            gradients.append(gradient)
    return Means(np.array(gradients).reshape(-1, *values.shape), np.array(residuals))


@eqx.filter_jit
def _linearized(
    part: Part, own: Float[Array, "points operators"]
) -> tuple[Float[Array, "points equations operators"], Float[Array, " equations"]]:
    """The gradient at each node, and the means."""
    return part.gradient(own), part.row_values(part.residual(own))[0]
