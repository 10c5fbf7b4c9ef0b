r"""The full GP of Chen, Hosseini, Owhadi and Stuart (2021): all points at once, by damped Gauss-Newton.

Minimise $\|u\|^2$ subject to the equations. Each step linearises them as $\Psi z = b$ and conditions the prior on that
(`gram.py`); the three forms of the constraints differ only in the prior covariance $K$, the noise $\Lambda$, and in
what the line search compares:

| constraints   | $K$               | $\Lambda$                          | objective |
|---------------|-------------------|------------------------------------|-----------|
| `"eliminate"` | $\Theta + \eta R$ | $0$                                | $\tfrac12 z^TK^{-1}z$ where $f(z) = y$ exactly |
| `"relax"`     | $\Theta + \eta R$ | $\lambda$                          | $\tfrac12 z^TK^{-1}z + \tfrac1{2\lambda}|f(z)-y|^2$ |
| `"linearize"` | $\Theta$          | $\eta\,$diag$\,\Psi\Theta\Psi^T$ | $\tfrac12\|u\|^2 + \tfrac12|f(z)-y|^2_\Lambda$ |

Noisy observations add their variance to $\Lambda$ in each.
"""

import math
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gpde.collocation import Collocation, Rows
from gpde.functionals import BlockGram, Functionals, Kernels, block_gram
from gpde.gauss_newton import Damped, backtrack, next_move
from gpde.gram import NUGGET_GROWTH, add_diagonal, factor, half_solve, nugget_levels, nugget_scale, solve
from gpde.methods.base import AbstractMethod, AbstractPredictor, Info, Setup, check_count, check_positive
from gpde.methods.representer import Representer
from gpde.results import Outcome

FORMS = ("eliminate", "relax", "linearize")
# Steps below this, relative to the solution, may be all rounding: covariances of smooth kernels are that ill-conditioned.
_ROUNDING_MOVE = 1e-4


class State(NamedTuple):
    r"""Latent values $z$, weights $w$ with $u = \kappa(\cdot,\phi)w$, the Gram matrix and what was made of it."""

    latent: Float[Array, " size"]
    weights: Float[Array, " size"]
    gram: BlockGram
    scale: Float[Array, " size"]
    lower: Float[Array, "size size"] | None
    nugget: float
    objective: float
    move: float


