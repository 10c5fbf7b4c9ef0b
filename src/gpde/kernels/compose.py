"""Sums and products of kernels: two effects added, or one modulated by the other."""

import math
from itertools import product

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.kernels.base import AbstractKernel, MultiIndex, Terms, common_period, identity
from gpde.kernels.radial import AbstractRadial, difference_operator


def _least_smoothness(first: AbstractKernel, second: AbstractKernel) -> int | None:
    return min((k.smoothness for k in (first, second) if k.smoothness is not None), default=None)


def _common_periods(first: AbstractKernel, second: AbstractKernel, dim: int) -> Float[np.ndarray, " dim"]:
    """A sum or a product repeats itself only where both fields do."""
    return np.array([common_period(pair) for pair in zip(first.periods(dim), second.periods(dim), strict=True)])


class Sum(AbstractKernel):
    r"""$\kappa = \kappa_1 + \kappa_2$: the covariance of a sum of independent fields. Written `first + second`."""

    first: AbstractKernel
    second: AbstractKernel

    @property
    def smoothness(self) -> int | None:
        return _least_smoothness(self.first, self.second)

    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.first.covariance(left, right, x, y) + self.second.covariance(left, right, x, y)

    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        r"""$\min(\ell_1, \ell_2)$: neighbours are chosen for the part that changes faster."""
        return jnp.minimum(self.first.lengthscales(dim), self.second.lengthscales(dim))

    def periods(self, dim: int) -> Float[np.ndarray, " dim"]:
        return _common_periods(self.first, self.second, dim)

    def with_periods(self, periods: Float[np.ndarray, " dim"]) -> "Sum":
        return Sum(self.first.with_periods(periods), self.second.with_periods(periods))

    def check(self, dim: int) -> None:
        self.first.check(dim)
        self.second.check(dim)


class Product(AbstractKernel):
    r"""$\kappa = \kappa_1 \kappa_2$: the covariance of a product of independent fields. Written `first * second`."""

    first: AbstractKernel
    second: AbstractKernel

    @property
    def smoothness(self) -> int | None:
        return _least_smoothness(self.first, self.second)

    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        r"""$\sum_{ab} (\partial_x^a \partial_y^b \kappa_1) (L^{(a)}_x L'^{(b)}_y \kappa_2)$, see `leibniz`."""
        if isinstance(self.first, AbstractRadial) and isinstance(self.second, AbstractRadial):
            # Functions of x - y: one argument takes all derivatives, and Leibniz has far fewer terms.
            left, right = difference_operator(left, right), identity(x.shape[0])
        total = jnp.zeros((), x.dtype)
        for (alpha, left_rest), (beta, right_rest) in product(leibniz(left), leibniz(right)):
            first = self.first.covariance(((alpha, 1.0),), ((beta, 1.0),), x, y)
            total = total + first * self.second.covariance(left_rest, right_rest, x, y)
        return total

    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        r"""$(\ell_1^{-2} + \ell_2^{-2})^{-1/2}$, exact for two Gaussians."""
        return (self.first.lengthscales(dim) ** -2 + self.second.lengthscales(dim) ** -2) ** -0.5

    def periods(self, dim: int) -> Float[np.ndarray, " dim"]:
        return _common_periods(self.first, self.second, dim)

    def with_periods(self, periods: Float[np.ndarray, " dim"]) -> "Product":
        return Product(self.first.with_periods(periods), self.second.with_periods(periods))

    def check(self, dim: int) -> None:
        self.first.check(dim)
        self.second.check(dim)


def stretched(kernel: AbstractKernel, factor: Float[Array, " dim"]) -> AbstractKernel:
    """The kernel with its lengthscales multiplied, coordinate by coordinate; one that does not show them stays as it is."""
    match kernel:
        case AbstractRadial():
            return eqx.tree_at(lambda k: k.lengthscale, kernel, kernel.lengthscale * factor)
        case Sum():
            return Sum(stretched(kernel.first, factor), stretched(kernel.second, factor))
        case Product():
            return Product(stretched(kernel.first, factor), stretched(kernel.second, factor))
    return kernel


def leibniz(terms: Terms) -> list[tuple[MultiIndex, Terms]]:
    r"""The pairs $(\alpha, L^{(\alpha)})$ of $L(fg) = \sum_\alpha (\partial^\alpha f)(L^{(\alpha)} g)$.

    $L^{(\alpha)} = \sum_{\gamma \ge \alpha} c_\gamma \binom{\gamma}{\alpha} \partial^{\gamma-\alpha}$ for
    $L = \sum_\gamma c_\gamma \partial^\gamma$.
    """
    rest: dict[MultiIndex, list[tuple[MultiIndex, float]]] = {}
    for gamma, c in terms:
        for alpha in product(*(range(n + 1) for n in gamma)):
            ways = math.prod(math.comb(n, i) for n, i in zip(gamma, alpha, strict=True))
            rest.setdefault(alpha, []).append((tuple(n - i for n, i in zip(gamma, alpha, strict=True)), ways * c))
    return [(alpha, tuple(operator)) for alpha, operator in rest.items()]
