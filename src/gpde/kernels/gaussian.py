"""The Gaussian kernel: analytic sample paths, spectral accuracy, Grams that need a nugget."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from gpde.kernels.base import Numbers, positive
from gpde.kernels.radial import AbstractRadial, Periods, Scalar, periods


class Gaussian(AbstractRadial):
    r"""$\kappa(x, y) = a^2 \exp(-\tfrac12 |(x - y)/\ell|^2)$, with one lengthscale or one per coordinate.

    The paper's Burgers kernel $\exp(-dt^2/\sigma_1^2 - dx^2/\sigma_2^2)$ (Sec. 4.2) has no ½: its $\sigma_i$ is
    `lengthscale[i] * sqrt(2)`. A coordinate in `period`, as in `period={1: 1.0}`, is a circle of that circumference.
    """

    lengthscale: Float[Array, "..."]
    amplitude: Scalar
    period: Periods = eqx.field(static=True)

    def __init__(
        self,
        lengthscale: Numbers,
        *,
        amplitude: ArrayLike = 1.0,
        period: Mapping[int, float | int] | None = None,
    ):
        self.lengthscale = positive("`Gaussian`: `lengthscale`", lengthscale, max_ndim=1)
        self.amplitude = positive("`Gaussian`: `amplitude`", amplitude, max_ndim=0)
        self.period = periods("`Gaussian`: `period`", period)

    @property
    def smoothness(self) -> None:
        return None

    def profile(self, q: Scalar, num_derivatives: int) -> list[Scalar]:
        r"""$F^{(k)}(q) = (-1)^k e^{-q}$."""
        value = jnp.exp(-q)
        return [(-1) ** k * value for k in range(num_derivatives + 1)]
