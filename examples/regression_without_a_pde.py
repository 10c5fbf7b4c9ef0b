"""Regression without an equation: a curve from sensors that saturate, and a few slopes. Measurements may be nonlinear."""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import partial

jax.config.update("jax_enable_x64", True)
NOISE = 0.01


def curve(x):
    return jnp.sin(5 * x[0]) + x[0]


def sensor(u):  # what a sensor shows of u: nonlinear, so that it is solved by Gauss-Newton as an equation is
    return lambda x: jnp.tanh(u(x))


def slope(u):
    return partial(u, 0)


def measured(operator, num, seed):
    domain = gpde.Box(0.0, 2.0)
    places = domain.sample("interior", num, sampling="sobol", seed=seed)
    noise = NOISE * np.random.default_rng(seed).normal(size=num)
    return gpde.Observations(places, np.asarray(jax.vmap(operator(curve))(places)) + noise, noise=NOISE, operator=operator)


problem = gpde.Problem(
    domain=gpde.Box(0.0, 2.0),
    equations={},
    observations=[measured(sensor, 40, seed=0), measured(slope, 12, seed=1)],
    reference=curve,
    name="regression_without_a_pde",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.4, amplitude=2.0), nugget=1e-10),
)

if __name__ == "__main__":
    solution = gpde.solve(problem)
    points = problem.domain.grid((200,))
    error, std = np.abs(solution(points) - jax.vmap(curve)(points)), solution.std(points)
    print(f"{solution.result.outcome.name.lower()}: largest error {error.max():.3f}, standard deviation there "
          f"{std[error.argmax()]:.3f}; {np.mean(error < 2 * std):.0%} lie within two of them")  # fmt: skip
