"""What a result may claim: residuals at its points and between them, contradictions, equations that leave the solution open."""

import dataclasses
import math

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.collocation import Collocation, Part
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor, Setup
from gpde.outcomes import Outcome, Result
from gpde.problem.problem import Problem
from gpde.solution.checks.contradictions import contradictions
from gpde.solution.checks.data import missed_data
from gpde.solution.checks.distance import distance_of
from gpde.solution.checks.openness import open_questions, scalars_are_open
from gpde.solution.checks.pieces import far_from_full
from gpde.solution.checks.residuals import Residuals, exact_conditions, residuals

__all__ = ["check_scalars", "checked"]

# Relative residuals, chosen by `gpde bench between-points`. Solutions with errors above 1 % had 2e-3 or more between
# the points, those with errors below 1e-5 had 1.3e-4 or less.
BETWEEN_POINTS = 1e-3
# Beyond that nothing has converged: errors of u were 3 % and more, mostly far more, in all runs with so much.
NOT_RESOLVED = 3e-2
# In doubt, from here on, a companion on twice the points is asked (`distance.py`), which may not lead so far away, relative to
# the solution: a long channel held at one end was wrong by 97 % at 1.3 % and 2.5 % between the points.
IN_DOUBT, FAR_AWAY = 5e-3, 0.05
# At the points themselves nuggets from 1e-13 to 1e-6 left up to 2e-3, contradictions 1e-1 and more.
AT_POINTS = 1e-2


def check_scalars(problem: Problem, collocation: Collocation, seed: int) -> None:
    """Refuses, before the run, unknown scalars of which only the prior would say something."""
    if problem.parameters and scalars_are_open(problem, exact_conditions(problem, collocation.parts, seed)):
        raise ValueError(
            f"`solve`: no datum determines the parameter{'s' if len(problem.parameters) > 1 else ''} "
            f"{', '.join(map(repr, problem.parameters))}: there are no `observations`, no `constraints` and no more conditions "
            "than the fields ask for. Give observations of what depends on it, or one condition more; or fix it."
        )


def checked(
    problem: Problem, setup: Setup, predictor: AbstractPredictor, latent: Float[np.ndarray, " size"], result: Result, seed: int
) -> Result:
    """The result with what can be said of the solution, and with an outcome that claims no more than that."""
    if result.outcome is Outcome.NOT_POSITIVE_DEFINITE and (notes := _degenerate(setup.collocation, latent)):
        return dataclasses.replace(result, outcome=Outcome.DEGENERATE, notes=(*result.notes, *notes))
    if result.failed:
        return result
    result = dataclasses.replace(result, notes=(*result.notes, *missed_data(setup.collocation.parts, predictor)))
    conditions = exact_conditions(problem, setup.collocation.parts, seed)
    if not conditions:
        return result
    found = residuals(problem, conditions, setup.kernels, predictor)
    if found is None:
        return dataclasses.replace(result, outcome=Outcome.NOT_FINITE if result.successful else result.outcome)
    against = contradictions(problem, conditions)
    names = {c.part.name: c.part.reading.names for c in conditions}
    worst, off = _worst(found, names)
    notes = [c.text for c in against]
    contradictory = any(c.same_part for c in against)
    if off > AT_POINTS or contradictory:
        if result.outcome is Outcome.CONVERGED:
            result = dataclasses.replace(result, outcome=Outcome.NOT_MET)
        notes.insert(0, f"at its own points {worst} is off by {_percent(off)} of its own terms")
    between = max((float(np.max(numbers)) for numbers in found.between_points.values()), default=0.0)
    # Conditions that contradict each other where they meet leave a residual there, whatever the points are.
    if between > NOT_RESOLVED and result.outcome is Outcome.CONVERGED and not against:
        result = dataclasses.replace(result, outcome=Outcome.NOT_RESOLVED)
    at_rest = result.outcome in (Outcome.CONVERGED, Outcome.NOT_MET, Outcome.NOT_RESOLVED)
    doubtful = result.outcome is Outcome.CONVERGED and between > IN_DOUBT and not against
    if (at_rest and not predictor.continuous) or doubtful:
        distance = distance_of(problem, setup, predictor, seed)
        if distance is not None and (far := far_from_full(problem, setup, predictor, latent, distance)) is not None:
            result = dataclasses.replace(result, outcome=Outcome.NOT_NEAR)
            notes.append(f"about {far:.0f} times as far from the solution as the full GP on these points")
        elif doubtful and distance is not None and distance.relative > FAR_AWAY:
            result = dataclasses.replace(result, outcome=Outcome.NOT_RESOLVED)
            notes.append(f"with twice the points it would change by {_percent(distance.relative)}")
    notes += open_questions(problem, conditions, setup.kernels)
    notes += _between(found, names, result, contradictory)
    return dataclasses.replace(
        result,
        notes=(*result.notes, *notes),
        at_points={part: float(np.max(numbers)) for part, numbers in found.at_points.items()},
        between_points={part: float(np.max(numbers)) for part, numbers in found.between_points.items()},
    )


def _degenerate(collocation: Collocation, latent: Float[np.ndarray, " size"]) -> list[str]:
    """Nonlinear equations whose derivative in the unknown is zero at points of the iterate."""
    notes = []
    for part in collocation.parts:
        gradient = np.asarray(_gradient(part, on_device(latent)))
        for e, (name, kind) in enumerate(zip(part.reading.names, part.reading.kinds, strict=True)):
            dead = int(np.sum(~np.any(gradient[:, e], axis=-1)))
            if dead and not kind.linear:
                notes.append(f"the derivative of {name} in the unknown is zero at {dead} of {part.num_points} points")
    return notes


@eqx.filter_jit
def _gradient(part: Part, latent: Float[Array, " size"]) -> Float[Array, "points equations operators"]:
    return part.gradient(part.values(latent))


def _worst(found: Residuals, names: dict[str, tuple[str, ...]]) -> tuple[str, float]:
    """The equation that is met least at the run's points, and by how much it is off."""
    each = [(names[part][e], float(x)) for part, numbers in found.at_points.items() for e, x in enumerate(numbers)]
    return max(each, key=lambda pair: pair[1])


def _between(found: Residuals, names: dict[str, tuple[str, ...]], result: Result, contradictory: bool) -> list[str]:
    """The note about what lies between the points, where that is not small."""
    large = sorted(
        (-float(x), part, names[part][e])
        for part, numbers in found.between_points.items()
        for e, x in enumerate(numbers)
        if x > BETWEEN_POINTS
    )
    if not large:
        return []
    part = large[0][1]
    off = ", ".join(f"{name} is off by {_percent(-number)} of its own terms" for number, _, name in large[:2])
    if contradictory or result.outcome is Outcome.NOT_MET:
        remedy = ""  # that has said what to look for
    elif np.max(found.at_points[part]) > 0.5 * np.max(found.between_points[part]):
        remedy = (
            ", as at the points: the kernel cannot follow the solution, or the nugget is too large. Shorten the lengthscale"
        )
    else:
        count = "num_interior" if part == "interior" else "num_boundary"
        steps = "more steps, " if result.outcome in (Outcome.FINISHED, Outcome.PLATEAU, Outcome.NOT_AT_REST) else ""
        remedy = (
            f": take {steps}more points (`{count}`) or another lengthscale, longer for a smooth solution, "
            "shorter where it has a layer or a front"
        )
    return [f"between the points {off}{remedy}"]


def _percent(number: float) -> str:
    return f"{100 * number:.2g} %" if math.isfinite(number) else "more than all"
