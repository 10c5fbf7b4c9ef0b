r"""How a solution in pieces stands to the full GP on the same points.

Batches come to rest where their sweeps change nothing any more, and that may be far from the full GP: a level that only all
points together can tell, waves of which a batch sees a piece. No batch can see it, since each meets its own equations. Where a
run is small enough, one step of the full GP from the values reached is nearly the full GP, $u_f$, and the same with a companion
on twice the points (`companion.py`) nearly the truth $v$: then $|v - u| / |v - u_f|$ is how many times farther off $u$ is.
"""

import numpy as np
from jaxtyping import Float

from gpde.equations.linear_operators import point_value
from gpde.methods import FullBatch
from gpde.methods.base import AbstractPredictor, Setup
from gpde.problem.problem import Problem
from gpde.solution.calibration import has_noise
from gpde.solution.companion import correction, full_step

# Pieces may be so many times farther off, as nearly as it can be told; and smaller errors, relative to the solution, are as
# small as runs by pieces try to make them.
_FAR, _SMALL = 6.0, 1e-7
_NUM_PLACES = 400


def far_from_full(
    problem: Problem, setup: Setup, predictor: AbstractPredictor, latent: Float[np.ndarray, " size"], seed: int
) -> float | None:
    """How many times farther from the truth than the full GP a solution in pieces is, where that is many; else None, and where
    it can not be told: data are noisy, scalars unknown, or the run is too large for a companion."""
    if predictor.continuous or has_noise(problem) or problem.parameters:
        return None
    dim, kernels = problem.domain.dim, setup.kernels
    places = problem.domain.test_points((max(2, round(_NUM_PLACES ** (1 / dim))),) * dim)
    fields = tuple(point_value(field, dim) for field in range(len(problem.fields)))
    points = {part.name: np.asarray(part.points) for part in setup.collocation.parts}
    off = correction(problem, predictor, kernels, points, setup.nugget, fields, places, seed)
    values = predictor.values(fields, places)
    size = np.sqrt(np.mean(values**2, axis=0))
    if off is None or not np.any(np.sqrt(np.mean(off**2, axis=0)) > _SMALL * size):
        return None
    nugget = max(setup.nugget, FullBatch().default_nugget(problem.defaults.nugget))
    full = full_step(kernels, setup.collocation, latent, nugget, fields, places)
    if full is None or not np.all(size > 0):
        return None
    ratio = np.linalg.norm(off / size) / np.linalg.norm((values + off - full) / size)
    return float(ratio) if ratio > _FAR else None
