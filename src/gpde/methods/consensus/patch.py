r"""Local Gaussian processes on patches of points: what one patch says about the values at its points.

In a patch the prior is conditioned on the linearised equations $\psi = b$ and on the values $w = (u(x_i))_i$ at its points.
With $LL^T$ the Cholesky factor of the covariance of $(\psi, \delta)$, equations first,

$$ L = \begin{pmatrix} L_1 & 0 \\ L_{21} & L_2 \end{pmatrix}, \qquad
   m = L_{21} L_1^{-1} b, \qquad S = L_2 L_2^T, \qquad
   \min_u \|u\|^2 = (w - m)^T S^{-1} (w - m) + \mathrm{const}. $$

$m$ is the local mean at the points given the equations alone, $S$ its covariance. Vectors over a patch run equation by
equation, then field by field, and within each member by member.
"""

import itertools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.functionals.combinations import combined, total
from gpde.functionals.functionals import Kernels, block
from gpde.kernels.compose import stretched


class Equations(eqx.Module):
    r"""The linearised equations by point: $a_i \cdot (L_1u, L_2u, \dots)(x_i) = b_i$, with a variance.

    `used` is False where a point has no such equation, and for Dirichlet conditions, which fix values instead.
    """

    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    num_fields: int = eqx.field(static=True)
    points: Float[Array, "points dim"]
    coefficients: Float[Array, "points equations operators"]
    rhs: Float[Array, "points equations"]
    noise_variance: Float[Array, "points equations"]
    used: Bool[Array, "points equations"]


class Reduced(NamedTuple):
    r"""A patch seen from the values $w$ at its points: $S^{-1}$, the pull $S^{-1}(m - w)$, and whether there is a factor."""

    precision: Float[Array, "values values"]
    pull: Float[Array, " values"]
    good: Bool[Array, ""]


def stretched_all(kernels: Kernels, factor: Float[Array, " dim"]) -> Kernels:
    """The kernels of a patch whose lengthscales are its own."""
    return tuple(stretched(kernel, factor) for kernel in kernels)


def misfit(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    values: Float[Array, " values"],
    nugget: Float[Array, ""],
) -> Float[Array, ""]:
    r"""How badly a patch's kernel explains its equations and the values at its points together: the negative log likelihood
    per functional with the best amplitude, $\tfrac12\log(|L^{-1}(b, w)|^2/n) + \log\det L / n$; infinite without a factor."""
    lower, rhs, _ = _factored(equations, kernels, members, nugget)
    half = solve_triangular(lower, jnp.concatenate([rhs, values])[:, None], lower=True)[:, 0]
    counted = jnp.concatenate([equations.used[members].T.reshape(-1), jnp.ones(values.shape[0], dtype=bool)])
    n = jnp.sum(counted)
    found = 0.5 * jnp.log(jnp.sum(half**2) / n) + jnp.sum(jnp.log(jnp.diagonal(lower))) / n
    return jnp.where(jnp.isfinite(found), found, jnp.inf)


def reduce(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    values: Float[Array, " values"],
    nugget: Float[Array, ""],
) -> Reduced:
    r"""One patch reduced to the values at its points: $h = L_1^{-1} b$, then $L_2^{-1} (L_{21} h, I) = L_2^{-1} (m, I)$."""
    lower, rhs, good = _factored(equations, kernels, members, nugget)
    split, num_values = rhs.shape[0], lower.shape[0] - rhs.shape[0]
    half = solve_triangular(lower[:split, :split], rhs, lower=True)
    right = jnp.concatenate([(lower[split:, :split] @ half)[:, None], jnp.eye(num_values)], axis=1)
    solved = solve_triangular(lower[split:, split:], right, lower=True)
    mean, inverse = solved[:, 0], solved[:, 1:]
    return Reduced(inverse.T @ inverse, inverse.T @ (mean - inverse @ values), good)


def draw(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    nugget: Float[Array, ""],
    noise: Float[Array, "values samples"],
) -> Float[Array, "values samples"]:
    r"""$L_2^{-T} \xi$, which has the covariance $S^{-1}$ when $\xi$ has $I$."""
    lower, rhs, _ = _factored(equations, kernels, members, nugget)
    split = rhs.shape[0]
    return solve_triangular(lower[split:, split:], noise, lower=True, trans="T")


def localize(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    values: Float[Array, " values"],
    nugget: Float[Array, ""],
) -> tuple[Float[Array, "members slots"], Bool[Array, ""]]:
    r"""The patch's function given its equations and the values at its points, as weights $W$ of
    $u = \sum_{j,a} W_{ja}\,\kappa(\cdot, \delta_{x_j} \circ L_a)$; the last slots are the values of the fields. And whether
    there is a factor: one that `reduce` found can fail to be found again, by another program with other rounding."""
    lower, rhs, good = _factored(equations, kernels, members, nugget)
    half = solve_triangular(lower, jnp.concatenate([rhs, values])[:, None], lower=True)
    dual = solve_triangular(lower, half, lower=True, trans="T")[:, 0]
    num_members = members.shape[0]
    on_psi = dual[: rhs.shape[0]].reshape(equations.rhs.shape[1], num_members)
    on_operators = jnp.einsum("em,med->md", on_psi, _masked_coefficients(equations, members))
    weights = jnp.concatenate([on_operators, dual[rhs.shape[0] :].reshape(equations.num_fields, num_members).T], axis=1)
    return weights, good & jnp.all(jnp.isfinite(weights))


