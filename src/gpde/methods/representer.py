r"""The global representer $u = \kappa(\cdot, \phi)\, w$ (2.15), evaluated in chunks so that memory stays bounded."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.collocation.collocation import Rows
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import block_gram
from gpde.functionals.functionals import Functionals, Kernels, covariance, pair_covariance
from gpde.linalg.cholesky import half_solve, large_factor
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor

# Entries of the cross covariance held at once: 2^24 doubles are 128 MB.
_CHUNK_ENTRIES = 2**24


class Representer(AbstractPredictor):
    r"""$u = \kappa(\cdot, \phi)\, w$ with the covariance of the linearised problem."""

    kernels: Kernels
    functionals: Functionals
    weights: Float[Array, " size"]
    rows: Rows
    prior_nugget: Float[Array, " size"]
    noise: Float[Array, " equations"]

    def raw_values(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        return operator_table(self.kernels, self.functionals, self.weights, operators, points)

    def raw_variances(
        self, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        lower, good = self.once(lambda: _conditioning_factor(self))
        if not good:
            raise ValueError(
                "`std`: the covariance of the problem linearised at the solution is not positive definite, so there is no "
                "standard deviation. Raise `nugget` and solve again; see `solution.result` for how the run ended."
            )
        evaluate = eqx.Partial(_variances, tuple(operators), self, lower)
        return in_chunks(evaluate, points, 3 * self.functionals.size * len(operators))


@eqx.filter_jit
def _values(
    operators: tuple[LinearOperator, ...],
    kernels: Kernels,
    functionals: Functionals,
    weights: Float[Array, " size"],
    points: Float[Array, "chunk dim"],
) -> Float[Array, "chunk operators"]:
    columns = [covariance(kernels, Functionals((o,), (points,)), functionals) @ weights for o in operators]
    return jnp.stack(columns, axis=1)


@eqx.filter_jit
def _conditioning_factor(predictor: Representer) -> tuple[Float[Array, "equations equations"], Bool[Array, ""]]:
    prior = block_gram(predictor.kernels, predictor.functionals, predictor.rows.layout).plus_diagonal(predictor.prior_nugget)
    return large_factor(predictor.rows.conditioned(prior, predictor.noise))


@eqx.filter_jit
def _variances(
    operators: tuple[LinearOperator, ...],
    predictor: Representer,
    lower: Float[Array, "equations equations"],
    points: Float[Array, "chunk dim"],
) -> Float[Array, "chunk operators"]:
    columns = []
    for operator in operators:
        cross = covariance(predictor.kernels, predictor.functionals, Functionals((operator,), (points,)))
        half = half_solve(lower, predictor.rows.times(cross))
        pair = pair_covariance(predictor.kernels, operator, operator)
        columns.append(jax.vmap(lambda p, pair=pair: pair(p, p))(points) - jnp.sum(half**2, axis=0))
    return jnp.maximum(jnp.stack(columns, axis=1), 0.0)


def operator_table(
    kernels: Kernels,
    functionals: Functionals,
    weights: Float[Array, " size"],
    operators: Sequence[LinearOperator],
    points: Float[np.ndarray, "points dim"],
) -> Float[np.ndarray, "points operators"]:
    r"""$(L_k u)(x_i)$ of $u = \kappa(\cdot, \phi)\,w$."""
    evaluate = eqx.Partial(_values, tuple(operators), kernels, functionals, weights)
    return in_chunks(evaluate, points, functionals.size * len(operators))


def in_chunks(
    evaluate: Callable[[Float[Array, "chunk dim"]], Float[Array, "chunk columns"]],
    points: Float[np.ndarray, "points dim"],
    entries_per_point: int,
) -> Float[np.ndarray, "points columns"]:
    """Evaluates points in chunks of one size, so that memory is bounded and one shape is compiled."""
    size = max(1, min(len(points), _CHUNK_ENTRIES // max(1, entries_per_point)))
    pieces = []
    for first in range(0, len(points), size):
        chunk = points[first : first + size]
        padded = np.concatenate([chunk, np.repeat(chunk[-1:], size - len(chunk), axis=0)])
        pieces.append(np.asarray(evaluate(on_device(padded)))[: len(chunk)])
    return np.concatenate(pieces)
