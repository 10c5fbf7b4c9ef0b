"""The Matérn kernels of half-integer order: sample paths with a few derivatives, and Grams that forgive."""

import math
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from gpde.kernels.base import Numbers, positive
from gpde.kernels.radial import AbstractRadial, Periods, Scalar, periods

ORDERS = {5 / 2: 2, 7 / 2: 3, 9 / 2: 4, 11 / 2: 5}


class Matern(AbstractRadial):
    r"""$\kappa(x, y) = a^2 \frac{2^{1-\nu}}{\Gamma(\nu)} t^\nu K_\nu(t)$, $t = \sqrt{2\nu} |(x - y)/\ell|$.

    $\nu = p + \tfrac12$ is 5/2, 7/2, 9/2 or 11/2; operators up to order $p$ may be applied on both arguments.
    Lengthscale and `period` are as in `Gaussian`.
    """

    nu: float = eqx.field(static=True)
    lengthscale: Float[Array, "..."]
    amplitude: Scalar
    period: Periods = eqx.field(static=True)

    def __init__(
        self,
        nu: float | int,
        lengthscale: Numbers,
        *,
        amplitude: ArrayLike = 1.0,
        period: Mapping[int, float | int] | None = None,
    ):
        if not isinstance(nu, int | float | np.number) or nu not in ORDERS:
            raise ValueError(f"`Matern`: `nu` must be 5/2, 7/2, 9/2 or 11/2, not {nu!r}.")
        self.nu = float(nu)
        self.lengthscale = positive("`Matern`: `lengthscale`", lengthscale, max_ndim=1)
        self.amplitude = positive("`Matern`: `amplitude`", amplitude, max_ndim=0)
        self.period = periods("`Matern`: `period`", period)

    @property
    def smoothness(self) -> int:
        return ORDERS[self.nu]

    def profile(self, q: Scalar, num_derivatives: int) -> list[Scalar]:
        r"""$F^{(k)}(q) = (-2\nu)^k \frac{\theta_{p-k}(t)}{\theta_p(0)} e^{-t}$, $t^2 = 4 \nu q$.

        From $\frac1t \frac{d}{dt} t^\nu K_\nu = -t^{\nu-1} K_{\nu-1}$, with
        $\theta_n(t) = \sqrt{2/\pi} \, e^t \, t^{n+1/2} K_{n+1/2}(t)$ a polynomial for $n \ge 0$, and
        $\theta_{-1-n} = t^{-1-2n} \theta_n$.
        """
        # F^(k) is singular for k > p, but comes with powers of x - y that leave at least one factor t (for |γ| <= 2p):
        # where t is below rounding it adds nothing, and must not become 0·∞. The inner `where` keeps gradients finite.
        apart = 4 * self.nu * q > jnp.finfo(q.dtype).eps ** 2
        distance = jnp.sqrt(jnp.where(apart, 4 * self.nu * q, 1.0))
        t = jnp.where(apart, distance, 0.0)
        decay = jnp.exp(-t)

        p = self.smoothness
        values = []
        for k in range(num_derivatives + 1):
            factor = (-2 * self.nu) ** k / math.prod(range(1, 2 * p, 2))  # θ_p(0) = (2p - 1)!!
            if k <= p:
                theta = bessel_polynomial(p - k, t)
            else:
                n = k - p - 1
                theta = jnp.where(apart, bessel_polynomial(n, distance) * distance ** (-1 - 2 * n), 0.0)
            values.append(factor * theta * decay)
        return values


def bessel_polynomial(n: int, t: Scalar) -> Scalar | float:
    r"""$\theta_n(t) = \sum_{i=0}^n \frac{(n+i)!}{i! \, (n-i)! \, 2^i} t^{n-i}$, the reverse Bessel polynomial."""
    value = 1.0
    for i in range(1, n + 1):
        value = value * t + math.factorial(n + i) / (math.factorial(i) * math.factorial(n - i) * 2**i)
    return value
