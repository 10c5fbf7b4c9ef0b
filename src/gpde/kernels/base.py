"""What every kernel can do: the covariance of two derivatives of one field, at one pair of points.

A linear operator with constant coefficients is plain data: the Laplacian in two dimensions is
`(((2, 0), 1.0), ((0, 2), 1.0))`. It is static under `jit`, so a kernel does its algebra once, while tracing.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float

if TYPE_CHECKING:
    from gpde.kernels.compose import Product, Sum

MultiIndex = tuple[int, ...]
Terms = tuple[tuple[MultiIndex, float], ...]
Numbers = ArrayLike | Sequence[float | int]

LARGEST_MATERN_ORDER = 5  # of nu = 11/2


def identity(dim: int) -> Terms:
    """The operator of order zero, $u$ itself."""
    return (((0,) * dim, 1.0),)


def order(terms: Terms) -> int:
    r"""$\max_\alpha |\alpha|$, the order of an operator."""
    return max(sum(alpha) for alpha, _ in terms)


class AbstractKernel(eqx.Module):
    r"""$\kappa(x, y)$, the covariance of $u(x)$ and $u(y)$.

    Written for one pair of points: callers make matrices with `jax.vmap`.
    """

    def __repr__(self) -> str:
        """As it is written, with its numbers; while JAX traces it has none."""
        from gpde.kernels.text import kernel_text

        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self))
        return super().__repr__() if traced else kernel_text(self)

    @property
    @abstractmethod
    def smoothness(self) -> int | None:
        """The largest order of an operator that may be applied on both arguments; `None` if any may."""

    @abstractmethod
    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        r"""$(L_x L'_y \kappa)(x, y)$, the covariance of $Lu(x)$ and $L'u(y)$."""

    @abstractmethod
    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        """The distance over which $u$ changes, along each coordinate: what makes two points neighbours."""

    def periods(self, dim: int) -> Float[np.ndarray, " dim"]:
        """After which distance $u$ repeats itself, along each coordinate; infinite where it does not, zero for a constant."""
        return np.full(dim, np.inf)

    def with_periods(self, periods: Float[np.ndarray, " dim"]) -> "AbstractKernel":
        """The kernel on a domain whose coordinates come round after `periods`: with a period where it has none of its own."""
        own = self.periods(len(periods))
        for axis, (here, there) in enumerate(zip(periods.tolist(), own.tolist(), strict=True)):
            if not math.isinf(here) and common_period((here, there)) != here:
                has = "none" if math.isinf(there) else f"{there:g}"
                raise ValueError(
                    f"`kernel`: coordinate {axis} of the domain has the period {here:g}, the kernel {type(self).__name__} has "
                    f"{has}; use `gpde.Gaussian(...)` or `gpde.Matern(...)`, which without a `period` take that of the domain."
                )
        return self

    @abstractmethod
    def check(self, dim: int) -> None:
        """Raise `ValueError` unless the kernel fits points with `dim` coordinates."""

    def check_smoothness(self, order: int) -> None:
        """Raise `ValueError` if operators of this order are too much for $u$ to have a variance under them."""
        if self.smoothness is None or order <= self.smoothness:
            return
        matern = f"`gpde.Matern({2 * order + 1}/2, ...)` or " if order <= LARGEST_MATERN_ORDER else ""
        raise ValueError(
            f"`kernel`: {type(self).__name__} has {self.smoothness} derivatives, but an operator of order {order} is "
            f"applied to it; use {matern}`gpde.Gaussian(...)`."
        )

    def __call__(self, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        value = identity(x.shape[0])
        return self.covariance(value, value, x, y)

    # Sums and products are kernels themselves, so their module imports this one.
    def __add__(self, other: "AbstractKernel") -> "Sum":
        from gpde.kernels.compose import Sum

        return Sum(self, other) if isinstance(other, AbstractKernel) else NotImplemented

    def __mul__(self, other: "AbstractKernel") -> "Product":
        from gpde.kernels.compose import Product

        return Product(self, other) if isinstance(other, AbstractKernel) else NotImplemented


def common_period(periods: Sequence[float] | Float[np.ndarray, " several"]) -> float:
    """The largest of several periods if it is a multiple of each: after it all have come round. Otherwise infinite.

    A period of zero is that of a constant, of which everything is a multiple.
    """
    largest = float(max(periods))
    if math.isinf(largest) or largest == 0:
        return largest
    times = largest / np.asarray([period for period in periods if period > 0])
    return largest if np.allclose(times, np.round(times), rtol=1e-9, atol=0) else math.inf


def positive(argument: str, value: Numbers, max_ndim: int) -> Float[Array, "..."]:
    """The array of a kernel's parameter, checked to be positive and finite unless it is being traced."""
    if not isinstance(value, Tracer):
        try:
            # NumPy would read the number in a text.
            numbers = np.asarray(np.nan if np.asarray(value).dtype.kind in "US" else value, dtype=float)
        except (TypeError, ValueError):
            numbers = np.asarray(np.nan)
        if numbers.size == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
            raise ValueError(f"{argument} must be positive and finite, not {value!r}.")
        if not isinstance(value, Array):
            value = numbers  # moved to the device as it is
    array = jnp.asarray(value, dtype=float)
    if array.ndim > max_ndim:
        shape = "one number" if max_ndim == 0 else "one number or one per coordinate"
        raise ValueError(f"{argument} must be {shape}, not an array of shape {array.shape}.")
    return array


def check_lengthscale(name: str, lengthscale: Float[Array, "..."], dim: int) -> None:
    """Raise `ValueError` if there is one lengthscale per coordinate, but of other coordinates than the points have."""
    if lengthscale.ndim == 1 and lengthscale.shape[0] != dim:
        raise ValueError(
            f"`{name}`: `lengthscale` has {lengthscale.shape[0]} entries, but points have {dim} coordinates; "
            "give one number or one per coordinate."
        )
