"""Domains given by a formula that is negative inside."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.domains.base import AbstractDomain, Mask, Points, coordinate_names, vector
from gpde.domains.box import Corner
from gpde.domains.functions import PointFunction
from gpde.domains.sampling import acceptance, between, trial

# Half the thickness of the shell around the surface from which points are drawn, relative to the smallest extent.
_SHELL = 0.02


@final
class SignedDistance(AbstractDomain):
    r"""$\{x \in [\text{lower}, \text{upper}] : f(x) \le 0\}$, with $f$ = `function` of one point, by jax.numpy or numpy.

    $f$ need not be a distance: near its zeros it is smooth, with a gradient that does not vanish. What is inside stays off the
    sides of the box. The boundary is one part, `"surface"`. Points are drawn on it from a thin shell around it, each carried
    along $\nabla f$ by Newton's method, which is uniform up to the square of thickness times curvature.
    """

    tolerance = 1e-7

    def __init__(self, function: Callable[..., Any], lower: Corner, upper: Corner, coordinates: Sequence[str] | None = None):
        if not callable(function):
            raise ValueError(f"`SignedDistance`: `function` is a function of one point, negative inside; got {function!r}.")
        self.function, self._value = function, PointFunction(function, "`SignedDistance`: `function`")
        self.lower, self.upper = vector(lower, "SignedDistance", "lower"), vector(upper, "SignedDistance", "upper")
        if self.lower.shape != self.upper.shape or not np.all(self.lower < self.upper):
            raise ValueError(f"`SignedDistance`: `lower` is below `upper` in every coordinate; got {lower} and {upper}.")
        if len(self.lower) < 2:
            raise ValueError("`SignedDistance`: a domain on a line is an interval; use `Box(lower, upper)`.")
        self.coordinates = coordinate_names(len(self.lower), coordinates, "SignedDistance")
        self._volume = float(np.prod(self.extent))
        share = acceptance(trial(self.extent, self.place_in_box))
        shell = acceptance(trial(self.extent, self._project))
        if share == 0 or shell == 0:
            state = "negative nowhere" if share == 0 else "zero nowhere"
            raise ValueError(f"`SignedDistance`: `function` is {state} between {lower} and {upper}; it is negative inside.")
        self._measures = {"interior": share * self._volume, "surface": shell * self._volume / (2 * self._shell)}
        faces = np.concatenate([self._face(axis, corner) for axis in range(self.dim) for corner in (self.lower, self.upper)])
        if np.any(self._value(faces) < 0):
            raise ValueError(
                f"`SignedDistance`: `function` is negative on a side of the box between {lower} and {upper}, where it has no "
                "boundary. Give a larger box, or cut with one: `SignedDistance(...) & Box(...)`."
            )

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"SignedDistance({name}, {self.lower.tolist()}, {self.upper.tolist()})"

    @property
    def atoms(self) -> tuple[str, ...]:
        return ("interior", "surface")

    @property
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        return {"boundary": ("surface",)}

    def has_chart(self, atom: str) -> bool:
        return atom == "interior"

    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        return self.extent

    def atom_measure(self, atom: str) -> float:
        return self._measures[atom]

    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        return self.place_in_box(unit) if atom == "interior" else self._project(unit)

    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        checked = self.check_points(points, "contains")
        out = np.all((checked >= self.lower) & (checked <= self.upper), axis=1)
        out[out] = self._gap(checked[out]) <= self._slack(self.tolerance if tolerance is None else tolerance)
        return out

    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        slack = self._slack(tolerance)
        out = np.all((points >= self.lower) & (points <= self.upper), axis=1)
        gap = self._gap(points[out])
        out[out] = gap < -slack if atom == "interior" else np.abs(gap) <= slack
        return out

    def atom_normal(self, atom: str, points: Points) -> Points:
        gradient = self._gradient(points)
        return gradient / np.linalg.norm(gradient, axis=1, keepdims=True)

    @property
    def _shell(self) -> float:
        return _SHELL * float(self.extent.min())

    def _slack(self, tolerance: float) -> float:
        return tolerance * float(self.extent.max())

    def _gradient(self, points: Points) -> Points:
        r"""$\nabla f$ by central differences: `function` may be numpy's."""
        h = 1e-5 * self.extent
        steps = np.diag(h)
        around = (points[:, None, None] + np.stack([steps, -steps])[None]).reshape(-1, self.dim)
        values = self._value(around).reshape(len(points), 2, self.dim)
        return (values[:, 0] - values[:, 1]) / (2 * h)

    def _gap(self, points: Points) -> Float[np.ndarray, " points"]:
        r"""$f / |\nabla f|$: the distance to the surface near it, whatever the units of $f$."""
        slope = np.linalg.norm(self._gradient(points), axis=1)
        value = self._value(points)
        # At a ridge of f, far from the surface, the gradient may vanish.
        return np.where(slope > 0, value / np.maximum(slope, np.finfo(float).tiny), np.copysign(np.inf, value))

    def _project(self, unit: Float[np.ndarray, "points axes"]) -> Points:
        """Points of the shell carried to the surface; others rejected."""
        points = between(self.lower, self.upper, unit)
        value, gradient = self._value(points), self._gradient(points)
        square = np.maximum(np.sum(gradient**2, axis=1), np.finfo(float).tiny)
        near = np.abs(value) <= 3 * self._shell * np.sqrt(square)
        start, on_surface = points[near], points[near]
        for _ in range(6):
            value, gradient = self._value(on_surface), self._gradient(on_surface)
            square = np.maximum(np.sum(gradient**2, axis=1), np.finfo(float).tiny)
            on_surface = on_surface - (value / square)[:, None] * gradient
        good = np.linalg.norm(on_surface - start, axis=1) <= self._shell
        good &= self.on_atom("surface", on_surface, 1e-3 * self.tolerance)
        out = np.full_like(points, np.nan)
        out[np.flatnonzero(near)[good]] = on_surface[good]
        return out

    def _face(self, axis: int, corner: Float[np.ndarray, " dim"]) -> Points:
        points = self.grid((9,) * self.dim)
        points = points[points[:, axis] == self.lower[axis]]
        points[:, axis] = corner[axis]
        return points
