"""The constant kernel: an offset that is not known beforehand, the same everywhere."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from gpde.kernels.base import AbstractKernel, Terms, positive
from gpde.kernels.radial import Scalar


class Offset(AbstractKernel):
    r"""$\kappa(x, y) = a^2$: the covariance of a constant $c \sim N(0, a^2)$, to be added to another kernel.

    With it a field around 300 kelvin costs the prior one constant, and not 300 in every lengthscale.
    """

    amplitude: Scalar

    def __init__(self, amplitude: ArrayLike = 1.0):
        self.amplitude = positive("`Offset`: `amplitude`", amplitude, max_ndim=0)

    @property
    def smoothness(self) -> None:
        return None

    def covariance(self, left: Terms, right: Terms, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        factor = _value_coefficient(left) * _value_coefficient(right)
        return jnp.asarray(factor * self.amplitude**2, dtype=x.dtype)

    def lengthscales(self, dim: int) -> Float[Array, " dim"]:
        return jnp.full(dim, jnp.inf)

    def periods(self, dim: int) -> Float[np.ndarray, " dim"]:
        return np.zeros(dim)

    def check(self, dim: int) -> None:
        """Any number of coordinates will do."""


def _value_coefficient(terms: Terms) -> float:
    """What an operator makes of the function 1."""
    return sum((c for alpha, c in terms if not any(alpha)), start=0.0)
