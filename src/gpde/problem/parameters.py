"""Unknown scalars of the equations: a viscosity, a rate, to be estimated together with the fields."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.arguments import named_constructor
from gpde.kernels import Offset


class Estimate(NamedTuple):
    """What was found of a scalar: its value and its standard deviation."""

    value: float
    std: float


@named_constructor
@dataclasses.dataclass(frozen=True)
class Parameter:
    r"""An unknown scalar $\theta$, which equations take by its name: `parameters={"nu": Parameter(initial=0.1, lower=0.0)}`.

    It is $\theta = g(c)$ with $g(0)$ = `initial`, $g'(0) = 1$, and $c \sim N(0, \text{std}^2)$: a field that is the same
    everywhere. Without bounds $g(c) = \text{initial} + c$; towards one bound $g$ is an exponential, between two a logistic
    function, so that bounds hold strictly. By default the prior is wide: ten times `initial` (ten, where that is zero), or
    three times its distance from the nearer bound.
    """

    initial: float
    lower: float = -math.inf
    upper: float = math.inf
    std: float | None = None

    def __post_init__(self) -> None:
        for name in ("initial", "lower", "upper"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int | float | np.number) or math.isnan(given):
                raise ValueError(f"`Parameter`: `{name}` must be a number; came {given!r}.")
        if not (math.isfinite(self.initial) and self.lower < self.initial < self.upper):
            raise ValueError(
                f"`Parameter`: `initial` must lie strictly between the bounds, {self.lower:g} and {self.upper:g}; came "
                f"{self.initial:g}. It is where the estimate starts."
            )
        if self.std is not None and not (isinstance(self.std, int | float | np.number) and 0 < self.std < math.inf):
            raise ValueError(
                "`Parameter`: `std` is how far from `initial` the scalar is expected, a number > 0, or None for far; "
                f"came {self.std!r}."
            )

    @property
    def prior_std(self) -> float:
        """The standard deviation of $c$."""
        if self.std is not None:
            return float(self.std)
        reach = min(self.initial - self.lower, self.upper - self.initial)
        return 3.0 * reach if math.isfinite(reach) else 10.0 * (abs(self.initial) or 1.0)

    @property
    def kernel(self) -> Offset:
        """The covariance of $c$."""
        return Offset(self.prior_std)

    def value(self, c: Float[Array, ""] | float) -> Any:
        r"""$g(c)$."""
        below, above = self.initial - self.lower, self.upper - self.initial
        match math.isfinite(below), math.isfinite(above):
            case False, False:
                return self.initial + c
            case True, False:
                return self.lower + below * jnp.exp(c / below)
            case False, True:
                return self.upper - above * jnp.exp(-c / above)
        whole = below + above
        return self.lower + whole / (1 + above / below * jnp.exp(-c * whole / (below * above)))

    @property
    def text(self) -> str:
        """`0.1 to start with, above 0`."""
        above = f", above {self.lower:g}" if math.isfinite(self.lower) else ""
        below = f", below {self.upper:g}" if math.isfinite(self.upper) else ""
        return f"{self.initial:g} to start with{above}{below}"
