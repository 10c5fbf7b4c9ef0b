"""Chebyshev points, and Chebyshev polynomials to be evaluated and differentiated anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def differentiation(num: int) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "points points"]]:
    """Chebyshev points on [0, 1] and their differentiation matrix (Trefethen, Spectral Methods in MATLAB, p. 54)."""
    x = np.cos(np.pi * np.arange(num + 1) / num)
    scale = np.r_[2.0, np.ones(num - 1), 2.0] * (-1.0) ** np.arange(num + 1)
    matrix = np.outer(scale, 1 / scale) / (x[:, None] - x[None, :] + np.eye(num + 1))
    return (x + 1) / 2, 2 * (matrix - np.diag(matrix.sum(axis=1)))


def polynomials(s: Float[Array, ""], degree: int) -> Float[Array, " degrees"]:
    r"""$T_0(s), \dots, T_n(s)$ by $T_{k+1} = 2 s T_k - T_{k-1}$, which has derivatives at $s = \pm 1$ too."""

    def up(last: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        following = 2 * s * last[1] - last[0]
        return (last[1], following), following

    first = jnp.ones_like(s), s
    _, rest = jax.lax.scan(up, first, None, length=degree - 1)
    return jnp.concatenate([jnp.stack(first), rest])
