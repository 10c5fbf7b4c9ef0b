r"""A Gaussian within bounds: its most likely point in a box.

$$\operatorname{argmin}_z \tfrac12 (z - m)^T \Sigma^{-1} (z - m) \quad\text{where } l \le z \le h$$

has the solution $z = m + \Sigma \mu$, where $\mu_i \ge 0$ if $z_i = l_i$, $\mu_i \le 0$ if $z_i = h_i$, and $\mu_i = 0$
elsewhere: bounds that bind are observations. Which bind is found as in non-negative least squares (Lawson and Hanson,
Solving Least Squares Problems, 1974, Ch. 23): take in the bound violated most, let go of those whose multiplier changes
sign. $\Sigma^{-1}$ is never formed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gpde.linalg.cholesky import cholesky_solve, factor

# A bound is violated if by more than this, relative to the standard deviations: less is rounding.
_VIOLATION = 1e-9


def nearest_within(
    mean: Float[Array, " size"],
    covariance: Float[Array, "size size"],
    low: Float[Array, " size"],
    high: Float[Array, " size"],
) -> Float[Array, " size"]:
    """The most likely point with `low <= z <= high`, to which bounds may be infinite. NaN where the covariance is no use."""
    # The largest deviation: where an equation fixes a value, its own is zero, or less by rounding.
    deviation = jnp.sqrt(jnp.max(jnp.diagonal(covariance)))

    def observed(side: Int[Array, " size"]) -> Float[Array, " size"]:
        """The multipliers with which every bound in `side` (1 low, -1 high) is met."""
        binding = side != 0
        both = binding[:, None] & binding[None, :]
        matrix = jnp.where(both, covariance, jnp.diag(jnp.where(binding, 0.0, 1.0)))
        target = jnp.where(side > 0, low, high) - mean
        lower, _ = factor(matrix)
        return cholesky_solve(lower, jnp.where(binding, target, 0.0))

    def released(side: Array, multipliers: Array) -> tuple[Array, Array]:
        """Lets go of bounds, from feasible multipliers towards those of `side`, until all signs are right."""

        def wrong(carry: tuple[Array, Array, Array]) -> Array:
            side, _, new = carry
            return jnp.any(side * new < 0)

        def let_go(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            side, old, new = carry
            turning = side * new < 0
            change = jnp.where(turning, new - old, 1.0)
            fraction = jnp.where(turning, -old / change, jnp.inf)
            first = jnp.argmin(fraction)
            moved = (old + fraction[first] * (new - old)).at[first].set(0.0)
            side = side.at[first].set(0)
            return side, moved, observed(side)

        side, _, new = jax.lax.while_loop(wrong, let_go, (side, multipliers, observed(side)))
        return side, new

    def violation(multipliers: Array) -> Array:
        z = mean + covariance @ multipliers
        return jnp.maximum(low - z, z - high) / deviation

    def go_on(carry: tuple[Array, Array, Array]) -> Array:
        side, multipliers, num = carry
        outside = jnp.where(side == 0, violation(multipliers), -jnp.inf)
        return (jnp.max(outside) > _VIOLATION) & (num < 4 * mean.shape[0])

    def take_in(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        side, multipliers, num = carry
        worst = jnp.argmax(jnp.where(side == 0, violation(multipliers), -jnp.inf))
        below = (mean + covariance @ multipliers)[worst] < low[worst]
        side, multipliers = released(side.at[worst].set(jnp.where(below, 1, -1)), multipliers)
        return side, multipliers, num + 1

    begin = (jnp.zeros(mean.shape, dtype=int), jnp.zeros_like(mean), jnp.zeros((), dtype=int))
    side, multipliers, _ = jax.lax.while_loop(go_on, take_in, begin)
    z = jnp.clip(mean + covariance @ multipliers, low, high)
    return jnp.where(side > 0, low, jnp.where(side < 0, high, z))