class FullBatch(AbstractMethod):
    """All points in one batch.

    **Arguments:**

    - `constraints`: `"eliminate"`, `"relax"`, `"linearize"`, or None: `"linearize"`, the cheapest, whose result differs
      from elimination by what the nugget does.
    - `regularization`: λ of `"relax"`; None takes the nugget. Smaller holds the equations more strictly.
    - `max_steps`, `tolerance`: Gauss-Newton ends when the next step, shrinking as the last one did, would move no latent value,
      in units of its prior standard deviation, by more than `tolerance` times the largest.
    - `max_escalations`: how often the nugget may be raised tenfold when a Cholesky factorisation fails.
    - `max_halvings`: how far the line search shortens a step.
    """

    name: ClassVar[str] = "full-batch"
    constraints: str | None = None
    regularization: float | None = None
    max_steps: int = 50
    tolerance: float = 1e-6
    max_escalations: int = 5
    max_halvings: int = 20

    def __check_init__(self) -> None:
        if self.constraints is not None and self.constraints not in FORMS:
            raise ValueError(f"`FullBatch`: `constraints` must be one of {FORMS} or None; came {self.constraints!r}.")
        if self.regularization is not None:
            check_positive("FullBatch", "regularization", self.regularization)
            if self.constraints != "relax":
                raise ValueError(
                    '`FullBatch`: `regularization` is the weight of `constraints="relax"`; '
                    f"with {self.constraints!r} leave it out."
                )
        check_positive("FullBatch", "tolerance", self.tolerance)
        check_count("FullBatch", "max_steps", self.max_steps, least=1)
        check_count("FullBatch", "max_escalations", self.max_escalations)
        check_count("FullBatch", "max_halvings", self.max_halvings)

    @property
    def form(self) -> str:
        return self.constraints or "linearize"

    def check(self, setup: Setup) -> None:
        if self.form == "eliminate" and not setup.collocation.can_eliminate:
            stuck = [p.name for p in setup.collocation.parts if not p.noisy and p.reading.eliminated is None]
            raise ValueError(
                f'`constraints="eliminate"`: the equation on {stuck} is not affine with a constant coefficient in any of '
                'its functionals, so it cannot be solved for one. Use `constraints="linearize"` or "relax".'
            )

    def init(self, setup: Setup, latent: Float[Array, " size"] | None, seed: int) -> State:
        del seed  # nothing is random here
        matrix, scale = _prior(setup.kernels, setup.collocation.functionals)
        size = setup.collocation.functionals.size
        start = jnp.zeros(size) if latent is None else latent
        return State(start, jnp.zeros(size), matrix, scale, None, setup.nugget, math.inf, math.inf)

    def step(self, setup: Setup, state: State) -> tuple[State, Info, Outcome | None]:
        found = self._attempt(setup, state)
        if isinstance(found, Outcome):
            largest = setup.nugget * NUGGET_GROWTH**self.max_escalations
            return state._replace(nugget=largest if found is Outcome.NOT_POSITIVE_DEFINITE else state.nugget), {}, found
        attempt, lower, nugget = found
        # All numbers at once: each transfer on its own costs as much as a pass over the points.
        numbers = jax.device_get((attempt.damped[1:], attempt.move, attempt.residual, attempt.usable))
        (objective, damping, accepted), move, residual, usable = numbers
        move = float(move)
        info = {
            "objective": float(objective),
            "residual": float(residual),
            "step": move,
            "damping": float(damping),
            "nugget": nugget,
        }
        if not accepted:
            # At the limit of rounding no step can lower the objective any more: that is convergence.
            return state._replace(nugget=nugget), info, Outcome.CONVERGED if move < _ROUNDING_MOVE else Outcome.STALLED
        latent, weights = attempt.damped.point
        if not usable:
            return state, info, Outcome.NOT_FINITE
        new = State(
            latent,
            weights,
            state.gram,
            state.scale,
            lower,
            nugget,
            info["objective"],
            move if info["damping"] == 1.0 else math.inf,
        )
        # Near the limit of rounding the step stays above any tolerance, but neither it nor the objective falls any more.
        still = state.objective - new.objective <= 1e-9 * abs(new.objective) and move > 0.5 * state.move
        settled = move < _ROUNDING_MOVE and still
        # A linear problem is solved by one whole step.
        done = min(move, next_move(move, state.move)) <= self.tolerance or (setup.collocation.linear and info["damping"] == 1.0)
        return new, info, Outcome.CONVERGED if done or settled else None

    def _attempt(self, setup: Setup, state: State) -> "tuple[_Attempt, Array | None, float] | Outcome":
        """A step with the first nugget that admits its factorisations, the prior's factor where one is needed, that nugget."""
        # A start that the user gave has no norm to compare with: its first step is taken whole.
        whole = jnp.asarray(math.isinf(state.objective) and bool(jnp.any(state.latent)))
        already = round(math.log(state.nugget / setup.nugget, NUGGET_GROWTH))
        for nugget in nugget_levels(state.nugget, self.max_escalations - already):
            lower = state.lower
            if self.form == "eliminate" and (lower is None or nugget != state.nugget):
                lower, good = _factored_prior(state.gram, nugget * state.scale)
                if not good:
                    continue
            attempt = _step(self, setup.collocation, state[:4], lower, jnp.asarray(nugget), whole)
            finite, factored = jax.device_get((attempt.finite, attempt.factored))
            if not finite:
                return Outcome.NOT_FINITE  # which no nugget can help
            if factored:
                return attempt, lower, nugget
        return Outcome.NOT_POSITIVE_DEFINITE

    def latent(self, state: State) -> Float[Array, " size"]:
        return state.latent

    def nugget(self, setup: Setup, state: State) -> float:
        return state.nugget

    def predictor(self, setup: Setup, state: State) -> AbstractPredictor:
        rows, noise = _linearized(self, setup.collocation, state.latent, state.gram, jnp.asarray(state.nugget))
        prior_nugget = jnp.zeros_like(state.scale) if self.form == "linearize" else state.nugget * state.scale
        return Representer(setup.kernels, setup.collocation.functionals, state.weights, rows, prior_nugget, noise)

    def noise(
        self, collocation: Collocation, rows: Rows, matrix: BlockGram, nugget: Float[Array, ""]
    ) -> Float[Array, " equations"]:
        r"""The diagonal of $\Lambda$."""
        variance = collocation.noise_variance
        if self.form == "linearize":
            return variance + nugget * rows.conditioned_diagonal(matrix)
        if self.form == "relax":
            relaxed = nugget if self.regularization is None else self.regularization
            return variance + jnp.where(collocation.noisy, 0.0, relaxed)
        return variance


