r"""A Gauss-Newton step of the full GP, compiled: the three forms of the constraints in one formula.

| constraints   | $K$               | $\Lambda$                          | objective |
|---------------|-------------------|------------------------------------|-----------|
| `"eliminate"` | $\Theta + \eta R$ | $0$                                | $\tfrac12 z^TK^{-1}z$ where $f(z) = y$ exactly |
| `"relax"`     | $\Theta + \eta R$ | $\lambda$                          | $\tfrac12 z^TK^{-1}z + \tfrac1{2\lambda}|f(z)-y|^2$ |
| `"linearize"` | $\Theta$          | $\eta\,$diag$\,\Psi\Theta\Psi^T$ | $\tfrac12\|u\|^2 + \tfrac12|f(z)-y|^2_\Lambda$ |

Noisy observations add their variance to $\Lambda$ in each.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gpde.collocation.collocation import Collocation, Rows
from gpde.functionals.block_gram import BlockGram, Layout, block_gram
from gpde.functionals.functionals import Functionals, Kernels
from gpde.linalg.cholesky import cholesky_solve, half_solve, large_factor, nugget_scale, second_half_solve
from gpde.linalg.line_search import backtrack
from gpde.methods.full_batch.spread import LOOSE

FORMS = ("eliminate", "relax", "linearize")


class Form(NamedTuple):
    """What a step depends on: with another tolerance or number of steps nothing is compiled."""

    constraints: str
    regularization: float | None
    max_halvings: int

    def prior_nugget(self, scale: Float[Array, " size"], nugget: Float[Array, ""]) -> Float[Array, " size"]:
        r"""What $K$ has on its diagonal beside $\Theta$."""
        return jnp.zeros_like(scale) if self.constraints == "linearize" else nugget * scale

    def noise(
        self, collocation: Collocation, rows: Rows, matrix: BlockGram, nugget: Float[Array, ""]
    ) -> Float[Array, " equations"]:
        r"""The diagonal of $\Lambda$."""
        variance = collocation.noise_variance
        if self.constraints == "linearize":
            own = rows.conditioned_diagonal(matrix)
            # A linear equation whose coefficients all vanish at a point says nothing there: any noise will do but none.
            return variance + jnp.where(jnp.asarray(collocation.linear_equations) & (own == 0), 1.0, nugget * own)
        if self.constraints == "relax":
            relaxed = nugget if self.regularization is None else self.regularization
            return variance + jnp.where(collocation.noisy, 0.0, relaxed)
        return variance


class Verdict(NamedTuple):
    """What can be said of a step: the equations were `finite` and the point it led to is `usable`, numbers throughout; which
    share of the exact equations it leaves `unmet`, squares in units of their noise.

    It travels as one array: to fetch every number on its own costs as much as a pass over the points.
    """

    finite: float
    factored: float
    accepted: float
    usable: float
    objective: float
    damping: float
    move: float
    residual: float
    unmet: float


@eqx.filter_jit
def prior_matrices(kernels: Kernels, functionals: Functionals, layout: Layout) -> tuple[BlockGram, Float[Array, " size"]]:
    return block_gram(kernels, functionals, layout), nugget_scale(kernels, functionals)


@eqx.filter_jit
def latent_of(matrix: BlockGram, weights: Float[Array, " size"]) -> Float[Array, " size"]:
    return matrix @ weights


@eqx.filter_jit
def eliminated(
    collocation: Collocation, matrix: BlockGram, diagonal: Float[Array, " size"], latent: Float[Array, " size"]
) -> tuple[Float[Array, " size"], Float[Array, " size"], Float[Array, "size size"], Float[Array, ""], Bool[Array, ""]]:
    """Latent values for which the equations hold, their weights, the factor of the prior, the objective, and whether there is
    a factor."""
    lower, good = large_factor(matrix.plus_diagonal(diagonal).upper_triangle())
    latent = collocation.eliminate(latent)
    half = half_solve(lower, latent)
    objective = 0.5 * half @ half + _misfit(collocation, latent, collocation.noise_variance)
    return latent, second_half_solve(lower, half), lower.T, objective, good


def _misfit(collocation: Collocation, latent: Float[Array, " size"], noise: Float[Array, " equations"]) -> Float[Array, ""]:
    r"""$\tfrac12 |f(z) - y|^2_\Lambda$ over the equations that have noise."""
    hard = noise <= 0
    r = collocation.residual(latent)
    return 0.5 * jnp.sum(jnp.where(hard, 0.0, r**2 / jnp.where(hard, 1.0, noise)))


@eqx.filter_jit
def rows_and_noise(
    form: Form,
    collocation: Collocation,
    latent: Float[Array, " size"],
    matrix: BlockGram,
    scale: Float[Array, " size"],
    nugget: Float[Array, ""],
) -> tuple[Rows, Float[Array, " size"], Float[Array, " equations"]]:
    rows = collocation.linearize(latent).rows
    return rows, form.prior_nugget(scale, nugget), form.noise(collocation, rows, matrix, nugget)


@eqx.filter_jit
def gauss_newton(
    form: Form,
    collocation: Collocation,
    state: tuple[Array, Array, BlockGram, Array, Array | None, Array],
    nugget: Float[Array, ""],
    whole: Bool[Array, ""],
    count: Bool[Array, " equations"] | None,
    natural: bool = False,
) -> tuple[Float[Array, " size"], Float[Array, " size"], Float[Array, " verdict"]]:
    """One Gauss-Newton step in any of the three forms: latent values, weights and a `Verdict` as one array; `natural` steps are
    shortened by another measure (`natural.py`)."""
    z, w, gram_matrix, scale, upper, objective = state
    linear = collocation.linearize(z)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(linear)]))
    prior_nugget = form.prior_nugget(scale, nugget)
    prior = gram_matrix if form.constraints == "linearize" else gram_matrix.plus_diagonal(prior_nugget)
    noise = form.noise(collocation, linear.rows, gram_matrix, nugget)
    noise = noise if count is None else jnp.where(count, noise, LOOSE / nugget * noise)
    s_lower, factored = large_factor(linear.rows.conditioned(prior, noise))
    unit = jnp.sqrt(scale)

    def conditioned(rhs: Array) -> tuple[Array, Array]:
        weights = linear.rows.transpose_times(cholesky_solve(s_lower, rhs))
        return gram_matrix @ weights + prior_nugget * weights, weights

    z_full, w_full = conditioned(linear.rhs)

    def trial(t: Array) -> tuple[tuple[Array, Array], Array]:
        z_t, w_t = z + t * (z_full - z), w + t * (w_full - w)
        if natural:
            there, _ = conditioned(linear.rows.times(z_t[:, None])[:, 0] - collocation.residual(z_t))
            return (z_t, w_t), jnp.sum(((there - z_t) / unit) ** 2)
        if upper is None:
            return (z_t, w_t), 0.5 * w_t @ z_t + _misfit(collocation, z_t, noise)
        z_t = collocation.eliminate(z_t)
        half = half_solve(upper.T, z_t)
        return (z_t, half), 0.5 * half @ half + _misfit(collocation, z_t, noise)

    # Linearised anew, equations have another misfit. Elimination has none of that, and compares what was computed alike.
    current = 0.5 * w @ z + _misfit(collocation, z, noise) if upper is None else objective
    current = jnp.sum(((z_full - z) / unit) ** 2) if natural else current
    damped = backtrack(trial, jnp.where(whole, jnp.inf, current), max_halvings=form.max_halvings, start=(z, w))
    z_new, w_new = damped.point
    if upper is not None:
        w_new = jnp.where(damped.accepted, second_half_solve(upper.T, w_new), w_new)
    size = jnp.max(jnp.abs(z_full) / unit)
    move = jnp.max(jnp.abs(z_full - z) / unit) / jnp.where(size > 0, size, 1.0)
    r = collocation.residual(z_new)
    residual = jnp.sqrt(jnp.mean(r**2))
    weigh = jnp.where((noise > 0) & ~collocation.noisy, 1 / jnp.where(noise > 0, noise, 1.0), 0.0)
    all_of_it = weigh @ linear.rhs**2
    unmet = weigh @ r**2 / jnp.where(all_of_it > 0, all_of_it, 1.0)
    usable = jnp.all(jnp.isfinite(z_new))
    reached = 0.5 * w_new @ z_new + _misfit(collocation, z_new, noise) if natural else damped.objective
    verdict = finite, factored, damped.accepted, usable, reached, damped.damping, move, residual, unmet
    return z_new, w_new, jnp.stack([jnp.asarray(number, dtype=z.dtype) for number in verdict])
