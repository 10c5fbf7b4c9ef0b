"""Chebyshev polynomials, to be evaluated and differentiated anywhere."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def polynomials(s: Float[Array, ""], degree: int) -> Float[Array, " degrees"]:
    r"""$T_0(s), \dots, T_n(s)$ by $T_{k+1} = 2 s T_k - T_{k-1}$, which has derivatives at $s = \pm 1$ too."""

    def up(last: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        following = 2 * s * last[1] - last[0]
        return (last[1], following), following

    first = jnp.ones_like(s), s
    _, rest = jax.lax.scan(up, first, None, length=degree - 1)
    return jnp.concatenate([jnp.stack(first), rest])
