r"""How far a solution is from the truth: what it would be corrected by, if it had as many points again and a smaller nugget.

At the points of the run and at as many new ones the equations, linearised at the values $z$ of the solution $u$, leave $r$.
With their rows $\Psi$ and the prior covariance $\Theta$ of their functionals, one Gauss-Newton step leads to

$$ v = \kappa(\cdot, \phi)\, \Psi^T (\Psi\Theta\Psi^T + \eta' R)^{-1} (\Psi z - r), $$

nearly the solution on all of these points, and $c = v - u$. Where errors fall quickly with points and nuggets, $v$ is so much
nearer to the truth that $|c|$ is the error of $u$ to a few percent; where they fall slowly, by half say, it is half of it. It
takes one factorisation of twice the size, and asks nothing of how $u$ was found: for linear equations $\Psi z - r$ does not
even depend on it, so that pieces, patches or batches, may be rough where they meet, or not fit together.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.collocation.collocation import Collocation, collocate
from gpde.domains.sampling import generator
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import block_gram
from gpde.functionals.functionals import Kernels
from gpde.linalg.cholesky import cholesky_solve, large_factor
from gpde.linalg.escalation import nugget_levels
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor
from gpde.methods.representer import operator_table
from gpde.problem.problem import PointsByPart, Problem

# Functionals that the Gram matrix of a companion may have, half a gigabyte; and new points for each of the run's, at the least.
_MOST_FUNCTIONALS = 8000
_LEAST_SHARE = 0.5
# Of the run's nugget, and how often it may be raised.
_NUGGET, _ESCALATIONS = 1e-2, 6


def correction(
    problem: Problem,
    predictor: AbstractPredictor,
    kernels: Kernels,
    points: PointsByPart,
    nugget: float,
    operators: tuple[LinearOperator, ...],
    places: Float[np.ndarray, "places dim"],
    seed: int,
) -> Float[np.ndarray, "places operators"] | None:
    """$c$ under some operators at places; None where the run has too many points, or nothing comes of it."""
    own = {part: np.asarray(points[part]) for part in problem.equations}
    size = sum(len(own.get(c.part, points.get(c.part, ()))) * len(c.reading.operators) for c in problem.conditions)
    share = min(1.0, _MOST_FUNCTIONALS / max(size, 1) - 1.0)
    if share < _LEAST_SHARE:
        return None
    fresh = int(generator(seed, "companion").integers(2**31))
    both = {part: _with_new(problem, part, here, share, fresh) for part, here in own.items()}
    collocation = collocate(problem, both)
    groups = zip(collocation.functionals.operators, collocation.functionals.points, strict=True)
    latent = np.concatenate([predictor.values((operator,), np.asarray(where))[:, 0] for operator, where in groups])
    companion = full_step(kernels, collocation, latent, _NUGGET * nugget, operators, places)
    found = None if companion is None else companion - predictor.values(operators, places)
    return found if found is not None and np.isfinite(found).all() else None


def full_step(
    kernels: Kernels,
    collocation: Collocation,
    latent: Float[np.ndarray, " size"],
    nugget: float,
    operators: tuple[LinearOperator, ...],
    places: Float[np.ndarray, "places dim"],
) -> Float[np.ndarray, "places operators"] | None:
    """Where one step of the full GP leads from latent values, under some operators at places; None where no nugget helps."""
    for level in nugget_levels(nugget, _ESCALATIONS):
        weights, good = _companion(kernels, collocation, on_device(latent), on_device(level))
        if good:
            return operator_table(kernels, collocation.functionals, weights, operators, places)
    return None


def places(problem: Problem, num: int) -> Float[np.ndarray, "places dim"]:
    """About `num` places where errors are looked at: all over the domain, or on the parts that have equations, where those are
    on its boundary alone and nothing is known of what it encloses."""
    dim, parts = problem.domain.dim, [c.part for c in problem.conditions if c.observations is None]
    if any(c.observations is not None or problem.domain.is_open(c.part) for c in problem.conditions):
        return problem.domain.test_points((max(2, round(num ** (1 / dim))),) * dim)
    return np.concatenate([problem.sample_part(part, num // len(parts), "sobol", seed=0) for part in parts])


def _with_new(
    problem: Problem, part: str, own: Float[np.ndarray, "points dim"], share: float, seed: int
) -> Float[np.ndarray, "_ dim"]:
    """The points of a part and new ones; the end of an interval has no others."""
    new = problem.sample_part(part, max(1, round(share * len(own))), seed=seed)
    together = np.concatenate([own, new])
    _, first = np.unique(together, axis=0, return_index=True)
    return together[np.sort(first)]


@eqx.filter_jit
def _companion(
    kernels: Kernels, collocation: Collocation, latent: Float[Array, " size"], nugget: Float[Array, ""]
) -> tuple[Float[Array, " size"], Bool[Array, ""]]:
    """The weights of $v$, and whether they are numbers."""
    linear = collocation.linearize(latent)
    gram = block_gram(kernels, collocation.functionals, linear.rows.layout)
    own = linear.rows.conditioned_diagonal(gram)
    noise = collocation.noise_variance + jnp.where(own == 0, 1.0, nugget * own)
    lower, good = large_factor(linear.rows.conditioned(gram, noise))
    weights = linear.rows.transpose_times(cholesky_solve(lower, linear.rhs))
    return weights, good & jnp.all(jnp.isfinite(weights))
