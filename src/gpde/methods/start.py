r"""Where Gauss-Newton starts: the prior conditioned on the equations that are linear as they stand.

Boundary and initial values, data and linear equations say something before any linearisation: with their rows $\Psi$ and right
sides $b$, $u = \kappa(\cdot,\phi)\,\Psi^T(\Psi\Theta\Psi^T + \Lambda)^{-1} b$. Zero, the mean of the prior, is worse where the
equations degenerate there: $-\Delta(u^3) + u = f$ has the linearisation $u = f$ at zero and never leaves it. A few of the
points are enough.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.collocation import Collocation, Part, Rows
from gpde.collocation.neighbours import Metric
from gpde.collocation.thinning import restricted, thinned
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import block_gram
from gpde.functionals.functionals import Functionals, Kernels
from gpde.linalg.cholesky import cholesky_solve, factor
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup
from gpde.methods.representer import operator_table

_NUM_POINTS = 400
# A start is rough anyway, and with it always has its factorisation.
_NUGGET = 1e-8


class Start(eqx.Module):
    r"""A function $u = \kappa(\cdot, \phi)\,w$ on some of a problem's functionals, and where these lie among all."""

    functionals: Functionals
    weights: Float[Array, " some"]
    places: Int[np.ndarray, " some"]

    def table(
        self, kernels: Kernels, operators: Sequence[LinearOperator], points: Float[np.ndarray, "points dim"]
    ) -> Float[np.ndarray, "points operators"]:
        """Operators of it at points."""
        return operator_table(kernels, self.functionals, self.weights, operators, points)

    def latent(self, setup: Setup) -> Float[Array, " size"]:
        """Its latent values at all points of a problem, computed in one program: all operators everywhere."""
        collocation = setup.collocation
        operators = collocation.functionals.operators
        table = self.table(setup.kernels, operators, np.concatenate([np.asarray(p.points) for p in collocation.parts]))
        latent, first = np.zeros(collocation.functionals.size), 0
        for part in collocation.parts:
            slots = [operators.index(operator) for operator in part.reading.operators]
            latent[part.indices] = table[first : first + part.num_points, slots]
            first += part.num_points
        return on_device(latent)

    def on_all(self, size: int) -> Float[Array, " size"]:
        """Its weights on all functionals, most of them zero."""
        weights = np.zeros(size)
        weights[self.places] = self.weights
        return on_device(weights)


def linear_start(setup: Setup) -> Start | None:
    """The mean of the prior given the linear equations alone; None where that is zero, or where all equations are linear and
    one step solves them."""
    collocation = setup.collocation
    if collocation.linear or not any(_linear(part).any() for part in collocation.parts):
        return None
    metric = Metric.of(setup.kernels, collocation.parts[0].points.shape[1])
    some = restricted(collocation, [np.arange(p.num_points if _linear(p).any() else 0) for p in collocation.parts])
    few = thinned(some.collocation, metric, _NUM_POINTS)
    weights, good = _conditioned(setup.kernels, few.collocation)
    if not good or not np.any(np.asarray(weights)):
        return None
    return Start(few.collocation.functionals, weights, some.places[few.places])


def starting_latent(setup: Setup) -> Float[Array, " size"]:
    """The latent values of `linear_start`, or zero."""
    start = linear_start(setup)
    return on_device(np.zeros(setup.collocation.functionals.size)) if start is None else start.latent(setup)


def _linear(part: Part) -> Bool[np.ndarray, " equations"]:
    return np.array([kind.linear for kind in part.reading.kinds])


@eqx.filter_jit
def _conditioned(kernels: Kernels, collocation: Collocation) -> tuple[Float[Array, " size"], Bool[Array, ""]]:
    """The weights of the mean given the linear equations of a problem, and whether they are numbers."""
    tables, rhs, noise = [], [], []
    for part in collocation.parts:
        linear = np.flatnonzero(_linear(part))
        values = jnp.zeros((part.num_points, len(part.starts)))
        tables.append(part.row_table(part.gradient(values)[:, linear]))
        rhs.append(-part.row_values(part.residual(values))[:, linear].T.reshape(-1))
        noise.append(part.row_values(part.noise_variance)[:, linear].T.reshape(-1))
    rows, variance = Rows(tuple(tables), collocation.functionals.size), jnp.concatenate(noise)
    gram = block_gram(kernels, collocation.functionals, rows.layout)
    own = rows.conditioned_diagonal(gram)
    lower, good = factor(rows.conditioned(gram, variance + jnp.where(own == 0, 1.0, _NUGGET * own)))
    weights = rows.transpose_times(cholesky_solve(lower, jnp.concatenate(rhs)))
    return weights, good & jnp.all(jnp.isfinite(weights))
