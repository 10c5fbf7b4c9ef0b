"""What a solution says of the unknown scalars of its equations."""

import jax
import numpy as np

from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.methods.base import AbstractPredictor
from gpde.outcomes import Result
from gpde.problem.parameters import Estimate
from gpde.problem.problem import Problem

# Points over which a scalar is averaged: of patches each may know it up to its nugget.
_NUM_POINTS = 8
# Of its prior standard deviation: with more than this left, nothing has been learned of a scalar.
_UNDETERMINED = 0.9


def estimates(problem: Problem, predictor: AbstractPredictor, result: Result) -> dict[str, Estimate]:
    r"""$\theta = g(c)$ at the mean of $c$, and to first order its standard deviation $|g'(c)|\, \mathrm{std}(c)$.

    A scalar of which the data leave as much open as the prior did is an error.
    """
    if not problem.parameters:
        return {}
    first, dim = len(problem.fields), problem.domain.dim
    operators: list[LinearOperator] = [point_value(first + place, dim) for place in range(len(problem.parameters))]
    points = problem.domain.sample("interior", _NUM_POINTS, seed=1)
    means = predictor.raw_values(operators, points).mean(axis=0)
    stds = np.full(len(operators), np.nan)
    if not result.failed:
        stds = np.sqrt(predictor.variances(operators, points).mean(axis=0))
    found = {}
    for (name, parameter), c, std in zip(problem.parameters.items(), means, stds, strict=True):
        if std > _UNDETERMINED * parameter.prior_std:
            raise ValueError(
                f"`solve`: no datum determines the parameter '{name}': its standard deviation is {std:.3g}, and was "
                f"{parameter.prior_std:.3g} before. Give `observations` of what depends on it, or fix it."
            )
        found[name] = Estimate(float(parameter.value(c)), float(abs(jax.grad(parameter.value)(float(c))) * std))
    return found
