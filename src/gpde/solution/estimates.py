"""What a solution says of the unknown scalars of its equations."""

import jax
import numpy as np
from jaxtyping import Float

from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.learning.shape import scaled
from gpde.methods.base import AbstractPredictor, Setup
from gpde.outcomes import Result
from gpde.problem.parameters import Estimate
from gpde.problem.problem import Problem
from gpde.solution.calibration import has_noise
from gpde.solution.companion import full_step

# Points over which a scalar is averaged: of patches each may know it up to its nugget.
_NUM_POINTS = 8
# Of its prior standard deviation: with more than this left, nothing has been learned of a scalar.
_UNDETERMINED = 0.9
# A slope of g that is so small, where it was 1 to begin with, is that of a bound.
_AT_A_BOUND = 0.05
# How much wider a prior is tried, and on how many functionals at the most.
_LOOSER, _MOST_FUNCTIONALS = 10.0, 8000


def estimates(
    problem: Problem, setup: Setup, predictor: AbstractPredictor, latent: Float[np.ndarray, " size"], result: Result
) -> tuple[dict[str, Estimate], list[str]]:
    r"""$\theta = g(c)$ at the mean of $c$, and to first order its standard deviation $|g'(c)|\, \mathrm{std}(c)$; and
    what is to be said of them.

    A scalar of which the data leave as much open as the prior did is an error, unless it lies at a bound.
    """
    if not problem.parameters:
        return {}, []
    first, dim = len(problem.fields), problem.domain.dim
    operators: list[LinearOperator] = [point_value(first + place, dim) for place in range(len(problem.parameters))]
    points = problem.domain.sample("interior", _NUM_POINTS, seed=1)
    means = predictor.raw_values(operators, points).mean(axis=0)
    stds = np.full(len(operators), np.nan)
    if not result.failed:
        stds = np.sqrt(predictor.variances(operators, points).mean(axis=0))
    looser = None if result.failed else _with_a_looser_prior(problem, setup, latent, tuple(operators), points[:1])
    found, notes = {}, []
    for place, ((name, parameter), c, std) in enumerate(zip(problem.parameters.items(), means, stds, strict=True)):
        slope = float(abs(jax.grad(parameter.value)(float(c))))
        estimate = Estimate(float(parameter.value(c)), slope * float(std))
        if slope < _AT_A_BOUND:
            bound = min(parameter.lower, parameter.upper, key=lambda each: abs(each - estimate.value))
            notes.append(f"the data press the parameter '{name}' onto its bound {bound:g}; what fits them best may lie beyond")
        elif std > _UNDETERMINED * parameter.prior_std:
            raise ValueError(
                f"`solve`: no datum determines the parameter '{name}': its standard deviation is {std:.3g}, and was "
                f"{parameter.prior_std:.3g} before. Give `observations` of what depends on it, or fix it."
            )
        elif estimate.std > abs(estimate.value):
            notes.append(
                f"the parameter '{name}' is hardly determined: {estimate.value:.3g} ± {estimate.std:.2g}. Other parameters may "
                "make up for it, as in a product of two"
            )
        elif looser is not None and abs(looser[place] - c) > std:
            there, stds_away = float(parameter.value(looser[place])), abs(looser[place] - c) / std
            notes.append(
                f"the prior pulls at the parameter '{name}': with ten times the amplitude it would move from "
                f"{estimate.value:.4g} to about {there:.4g}, by {stds_away:.2g} of its standard deviations. "
                "Raise the kernel's amplitude until it stays, or leave the kernel to be learned"
            )
        found[name] = estimate
    return found, notes


def _with_a_looser_prior(
    problem: Problem,
    setup: Setup,
    latent: Float[np.ndarray, " size"],
    operators: tuple[LinearOperator, ...],
    places: Float[np.ndarray, "one dim"],
) -> Float[np.ndarray, " scalars"] | None:
    """What scalars would be with fields of ten times the amplitude, to one step of the full GP; None where that is too large,
    where no noise leaves the prior a say, or where a field has no equation of its own and needs a prior."""
    too_large = setup.collocation.functionals.size > _MOST_FUNCTIONALS
    if too_large or not has_noise(problem) or not problem.determines_its_fields:
        return None
    num = len(problem.fields)
    kernels = (*(scaled(kernel, _LOOSER) for kernel in setup.kernels[:num]), *setup.kernels[num:])
    found = full_step(kernels, setup.collocation, latent, setup.nugget, operators, places)
    return None if found is None else found[0]
