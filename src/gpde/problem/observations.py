"""What has been measured: values of a linear operator of the fields at points, with their noise."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from gpde.arguments import named_constructor


@named_constructor
@dataclasses.dataclass(frozen=True, eq=False)
class Observations:
    r"""Measured values $y_i = (Lu)(x_i) + \varepsilon_i$ with $\varepsilon_i \sim N(0, \text{noise}^2)$.

    `operator` turns the fields into the observed function: `laplacian`, or `lambda u, v: v`; the default observes the
    (first) field itself. `noise` is a standard deviation, one number or one per value; zero means exact.
    """

    points: Float[np.ndarray, "points dim"]
    values: Float[np.ndarray, " points"]
    noise: float | Float[np.ndarray, " points"] = 0.0
    operator: Callable[..., Any] | None = None
    name: str = "data"

    def __post_init__(self) -> None:
        points, values = numbers("`Observations`: `points`", self.points), numbers("`Observations`: `values`", self.values)
        if points.ndim != 2 or values.shape != points.shape[:1] or not len(points):
            on_a_line = points.ndim == 1 and points.shape == values.shape
            raise ValueError(
                "`Observations`: points of shape (num, dim) and values of shape (num,) with num >= 1 are needed; "
                f"came {points.shape} and {values.shape}.{' Write `points[:, None]`.' if on_a_line else ''}"
            )
        if not (np.isfinite(points).all() and np.isfinite(values).all()):
            raise ValueError("`Observations`: points and values must be finite; remove missing data first.")
        noise = numbers("`Observations`: `noise`", self.noise)
        if noise.shape not in ((), values.shape) or not np.isfinite(noise).all() or (noise < 0).any():
            raise ValueError(
                f"`Observations`: `noise` is a standard deviation >= 0, one number or one for each of the {len(values)} "
                f"values; came {self.noise!r}."
            )
        noise = np.broadcast_to(noise, values.shape)
        exact = points[noise == 0]
        if len(np.unique(exact, axis=0)) < len(exact):
            raise ValueError(
                "`Observations`: several exact values are given at one point, which makes the covariance singular. "
                "Give their `noise`, or take one value per point."
            )
        if self.operator is not None and not callable(self.operator):
            raise ValueError(
                f"`Observations`: `operator` turns a function into a function, as `laplacian`; came {self.operator!r}."
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "noise", noise)

    def split(self) -> "tuple[Observations, ...]":
        """The exact values and the noisy ones apart, where there are both: exact ones are conditions, which must hold."""
        noise = np.asarray(self.noise)
        kinds = [noise == 0, noise > 0]
        if not all(kind.any() for kind in kinds):
            return (self,)
        return tuple(
            dataclasses.replace(self, points=self.points[kind], values=self.values[kind], noise=noise[kind]) for kind in kinds
        )


def numbers(name: str, given: Any) -> Float[np.ndarray, "..."]:
    """An argument as an array of floats, or an error that names it."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers; came {given!r} ({error}).") from error
