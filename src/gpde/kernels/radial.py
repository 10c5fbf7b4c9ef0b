r"""Kernels of a scaled distance, $\kappa(x, y) = a^2 F(q)$ with $q = \sum_a q_a(x_a - y_a)$, and all their derivatives.

Because $q$ is a sum over coordinates, Faà di Bruno's formula is a product over them,

$$\partial^\gamma F(q) = \sum_k \Big[ \prod_a B_{\gamma_a, k_a}(q_a', q_a'', \dots) \Big] F^{(|k|)}(q),$$

with the partial Bell polynomials $B_{n,k}$. And because $\kappa$ depends on $x - y$ alone, a derivative in $y$ is minus
one in $x$: only the distinct $\alpha + \beta$ are ever needed.
"""

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.kernels.base import AbstractKernel, MultiIndex, Terms, check_lengthscale, positive

Scalar = Float[Array, ""]
Periods = tuple[tuple[int, float], ...]


class AbstractRadial(AbstractKernel):
    r"""$\kappa(x, y) = a^2 F(q)$, $q = \tfrac12 \sum_a (d_a / \ell_a)^2$.

    $d_a = |x_a - y_a|$, or on a circle of circumference $P$ the chord $d_a = \tfrac{P}{\pi} \sin(\pi |x_a - y_a| / P)$.
    """

    lengthscale: eqx.AbstractVar[Float[Array, "..."]]
    amplitude: eqx.AbstractVar[Scalar]
    period: eqx.AbstractVar[Periods]

    @abstractmethod
    def profile(self, q: Scalar, num_derivatives: int) -> list[Scalar]:
        r"""$F(q), F'(q), \dots, F^{(n)}(q)$."""

    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Scalar:
        r"""$a^2 \sum_m w_m F^{(m)}(q)$, where $w_m$ gathers the products of Bell polynomials with $|k| = m$."""
        return _traced_once(self, left, right, x, y)

    def _covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Scalar:
        dim = x.shape[0]
        self.check(dim)
        operator = difference_operator(left, right)
        if not operator:
            return jnp.zeros((), x.dtype)
        highest = max(sum(gamma) for gamma, _ in operator)
        self.check_smoothness((highest + 1) // 2)

        axes = [self._half_square(axis, x[axis] - y[axis], highest) for axis in range(dim)]
        q = sum((half_square for half_square, _ in axes[1:]), start=axes[0][0])

        bell = functools.cache(lambda axis, n: bell_values(n, axes[axis][1]))
        weights: dict[int, Scalar | float] = {}
        for gamma, coefficient in operator:
            product: dict[int, Scalar | float] = {0: coefficient * self._unit(gamma)}
            for axis, n in enumerate(gamma):
                product = convolve(product, bell(axis, n)) if n else product
            for k, value in product.items():
                weights[k] = weights.get(k, 0.0) + value

        profile = self.profile(q, max(weights))
        return self.amplitude**2 * sum((w * profile[k] for k, w in weights.items()), start=jnp.zeros((), q.dtype))

    def _half_square(self, axis: int, r: Scalar, num_derivatives: int) -> tuple[Scalar, Sequence[Scalar | float]]:
        r"""$q_a(r)$ and $\ell^m q_a^{(m)}(r)$ for $m = 1, 2, \dots$ until they vanish or are no longer needed."""
        scale = self._lengthscale(axis)
        period = dict(self.period).get(axis)
        if period is None:
            u = r / scale
            return u**2 / 2, (u, 1.0)

        # q = (1 - cos θ)/ω², θ = 2πr/P, ω = 2πℓ/P; in half angles, since 1 - cos θ loses all digits for near points.
        omega = 2 * math.pi / period * scale
        sin_half, cos_half = jnp.sin(math.pi / period * r), jnp.cos(math.pi / period * r)
        sin, cos = 2 * sin_half * cos_half, 1 - 2 * sin_half**2
        circle = (sin, cos, -sin, -cos)  # derivatives of 1 - cos θ
        derivatives = [circle[m % 4] * omega ** (m - 1) for m in range(num_derivatives)]
        return 2 * (sin_half / omega) ** 2, derivatives

    def _unit(self, gamma: MultiIndex) -> Scalar | float:
        r"""$\prod_a \ell_a^{-\gamma_a}$."""
        if self.lengthscale.ndim == 0:
            return self.lengthscale ** -sum(gamma)
        return math.prod((self._lengthscale(axis) ** -n for axis, n in enumerate(gamma) if n), start=1.0)

    def _lengthscale(self, axis: int) -> Scalar:
        return self.lengthscale if self.lengthscale.ndim == 0 else self.lengthscale[axis]

    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        self.check(dim)
        return jnp.broadcast_to(self.lengthscale, (dim,))

    def periods(self, dim: int) -> Float[np.ndarray, " dim"]:
        own = dict(self.period)
        return np.array([own.get(axis, math.inf) for axis in range(dim)])

    def with_periods(self, periods: Float[np.ndarray, " dim"]) -> "AbstractKernel":
        new = {axis: period for axis, period in enumerate(periods.tolist()) if not math.isinf(period)} | dict(self.period)
        if new == dict(self.period):
            return AbstractKernel.with_periods(self, periods)
        kernel = copy.copy(self)
        # Past `__init__`, which would convert and check what was converted and checked before.
        object.__setattr__(kernel, "period", tuple(sorted(new.items())))
        return AbstractKernel.with_periods(kernel, periods)

    def check(self, dim: int) -> None:
        name = type(self).__name__
        check_lengthscale(name, self.lengthscale, dim)
        for axis, _ in self.period:
            if axis >= dim:
                raise ValueError(
                    f"`{name}`: `period` names coordinate {axis}, but points have {dim} coordinates (0 to {dim - 1})."
                )


# Every Gram matrix of every program has the same few pairs of operators, and the formula has dozens of operations: `jit` keeps
# what was traced, for one pair of points and for many, and larger programs call it. XLA puts it in their place.
@functools.partial(jax.jit, static_argnums=(1, 2))
def _traced_once(kernel: AbstractRadial, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Scalar:
    return kernel._covariance(left, right, x, y)


def periods(argument: str, period: Mapping[int, float | int] | None) -> Periods:
    """A mapping from coordinate to period as static, hashable data."""
    if period is None:
        return ()
    if not isinstance(period, Mapping) or not all(isinstance(axis, int) and axis >= 0 for axis in period):
        raise ValueError(f"{argument} must map coordinates (0, 1, ...) to periods, as in {{0: 1.0}}, not {period!r}.")
    for axis, circumference in period.items():
        positive(f"{argument} of coordinate {axis}", circumference, max_ndim=0)
    return tuple(sorted((axis, float(circumference)) for axis, circumference in period.items()))


@functools.cache
def difference_operator(left: Terms, right: Terms) -> Terms:
    r"""$\sum_{\alpha\beta} (-1)^{|\beta|} c_\alpha c'_\beta \partial^{\alpha+\beta}$, which is $L_x L'_y$ on $\kappa(x-y)$.

    Equal $\alpha + \beta$ are merged, and dropped if they cancel.
    """
    merged: dict[MultiIndex, float] = {}
    for alpha, a in left:
        for beta, b in right:
            gamma = tuple(i + j for i, j in zip(alpha, beta, strict=True))
            merged[gamma] = merged.get(gamma, 0.0) + (-1) ** sum(beta) * a * b
    return tuple((gamma, c) for gamma, c in merged.items() if c != 0.0)


@functools.cache
def bell_polynomials(n: int, num_arguments: int) -> dict[int, dict[MultiIndex, int]]:
    r"""$k \mapsto B_{n,k}(x_1, \dots, x_j, 0, \dots)$, each a polynomial as exponents $\mapsto$ coefficient.

    $B_{n,k} = \sum_i \binom{n-1}{i-1} x_i B_{n-i,k-1}$ (Comtet, Advanced Combinatorics, 1974, Sec. 3.3).
    """
    if n == 0:
        return {0: {(0,) * num_arguments: 1}}
    result: dict[int, dict[MultiIndex, int]] = {}
    for i in range(1, min(n, num_arguments) + 1):
        for k, polynomial in bell_polynomials(n - i, num_arguments).items():
            terms = result.setdefault(k + 1, {})
            for exponents, c in polynomial.items():
                raised = (*exponents[: i - 1], exponents[i - 1] + 1, *exponents[i:])
                terms[raised] = terms.get(raised, 0) + math.comb(n - 1, i - 1) * c
    return result


def bell_values(n: int, derivatives: Sequence[Scalar | float]) -> dict[int, Scalar | float]:
    r"""$k \mapsto B_{n,k}(q', q'', \dots)$."""

    def monomial(exponents: MultiIndex) -> Scalar | float:
        return math.prod((d**e for d, e in zip(derivatives, exponents, strict=True) if e), start=1.0)

    polynomials = bell_polynomials(n, len(derivatives))
    return {k: sum(c * monomial(exponents) for exponents, c in b.items()) for k, b in polynomials.items()}


def convolve(a: dict[int, Scalar | float], b: dict[int, Scalar | float]) -> dict[int, Scalar | float]:
    r"""Coefficients of a product of two polynomials, $k \mapsto \sum_{i+j=k} a_i b_j$."""
    result: dict[int, Scalar | float] = {}
    for i, left in a.items():
        for j, right in b.items():
            result[i + j] = result.get(i + j, 0.0) + left * right
    return result