def evaluate(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    weights: Float[Array, "members slots"],
    operators: tuple[LinearOperator, ...],
    points: Float[Array, "targets dim"],
) -> Float[Array, "targets operators"]:
    """Operators of a patch's function at points."""
    x = equations.points[members]
    columns = []
    for operator in operators:
        total = jnp.zeros(points.shape[0])
        for slot, source in enumerate(slot_operators(equations)):
            total = total + block(kernels, operator, source, points, x) @ weights[:, slot]
        columns.append(total)
    return jnp.stack(columns, axis=1)


def patch_variances(
    equations: Equations,
    kernels: Kernels,
    members: Int[Array, " members"],
    nugget: Float[Array, ""],
    operators: tuple[LinearOperator, ...],
    point: Float[Array, " dim"],
    samples: Float[Array, "values samples"],
) -> Float[Array, " operators"]:
    r"""The variances of operators at a point, given the patch's equations and uncertain values at its points.

    Given the values exactly there is a variance left; samples $\delta w$ of the values, of mean zero, add that of
    $g \cdot \delta w$ with $g$ the weights of the values in the local mean.
    """
    lower, rhs, _ = _factored(equations, kernels, members, nugget)
    x, at = equations.points[members], point[None]
    a = _masked_coefficients(equations, members)

    def cross(operator: LinearOperator) -> Array:
        sources = [block(kernels, operator, source, at, x)[0] for source in equations.operators]
        pieces = [total(a[:, e, k] * source for k, source in enumerate(sources)) for e in range(a.shape[1])]
        return jnp.concatenate(pieces + [block(kernels, operator, value, at, x)[0] for value in _values(equations)])

    half = solve_triangular(lower, jnp.stack([cross(o) for o in operators], axis=1), lower=True)
    prior = jnp.stack([block(kernels, o, o, at, at)[0, 0] for o in operators])
    # The last rows of C^-1 k need the last rows of L^-T alone.
    split = rhs.shape[0]
    weights = solve_triangular(lower[split:, split:], half[split:], lower=True, trans="T")
    return jnp.maximum(prior - jnp.sum(half**2, axis=0), 0.0) + jnp.mean((weights.T @ samples) ** 2, axis=1)


def slot_operators(equations: Equations) -> tuple[LinearOperator, ...]:
    """What a patch's weights multiply: the problem's operators, then the value of each field."""
    return (*equations.operators, *_values(equations))


def _values(equations: Equations) -> tuple[LinearOperator, ...]:
    dim = equations.points.shape[1]
    return tuple(point_value(field, dim) for field in range(equations.num_fields))


def _masked_coefficients(equations: Equations, members: Int[Array, " members"]) -> Float[Array, "members equations operators"]:
    return jnp.where(equations.used[members][..., None], equations.coefficients[members], 0.0)


def _factored(
    equations: Equations, kernels: Kernels, members: Int[Array, " members"], nugget: Float[Array, ""]
) -> tuple[Array, Array, Array]:
    r"""The factor of the covariance of $(\psi, \delta)$, $b$, and whether there is one; the nugget is relative to variances."""
    used = equations.used[members].T.reshape(-1)
    covariance = _covariance(equations, kernels, members)
    num_values = covariance.shape[0] - used.shape[0]
    diagonal = jnp.diagonal(covariance)
    noise = jnp.where(used, equations.noise_variance[members].T.reshape(-1), 1.0)  # masked rows become identity rows
    noise = jnp.concatenate([noise, jnp.zeros(num_values)])
    index = jnp.arange(covariance.shape[0])
    filled = covariance.at[index, index].add(nugget * diagonal + noise)
    lower = jnp.linalg.cholesky(filled.T, symmetrize_input=False)  # by rows: see `cholesky.factor`
    rhs = jnp.where(equations.used, equations.rhs, 0.0)[members].T.reshape(-1)
    return lower, rhs, jnp.isfinite(lower[-1, -1])


def _covariance(
    equations: Equations, kernels: Kernels, members: Int[Array, " members"]
) -> Float[Array, "functionals functionals"]:
    r"""The covariance of $(\psi, \delta)$: operator blocks are summed as they are made, their own Gram is never held."""
    x = equations.points[members]
    a = _masked_coefficients(equations, members)
    operators, values = equations.operators, _values(equations)
    psi = [[(operator, a[:, e, k]) for k, operator in enumerate(operators)] for e in range(a.shape[1])]
    rows = [*psi, *([(value, None)] for value in values)]
    blocks: dict[tuple[int, int], Array] = {}
    for (i, left), (j, right) in itertools.combinations_with_replacement(enumerate(rows), 2):
        found = combined(lambda one, other: block(kernels, one, other, x, x), left, right)
        assert found is not None  # `block` knows no None
        blocks[i, j], blocks[j, i] = (found, found) if i == j else (found, found.T)
    return jnp.block([[blocks[i, j] for j in range(len(rows))] for i in range(len(rows))])
