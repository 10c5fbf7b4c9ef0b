r"""How a solution in pieces stands to the full GP on the same points.

Batches come to rest where their sweeps change nothing any more, and that may be far from the full GP: a level that only all
points together can tell, waves of which a batch sees a piece. No batch can see it, since each meets its own equations. Where a
run is small enough, one step of the full GP from the values reached is nearly the full GP, $u_f$, and the same with a companion
on twice the points (`companion.py`) nearly the truth $v$: then $|v - u| / |v - u_f|$ is how many times farther off $u$ is.
"""

import numpy as np
from jaxtyping import Float

from gpde.methods import FullBatch
from gpde.methods.base import AbstractPredictor, Setup
from gpde.problem.problem import Problem
from gpde.solution.checks.distance import Distance
from gpde.solution.companion import full_step

# Pieces may be so many times farther off, as nearly as it can be told; and smaller errors, relative to the solution, are as
# small as runs by pieces try to make them.
_FAR, _SMALL = 6.0, 1e-7


def far_from_full(
    problem: Problem, setup: Setup, predictor: AbstractPredictor, latent: Float[np.ndarray, " size"], distance: Distance
) -> float | None:
    """How many times farther from the truth than the full GP a solution in pieces is, where that is many; else None."""
    if predictor.continuous or distance.relative < _SMALL:
        return None
    nugget = max(setup.nugget, FullBatch().default_nugget(problem.defaults.nugget))
    full = full_step(setup.kernels, setup.collocation, latent, nugget, distance.fields, distance.places)
    if full is None:
        return None
    own = np.linalg.norm((distance.values + distance.correction - full) / distance.size)
    ratio = np.linalg.norm(distance.correction / distance.size) / own
    return float(ratio) if ratio > _FAR else None
