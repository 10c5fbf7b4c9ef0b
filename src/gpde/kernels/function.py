"""A kernel given as a formula: any function of two points, differentiated automatically."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.kernels.base import AbstractKernel, MultiIndex, Numbers, Terms, check_lengthscale, order, positive


class FunctionKernel(AbstractKernel):
    r"""$\kappa(x, y)$ = `function(x, y)`, a positive definite function of two points, written in `jax.numpy`.

    Slower than the closed forms, and only as good as the function's derivatives: a distance $|x - y|$ inside it has
    none at $x = y$, where automatic differentiation gives NaN or, silently, zero. `smoothness` is the largest order of
    an operator that may be applied on both arguments (`None`: any); `lengthscale` scales the search for neighbours.
    """

    function: Callable[..., Array]
    max_order: int | None = eqx.field(static=True)
    lengthscale: Float[Array, "..."]

    def __init__(
        self,
        function: Callable[..., Array],
        smoothness: int | None = None,
        lengthscale: Numbers | None = None,
    ):
        # A plain function is no pytree; as a `Partial` it becomes static structure, and what it binds become leaves.
        self.function = jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function
        if smoothness is not None and not (isinstance(smoothness, int | np.integer) and smoothness >= 0):
            raise ValueError(f"`FunctionKernel`: `smoothness` must be 0, 1, 2, ... or None (any), not {smoothness!r}.")
        self.max_order = smoothness
        scale = 1.0 if lengthscale is None else lengthscale
        self.lengthscale = positive("`FunctionKernel`: `lengthscale`", scale, max_ndim=1)

    @property
    def smoothness(self) -> int | None:
        return self.max_order

    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        self.check_smoothness((order(left) + order(right) + 1) // 2)
        return apply(left, lambda x: apply(right, lambda y: self.function(x, y), y), x)

    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        self.check(dim)
        return jnp.broadcast_to(self.lengthscale, (dim,))

    def check(self, dim: int) -> None:
        check_lengthscale("FunctionKernel", self.lengthscale, dim)
        point = jax.ShapeDtypeStruct((dim,), self.lengthscale.dtype)
        shape = jax.eval_shape(self.function, point, point).shape
        if shape != ():
            raise ValueError(
                f"`FunctionKernel`: `function(x, y)` must give a scalar for two points of shape ({dim},), "
                f"not an array of shape {shape}."
            )


def apply(terms: Terms, f: Callable[[Array], Array], x: Float[Array, " dim"]) -> Float[Array, ""]:
    r"""$\sum_\alpha c_\alpha \partial^\alpha f(x)$ by nested forward mode, one coordinate at a time."""
    return sum((c * derivative(f, alpha)(x) for alpha, c in terms), start=jnp.zeros((), x.dtype))


def derivative(f: Callable[[Array], Array], alpha: MultiIndex) -> Callable[[Array], Array]:
    r"""$\partial^\alpha f$."""
    for axis, n in enumerate(alpha):
        for _ in range(n):
            f = _along(f, axis)
    return f


def _along(f: Callable[[Array], Array], axis: int) -> Callable[[Array], Array]:
    return lambda x: jax.jvp(f, (x,), (jnp.zeros_like(x).at[axis].set(1.0),))[1]


def as_kernel(kernel: Any) -> AbstractKernel:
    """A kernel as it is; a function of two points as a `FunctionKernel`."""
    if isinstance(kernel, AbstractKernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type) and _takes_two(kernel):
        return FunctionKernel(kernel)  # pyright: ignore[reportArgumentType]
    raise ValueError(
        f"`kernel` must be a kernel such as `gpde.Gaussian(0.2)`, or a function `kernel(x, y)` of two points, not {kernel!r}."
    )


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a compiled function that does not tell its signature
        return True
    return True
