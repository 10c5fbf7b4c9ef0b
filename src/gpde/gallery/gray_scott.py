r"""$u_t = D_u u_{xx} - uv^2 + F(1 - u)$, $v_t = D_v v_{xx} + uv^2 - (F + k)v$ on a circle: two substances in patterns."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import Box, SpaceTime
from gpde.gallery.references.periodic import evolved
from gpde.kernels import Gaussian, Offset
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem

_U, _V, _DURATION = 2e-3, 1e-3, 10.0


def build(*, feed: float | int = 0.04, kill: float | int = 0.06) -> Problem:
    r"""The problem for $t \in [0, 10]$, $x \in [0, 1]$ periodic, $D_u = 2 \cdot 10^{-3}$, $D_v = 10^{-3}$, from a bump of $v$.

    $u(0, x) = 1 - \tfrac12 b$, $v(0, x) = \tfrac12 b$ with $b = e^{4(\cos 2\pi x - 1)}$; `feed` is $F$, `kill` is $k$. The
    reference has Fourier modes in space.
    """
    for name, value in (("feed", feed), ("kill", kill)):
        if not (math.isfinite(value) and 0 < value < 1):
            raise ValueError(f"`gray-scott`: `{name}` is between 0 and 1; got {value}.")

    def bump(x: Array) -> Array:
        return jnp.exp(4 * (jnp.cos(2 * jnp.pi * x[1]) - 1))

    def eaten(u: Field, v: Field, x: Array) -> Array:
        return partial(u, 0)(x) - _U * partial(u, 1, 1)(x) + u(x) * v(x) ** 2 - feed * (1 - u(x))

    def eating(u: Field, v: Field, x: Array) -> Array:
        return partial(v, 0)(x) - _V * partial(v, 1, 1)(x) - u(x) * v(x) ** 2 + (feed + kill) * v(x)

    def first(u: Field, v: Field, x: Array) -> Array:
        del v
        return u(x) - 1 + 0.5 * bump(x)

    def second(u: Field, v: Field, x: Array) -> Array:
        del u
        return v(x) - 0.5 * bump(x)

    return Problem(
        domain=SpaceTime(Box(0.0, 1.0, periodic=("x",)), 0.0, _DURATION),
        equations={"interior": [eaten, eating], "initial": [first, second]},
        fields=("u", "v"),
        reference=lambda x: _reference(float(feed), float(kill))(x),
        name="gray-scott",
        defaults=Defaults(
            kernel=Gaussian((4.0, 0.15)) + Offset(2.0), num_interior=500, num_boundary=80, nugget=1e-12, grid=(25, 60)
        ),
    )


@functools.cache
def _reference(feed: float, kill: float) -> Callable[[Float[Array, "2"]], tuple[Array, ...]]:
    def rate(fields: np.ndarray, derivative: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
        (u, v), (u_xx, v_xx) = fields, derivative(fields, 2)
        return np.stack([_U * u_xx - u * v**2 + feed * (1 - u), _V * v_xx + u * v**2 - (feed + kill) * v])

    def start(x: np.ndarray) -> np.ndarray:
        bump = np.exp(4 * (np.cos(2 * np.pi * x) - 1))
        return np.stack([1 - 0.5 * bump, 0.5 * bump])

    return evolved(rate, start, lower=0.0, length=1.0, duration=_DURATION)
