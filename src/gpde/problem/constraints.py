"""Equations that hold at single points, or on average over a part of the domain."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gpde.arguments import named_constructor
from gpde.domains import AbstractDomain
from gpde.equations import Equation
from gpde.problem.observations import numbers

_NUM_NODES = 144


@named_constructor
@dataclasses.dataclass(frozen=True, eq=False)
class At:
    """Equations at given points: `At([[0, 0]], lambda u, v, p, x: p(x))` pins the pressure in a corner.

    `equations` is one function of the fields and a point, zero where it holds, or a list of them.
    """

    points: Any  # an array of shape (points, dim) once it is there
    equations: Equation | Sequence[Equation]
    name: str = "pinned"

    def __post_init__(self) -> None:
        points = np.atleast_1d(numbers("`At`: `points`", self.points))
        points = points[None] if points.ndim == 1 else points  # one point, as one writes it
        if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
            raise ValueError(f"`At`: `points` is one point, or an array of shape (num, dim), all finite; came {self.points!r}.")
        if len(np.unique(points, axis=0)) < len(points):
            raise ValueError("`At`: a point is given twice, which makes the covariance singular; give each once.")
        object.__setattr__(self, "points", points)

    def nodes(self, domain: AbstractDomain) -> tuple[Float[np.ndarray, "points dim"], None]:
        """Its points; they have no weights."""
        if self.points.shape[1] != domain.dim:
            raise ValueError(f"`At`: a point has {self.points.shape[1]} coordinates, those of the domain {domain.dim}.")
        outside = ~domain.contains(self.points)
        if outside.any():
            raise ValueError(
                f"`At`: {outside.sum()} of {len(outside)} points lie outside {domain}, for instance "
                f"{np.array2string(self.points[outside][0], precision=4)}. Check the order of coordinates {domain.coordinates}."
            )
        return self.points, None


@named_constructor
@dataclasses.dataclass(frozen=True, eq=False)
class Mean:
    r"""Equations that hold on average over a part: $\frac1{|P|} \int_P r(u, x)\,dx = 0$ with $r$ one of `equations`.

    `Mean("interior", lambda u, x: u(x))` is mean zero, `lambda u, x: u(x)**2 - 1` a norm. The integral is a sum over the
    domain's own nodes and weights (`domain.quadrature`), about `num_nodes` of them, or over `points` with `weights`, which
    are scaled to add up to one.
    """

    part: str
    equations: Equation | Sequence[Equation]
    num_nodes: int = _NUM_NODES
    points: Any = None
    weights: Any = None
    name: str = "mean"

    def __post_init__(self) -> None:
        if isinstance(self.num_nodes, bool) or not isinstance(self.num_nodes, int | np.integer) or self.num_nodes < 1:
            raise ValueError(f"`Mean`: `num_nodes` is a whole number, 1 or more; came {self.num_nodes!r}.")
        if (self.points is None) != (self.weights is None):
            raise ValueError("`Mean`: `points` come with a weight for each, `weights`; give both or neither.")
        if self.points is None:
            return
        points, weights = numbers("`Mean`: `points`", self.points), numbers("`Mean`: `weights`", self.weights)
        if points.ndim != 2 or weights.shape != points.shape[:1] or not len(points):
            raise ValueError(
                "`Mean`: points of shape (num, dim) and weights of shape (num,) with num >= 1 are needed; "
                f"came {points.shape} and {weights.shape}."
            )
        if not (np.isfinite(points).all() and np.isfinite(weights).all() and weights.sum() > 0):
            raise ValueError("`Mean`: points and weights are finite, and the weights add up to more than zero.")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights / weights.sum())

    def nodes(self, domain: AbstractDomain) -> tuple[Float[np.ndarray, "points dim"], Float[np.ndarray, " points"]]:
        """Points and weights of the mean, the weights of sum one."""
        if self.part not in domain.parts:
            raise ValueError(
                f"`Mean`: there is no part {self.part!r} in the domain; its parts are {', '.join(domain.parts)}."
                f"{domain.no_ends}"
            )
        if self.points is None or self.weights is None:
            return domain.quadrature(self.part, self.num_nodes)
        if self.points.shape[1] != domain.dim or not domain.contains(self.points).all():
            raise ValueError(f"`Mean`: `points` do not all lie in {domain}.")
        return self.points, self.weights


Constraint = At | Mean


def checked_constraints(given: Any) -> tuple[Constraint, ...]:
    """One constraint or several as a tuple, or an error."""
    constraints = (given,) if isinstance(given, At | Mean) or not isinstance(given, Sequence) else tuple(given)
    if not all(isinstance(constraint, At | Mean) for constraint in constraints):
        raise ValueError(
            "`Problem`: `constraints` are `gpde.At(points, equation)` and `gpde.Mean(part, equation)`, one or a list; "
            f"came {given!r}."
        )
    return constraints
