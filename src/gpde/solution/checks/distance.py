"""How far a solution may be from the truth, as a companion on twice the points sees it (`companion.py`)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.methods.base import AbstractPredictor, Setup
from gpde.problem.problem import Problem
from gpde.solution.calibration import has_noise
from gpde.solution.companion import correction, places

_NUM_PLACES = 400


class Distance(NamedTuple):
    """The values of the fields at places all over the domain, what they would be corrected by, and the size of each field."""

    fields: tuple[LinearOperator, ...]
    places: Float[np.ndarray, "places dim"]
    values: Float[np.ndarray, "places fields"]
    correction: Float[np.ndarray, "places fields"]

    @property
    def size(self) -> Float[np.ndarray, " fields"]:
        return np.sqrt(np.mean(self.values**2, axis=0))

    @property
    def relative(self) -> float:
        """The correction of the field that has the largest, in units of the field."""
        return float(np.max(np.sqrt(np.mean(self.correction**2, axis=0)) / self.size))


def distance_of(problem: Problem, setup: Setup, predictor: AbstractPredictor, seed: int) -> Distance | None:
    """None where it can not be told: data are noisy, scalars unknown, a field zero, or the run too large for a companion."""
    if has_noise(problem) or problem.parameters:
        return None
    dim = problem.domain.dim
    where = places(problem, _NUM_PLACES)
    fields = tuple(point_value(field, dim) for field in range(len(problem.fields)))
    points = {part.name: np.asarray(part.points) for part in setup.collocation.parts}
    off = correction(problem, predictor, setup.kernels, points, setup.nugget, fields, where, seed)
    values = predictor.values(fields, where)
    return None if off is None or not np.all(np.any(values, axis=0)) else Distance(fields, where, values, off)
