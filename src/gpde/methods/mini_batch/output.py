r"""The output step (2.11): the proximal problem on all points at once, with weight $\rho$ around the chosen iterate."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.linalg.cholesky import cholesky_solve
from gpde.linalg.escalation import nugget_levels
from gpde.machine.arrays import on_device
from gpde.methods.base import Setup
from gpde.methods.mini_batch.proximal import ProximalProblem, Step
from gpde.methods.representer import Representer


def global_representer(
    setup: Setup,
    problem: ProximalProblem,
    values: Float[Array, "points operators"],
    nugget: float,
    weight: float,
    max_escalations: int,
) -> Representer:
    r"""$u = \kappa(\cdot, \phi)(\kappa(\phi,\phi) + \eta R)^{-1} \hat z$ with all points in one batch: cubic work."""
    etas = nugget_levels(nugget, max_escalations)
    for eta in etas:
        step, weights = _solved(problem, values, on_device(eta), on_device(weight))
        if step.good:
            return _representer(setup, problem, step, weights, eta)
    raise ValueError(
        '`prediction="global"`: the covariance of all points is not positive definite even with the nugget '
        f'{etas[-1]:.1e}. Raise `nugget`, or use `prediction="local"`.'
    )


def _representer(
    setup: Setup, problem: ProximalProblem, step: Step, weights: Float[Array, "points operators"], eta: float
) -> Representer:
    table, collocation = problem.table, setup.collocation
    rows = eqx.filter_jit(collocation.linearize)(table.scatter(step.values)).rows
    relaxed = 0.0 if problem.eliminate else problem.regularization * table.num_points
    noise = collocation.noise_variance + jnp.where(collocation.noisy, 0.0, relaxed)
    scale = jnp.broadcast_to(problem.nugget_scale, table.latent.shape)
    return Representer(setup.kernels, collocation.functionals, table.scatter(weights), rows, eta * table.scatter(scale), noise)


@eqx.filter_jit
def _solved(
    problem: ProximalProblem, values: Float[Array, "points operators"], nugget: Float[Array, ""], weight: Float[Array, ""]
) -> tuple[Step, Float[Array, "points operators"]]:
    batch = problem.batch(jnp.arange(problem.table.num_points), nugget, weight)
    step = problem.step(batch, values, weight)
    unit = batch.prior.unit
    weights = cholesky_solve(batch.prior.lower, (step.values.T / unit).reshape(-1)).reshape(unit.shape) / unit
    return step, weights.T
