"""What a mini-batch run holds in memory, before it begins."""

import dataclasses
import math
from typing import Any

from gpde.collocation.point_table import table_operators
from gpde.methods.base import Setup, round_down
from gpde.methods.mini_batch.factor_cache import num_kept


def bytes_held(method: Any, setup: Setup, *, keeps_factors: bool) -> float:
    """The factors kept between steps, twice while they are made, the table of batches while neighbours are looked for, and a
    few tables over the points; a global prediction holds six matrices of all functionals."""
    num_points = setup.collocation.num_points
    num_operators = len(table_operators(setup.collocation, carry_values=True))
    size = min(method.batch_size, num_points) * num_operators
    # Batches of coarser sets of points are a third of all; a solution holds its batches and their weights.
    rest = num_points * (2 * 24 * min(method.batch_size, num_points) + 2 * 8 * size + 8 * 20 * num_operators)
    kept = 4 * 8 * size**2 * num_kept(num_points, size, method.memory_budget) if keeps_factors else 0
    whole = 6 * 8 * (num_points * len(setup.collocation.functionals.operators)) ** 2 if method.prediction == "global" else 0
    return float(rest + max(kept, whole))


def advice(method: Any, setup: Setup, available: float) -> str:
    """What to change where that is more than is available."""
    num_points, needed = setup.collocation.num_points, method.memory(setup)
    if method.prediction == "global":
        most = round_down(num_points * math.sqrt(available / needed))
        return f'`prediction="local"` takes far less; the global one fits up to about {most} points here.'
    if method.memory_budget and dataclasses.replace(method, memory_budget=0).memory(setup) <= available:
        fits = available / 3 / 2**20
        return f"A `memory_budget` of {fits:.0f} megabytes fits: twice that is held while factors are made."
    most = round_down(num_points * available / needed)
    return f"It fits up to about {most} points here, more with a smaller `batch_size`."
