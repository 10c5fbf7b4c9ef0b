"""Functions of one point that a user gives, evaluated at many."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float


class PointFunction:
    """A function of one point with one number as its value, at many points.

    Compiled where it is written with jax.numpy, for a few numbers of points only; else taken point by point.
    """

    def __init__(self, function: Callable[..., Any], what: str):
        self.function, self.what = function, what
        self._compiled: Callable[..., Any] | None = None
        self._by_jax = True

    def __call__(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, " points"]:
        if not len(points):
            return np.zeros(0)
        values = self._at_once(points) if self._by_jax else None
        if values is None:
            values = self._one_by_one(points)
        if values.shape != (len(points),):
            raise ValueError(f"{self.what} gives one number for one point; got an array of shape {values.shape[1:]}.")
        if not np.isfinite(values).all():
            first = points[~np.isfinite(values)][0]
            raise ValueError(f"{self.what} is not finite at {np.array2string(first, precision=4)}.")
        return values

    def _at_once(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points ..."] | None:
        # Imported here: domains alone do not need it.
        import jax

        if self._compiled is None:
            self._compiled = jax.jit(jax.vmap(self.function))
        size = max(256, 1 << (len(points) - 1).bit_length())
        padded = points[np.minimum(np.arange(size), len(points) - 1)]
        try:
            with jax.enable_x64(True):
                return np.asarray(self._compiled(padded), dtype=np.float64)[: len(points)]
        except Exception:  # whatever it does not like about jax's arrays, or about any
            self._by_jax = False
            return None

    def _one_by_one(self, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points ..."]:
        try:
            return np.array([np.asarray(self.function(point), dtype=np.float64) for point in points])
        except Exception as error:
            raise ValueError(
                f"{self.what} could not be evaluated at the point {np.array2string(points[0], precision=4)}, "
                f"{type(error).__name__}: {str(error).partition(chr(10))[0]}. It is a function of one point with one number as "
                "its value, as in `lambda x: x[0] - 0.5`."
            ) from error
