r"""The marginal likelihood of linearised equations, on patches of neighbouring points.

Equations linearised as $\Psi z = b$ are data on a Gaussian field: $b \sim N(0, a^2 (\Psi K \Psi^T + \eta\,\mathrm{diag}) +
\Lambda)$. With $LL^T = \Psi K \Psi^T + \eta\,\mathrm{diag}$ on each patch $c$, and no noise $\Lambda$, the amplitude has its
best value in closed form,

$$ a^2 = \frac{\sum_c |L_c^{-1} b_c|^2}{\sum_c n_c}, \qquad
   \frac{-\log p}{\sum_c n_c} = \tfrac12 \log a^2 + \frac{\sum_c \log\det L_c}{\sum_c n_c} + \mathrm{const}, $$

so that kernels of any amplitude compare by their shape. Where there is noise its variance does not scale with the field, and
the amplitude is one more number to learn: $\tfrac12\sum_c |L_c^{-1} b_c|^2 + \sum_c \log\det L_c$, per equation.

Patches overlap and are taken as independent. That is no likelihood of all equations together, but an unbiased one for the
numbers that the kernel has in common everywhere, at a cost that does not grow with the number of points.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import add_diagonal
from gpde.functionals.functionals import Kernels, block, share_a_field
from gpde.learning.shape import Shape
from gpde.linalg.cholesky import factor, half_solve, large_factor, second_half_solve
from gpde.machine.arrays import on_device

# The share of what exact equations say that a nugget may leave unmet: a thousandth of each, squared.
_UNMET = 1e-6


class Patches(eqx.Module):
    r"""The linearised equations $a \cdot (L_1u, L_2u, \dots)(x) = b$ on patches; `used` is False where there is none."""

    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    points: Float[Array, "patches members dim"]
    coefficients: Float[Array, "patches members equations operators"]
    rhs: Float[Array, "patches members equations"]
    noise_variance: Float[Array, "patches members equations"]
    used: Bool[Array, "patches members equations"]

    def __len__(self) -> int:
        return self.points.shape[0]

    def __getitem__(self, rows: Int[np.ndarray, " some"]) -> "Patches":
        return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[rows]), self)


class Evidence(NamedTuple):
    r"""Sums over patches: $\sum |L^{-1}b|^2$, $\sum\log\det L$, how many equations, and which share of the exact ones the
    nugget leaves unmet: $|b - \Psi u|^2 / |b|^2$, each in units of its prior standard deviation."""

    quadratic: Float[Array, ""]
    log_det: Float[Array, ""]
    num_equations: Float[Array, ""]
    unmet: Float[Array, ""]


@eqx.filter_jit
def scores(
    shape: Shape, thetas: Float[Array, "several parameters"], patches: Patches, nugget: Float[Array, ""]
) -> tuple[Float[Array, " several"], Float[Array, " several"]]:
    """`negative_log_likelihood` and amplitude for several kernels; infinite where a factorisation fails."""
    found = jax.lax.map(lambda theta: negative_log_likelihood(shape.at(theta), patches, nugget), thetas)
    return jnp.where(jnp.isfinite(found[0]), found[0], jnp.inf), found[1]


def negative_log_likelihood(
    kernels: Kernels, patches: Patches, nugget: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Per equation, and the amplitude that goes with it: 1 where noise says that the kernels' own amplitudes are meant."""
    found = evidence(kernels, patches, nugget)
    amplitude = jnp.sqrt(found.quadratic / found.num_equations)
    # A kernel so wide and large that exact equations drown in its nugget explains all as noise, and may seem likely: where most
    # right sides are zero, it does. Of many patches those at a front leave much unmet with every kernel: only all points pay.
    unmet = jnp.log1p(found.unmet / _UNMET) if len(patches) == 1 else 0.0
    if patches.noisy:
        return (0.5 * found.quadratic + found.log_det) / found.num_equations + unmet, jnp.ones_like(amplitude)
    return jnp.log(amplitude) + found.log_det / found.num_equations + unmet, amplitude


def evidence(kernels: Kernels, patches: Patches, nugget: Float[Array, ""]) -> Evidence:
    """What all patches say of a kernel, NaN where a factorisation fails."""
    each = patches.points, patches.coefficients, patches.rhs, patches.noise_variance, patches.used
    if len(patches) == 1:
        found = _sums(kernels, patches.operators, nugget, large_factor, *(leaf[0] for leaf in each))
    else:
        found = tuple(map(jnp.sum, jax.vmap(partial(_sums, kernels, patches.operators, nugget, factor))(*each)))
    quadratic, log_det, num_equations, unmet, size = found
    return Evidence(quadratic, log_det, num_equations, unmet / jnp.where(size > 0, size, 1.0))