class _Attempt(NamedTuple):
    """A step and what can be said of it: the equations and the point it reached are `finite` and `usable` numbers."""

    damped: Damped
    finite: Bool[Array, ""]
    factored: Bool[Array, ""]
    move: Float[Array, ""]
    residual: Float[Array, ""]
    usable: Bool[Array, ""]


@eqx.filter_jit
def _prior(kernels: Kernels, functionals: Functionals) -> tuple[BlockGram, Float[Array, " size"]]:
    return block_gram(kernels, functionals), nugget_scale(kernels, functionals)


@eqx.filter_jit
def _factored_prior(matrix: BlockGram, diagonal: Float[Array, " size"]) -> tuple[Float[Array, "size size"], Bool[Array, ""]]:
    return factor(matrix.plus_diagonal(diagonal).dense())


@eqx.filter_jit
def _linearized(
    method: FullBatch,
    collocation: Collocation,
    latent: Float[Array, " size"],
    matrix: BlockGram,
    nugget: Float[Array, ""],
) -> tuple[Rows, Float[Array, " equations"]]:
    rows = collocation.linearize(latent).rows
    return rows, method.noise(collocation, rows, matrix, nugget)


@eqx.filter_jit
def _step(
    method: FullBatch,
    collocation: Collocation,
    state: tuple[Array, Array, BlockGram, Array],
    lower: Float[Array, "size size"] | None,
    nugget: Float[Array, ""],
    whole: Bool[Array, ""],
) -> _Attempt:
    """One Gauss-Newton step in any of the three forms."""
    z, w, gram_matrix, scale = state
    if lower is not None:
        z = collocation.eliminate(z)
    linear = collocation.linearize(z)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(linear)]))
    prior_nugget = jnp.zeros_like(scale) if method.form == "linearize" else nugget * scale
    prior = gram_matrix if method.form == "linearize" else gram_matrix.plus_diagonal(prior_nugget)
    noise = method.noise(collocation, linear.rows, gram_matrix, nugget)
    s_lower, factored = factor(add_diagonal(linear.rows.conditioned(prior), noise))
    dual = solve(s_lower, linear.rhs)
    w_full = linear.rows.transpose_times(dual)
    z_full = gram_matrix @ w_full + prior_nugget * w_full
    hard = noise <= 0

    def soft(z: Array) -> Array:
        r = collocation.residual(z)
        return 0.5 * jnp.sum(jnp.where(hard, 0.0, r**2 / jnp.where(hard, 1.0, noise)))

    def trial(t: Array) -> tuple[tuple[Array, Array], Array]:
        z_t, w_t = z + t * (z_full - z), w + t * (w_full - w)
        if lower is None:
            return (z_t, w_t), 0.5 * w_t @ z_t + soft(z_t)
        z_t = collocation.eliminate(z_t)
        return (z_t, w_t), 0.5 * jnp.sum(half_solve(lower, z_t) ** 2) + soft(z_t)

    _, current = trial(jnp.zeros(()))
    damped = backtrack(trial, jnp.where(whole, jnp.inf, current), max_halvings=method.max_halvings)
    if lower is not None:
        damped = damped._replace(point=(damped.point[0], solve(lower, damped.point[0])))
    unit = jnp.sqrt(scale)
    size = jnp.max(jnp.abs(z_full) / unit)
    move = jnp.max(jnp.abs(z_full - z) / unit) / jnp.where(size > 0, size, 1.0)
    residual = jnp.sqrt(jnp.mean(collocation.residual(damped.point[0]) ** 2))
    return _Attempt(damped, finite, factored, move, residual, jnp.all(jnp.isfinite(damped.point[0])))
