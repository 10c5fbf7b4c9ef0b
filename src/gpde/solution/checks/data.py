r"""Whether a solution follows noisy data as closely as their noise allows.

Of $n$ values with the noise that was given, $\chi^2 = \sum_i r_i^2/\sigma_i^2$ is about $n \pm \sqrt{2n}$, and less where the
solution bends towards them. Where it is much more, something else holds the solution back: a prior that is too stiff, equations
that are wrong, or more noise than was said. Unknown scalars and coefficients are then biased by more than their standard
deviations tell, which take the kernel for right.
"""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from gpde.collocation.collocation import Part
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor

# In standard deviations of χ².
_SURPRISING = 5.0


_residual = eqx.filter_jit(Part.residual)


def missed_data(parts: Sequence[Part], predictor: AbstractPredictor) -> list[str]:
    """A sentence for each set of noisy data that the solution misses."""
    notes = []
    for part in parts:
        if not part.noisy:
            continue
        values = predictor.raw_values(part.reading.operators, np.asarray(part.points))
        squares = np.asarray(_residual(part, on_device(values))) ** 2 / np.asarray(part.noise_variance)
        mean, num = float(np.mean(squares)), squares.size
        if mean > 1 + _SURPRISING * np.sqrt(2 / num):
            notes.append(
                f"the solution misses the {num} values of '{part.name}' by {np.sqrt(mean):.2g} times their noise in root mean "
                "square: the prior is too stiff to follow them, the equations do not hold, or the noise is larger. What is "
                "estimated from them is biased by more than its standard deviation says. Raise the kernel's amplitude, "
                "shorten its lengthscale, or check `noise`"
            )
    return notes