@eqx.filter_jit
def of_data(
    kernels: Kernels, patches: Patches, nugget: Float[Array, ""], factors: Float[Array, " several"]
) -> Float[Array, " several"]:
    r"""$-\log p(\text{data} \mid \text{equations})$ on one patch, for fields larger by some factors; infinite where a
    factorisation fails.

    The joint likelihood of both has exact equations whose right sides are zero prefer fields that vanish, and a few data cannot
    outweigh hundreds of these. What equations have alone is taken away: $\log p(\text{data}, \text{equations}) -
    \log p(\text{equations})$, of which the second has the factor in closed form.
    """
    points, coefficients, rhs, noise, used = (
        leaf[0] for leaf in (patches.points, patches.coefficients, patches.rhs, patches.noise_variance, patches.used)
    )
    matrix = _covariance(kernels, patches.operators, points, jnp.where(used[..., None], coefficients, 0.0))
    rhs, noise, used = jnp.where(used, rhs, 0.0).T.reshape(-1), noise.T.reshape(-1), used.T.reshape(-1)
    exact, diagonal = used & (noise == 0), jnp.diagonal(matrix)

    def terms(matrix: Array, rhs: Array, added: Array) -> tuple[Array, Array]:
        lower, good = large_factor(add_diagonal(matrix, added))
        log_det = jnp.where(good, jnp.sum(jnp.log(jnp.diagonal(lower))), jnp.nan)
        return 0.5 * jnp.sum(half_solve(lower, rhs) ** 2), log_det

    both = jnp.where(exact[:, None] & exact[None, :], matrix, 0.0)
    quadratic, log_det = terms(both, jnp.where(exact, rhs, 0.0), jnp.where(exact, nugget * diagonal, 1.0))

    def one(factor: Array) -> Array:
        added = jnp.where(used, factor**2 * nugget * diagonal + noise, 1.0)
        joint = sum(terms(factor**2 * matrix, rhs, added), start=jnp.zeros(()))
        return joint - quadratic / factor**2 - log_det - jnp.sum(exact) * jnp.log(factor)

    found = jax.lax.map(one, factors)
    return jnp.where(jnp.isfinite(found), found, jnp.inf)


def _sums(
    kernels: Kernels,
    operators: tuple[LinearOperator, ...],
    nugget: Float[Array, ""],
    factored: Callable[[Array], tuple[Array, Array]],
    points: Float[Array, "members dim"],
    coefficients: Float[Array, "members equations operators"],
    rhs: Float[Array, "members equations"],
    noise_variance: Float[Array, "members equations"],
    used: Bool[Array, "members equations"],
) -> tuple[Float[Array, ""], ...]:
    r"""Of one patch $|L^{-1}b|^2$, $\log\det L$, how many equations, $|b - \Psi u|^2$ and $|b|^2$."""
    matrix = _covariance(kernels, operators, points, jnp.where(used[..., None], coefficients, 0.0))
    rhs, noise, used = jnp.where(used, rhs, 0.0).T.reshape(-1), noise_variance.T.reshape(-1), used.T.reshape(-1)
    diagonal = jnp.diagonal(matrix)
    # Rows without an equation become rows of the identity: they add nothing to either sum.
    lower, good = factored(add_diagonal(matrix, jnp.where(used, nugget * diagonal + noise, 1.0)))
    half = half_solve(lower, rhs)
    log_det = jnp.where(good, jnp.sum(jnp.log(jnp.diagonal(lower))), jnp.nan)
    exact, unit = used & (noise == 0), jnp.where(diagonal > 0, diagonal, 1.0)
    unmet = jnp.where(exact, (nugget * diagonal * second_half_solve(lower, half)) ** 2 / unit, 0.0)
    return jnp.sum(half**2), log_det, jnp.sum(used, dtype=float), jnp.sum(unmet), jnp.sum(jnp.where(exact, rhs**2 / unit, 0.0))


def _covariance(
    kernels: Kernels,
    operators: tuple[LinearOperator, ...],
    x: Float[Array, "members dim"],
    a: Float[Array, "members equations operators"],
) -> Float[Array, "size size"]:
    r"""$\Psi K \Psi^T$ of one patch, equation by equation and within each member by member."""
    num_members, num_equations, _ = a.shape
    blocks = {
        (i, j): block(kernels, left, right, x, x)
        for i, left in enumerate(operators)
        for j, right in enumerate(operators)
        if j >= i and share_a_field(left, right)
    }

    def between(e: int, f: int) -> Array:
        total = jnp.zeros((num_members, num_members))
        for (i, j), values in blocks.items():
            total = total + a[:, e, i, None] * values * a[None, :, f, j]
            if i != j:
                total = total + a[:, e, j, None] * values.T * a[None, :, f, i]
        return total

    return jnp.block([[between(e, f) for f in range(num_equations)] for e in range(num_equations)])
