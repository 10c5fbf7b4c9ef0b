"""Differential operators: functions that turn a function of a point into another one, by automatic differentiation.

A *field* is a function of one point `x` of shape `(dim,)` with a scalar value (or a vector: `divergence` takes one).
Every operator here is forward mode, one coordinate at a time, so that it composes with itself and with `jax.grad`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

Point = Float[Array, " dim"]
Field = Callable[[Point], Array]


def _function(u: Any, call: str) -> Any:
    """`u` as it is, or an error for `laplacian(u(x))`."""
    if not callable(u):
        came = f"an array of shape {jnp.shape(u)}" if isinstance(u, jax.Array | np.ndarray) else type(u).__name__
        raise ValueError(
            f"`{call}` takes a function and gives a function, to be taken at x: `{call}(u)(x)`, not `{call}(u(x))`; came {came}"
        )
    return u


def _axis(x: Array, axis: int, name: str) -> np.ndarray:
    dim = x.shape[0]
    if not -dim <= axis < dim:
        raise ValueError(f"`{name}`: coordinate {axis} does not exist: points have {dim} coordinates (0 to {dim - 1}).")
    # A constant, and not traced: where the unknown is known by its derivatives, the other coordinates are left out at once.
    return np.eye(dim, dtype=x.dtype)[axis]


def partial(u: Field, *axes: int) -> Field:
    r"""$\partial_{a_1} \partial_{a_2} \cdots u$: `partial(u, 0)` is $u_{x_0}$, `partial(u, 0, 1)` is $u_{x_0 x_1}$."""
    u = _function(u, "partial")
    if not axes:
        raise ValueError("`partial`: name at least one coordinate, as in `partial(u, 0)`.")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise ValueError(
                f"`partial`: a coordinate is named by its number, 0 for the first one, as in `partial(u, 0)`; came {axis!r}"
            )
        u = _directional_along_axis(u, axis)
    return u


def _directional_along_axis(u: Field, axis: int) -> Field:
    def derivative(x: Array) -> Array:
        return jax.jvp(u, (x,), (_axis(x, axis, "partial"),))[1]

    return derivative


def gradient(u: Field) -> Field:
    r"""$\nabla u = (\partial_0 u, \partial_1 u, \dots)$."""
    return jax.jacfwd(_function(u, "gradient"))


def hessian(u: Field) -> Field:
    r"""$(\partial_a \partial_b u)_{ab}$."""
    return jax.jacfwd(jax.jacfwd(_function(u, "hessian")))


def laplacian(u: Field, axes: tuple[int, ...] | None = None) -> Field:
    r"""$\Delta u = \sum_a \partial_a^2 u$, over all coordinates or the given ones (space without time, say)."""
    u = _function(u, "laplacian")

    # One second directional derivative per coordinate: the Hessian is never formed.
    def value(x: Array) -> Array:
        terms = [partial(u, a, a)(x) for a in (range(x.shape[0]) if axes is None else axes)]
        return sum(terms[1:], start=terms[0])

    return value


def divergence(flux: Field) -> Field:
    r"""$\nabla \cdot F = \sum_a \partial_a F_a$ of a vector function $F$."""
    flux = _function(flux, "divergence")

    def value(x: Array) -> Array:
        shape = jax.eval_shape(flux, x).shape
        if shape != x.shape:
            raise ValueError(
                f"`divergence`: the flux has shape {shape}, but a vector with one component per coordinate, "
                f"shape {x.shape}, is needed. Did you mean `divergence(gradient(u))`?"
            )
        terms = [partial(lambda y, a=a: flux(y)[a], a)(x) for a in range(x.shape[0])]
        return sum(terms[1:], start=terms[0])

    return value


def biharmonic(u: Field) -> Field:
    r"""$\Delta^2 u = \Delta(\Delta u)$."""
    return laplacian(laplacian(_function(u, "biharmonic")))


def directional(u: Field, direction: ArrayLike | Sequence[float | int] | Field) -> Field:
    r"""$v \cdot \nabla u$ along a constant vector, or along $v(x)$ when `direction` is a function."""
    u = _function(u, "directional")

    def value(x: Array) -> Array:
        vector = jnp.asarray(direction(x) if callable(direction) else direction, dtype=x.dtype)
        if vector.shape != x.shape:
            raise ValueError(f"`directional`: the direction has shape {vector.shape}, the points {x.shape}.")
        return jax.jvp(u, (x,), (vector,))[1]

    return value
