r"""Measurements in place of boundary values: $-u'' + u^3 = f$ with 25 noisy values of $u$, and error bars that say so.

The equation leaves two constants open, which the data have to settle. So the error bars are right on average over data
sets, and not over the points of one: an unlucky draw, as this one, shifts the whole curve.
"""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import laplacian

jax.config.update("jax_enable_x64", True)

NOISE = 0.05


def exact(x):
    return jnp.sin(2 * jnp.pi * x[0]) + x[0]


def left_side(u, x):
    return -laplacian(u)(x) + u(x) ** 3


rng = np.random.default_rng(0)
places = np.sort(rng.random(25))[:, None]
measured = np.asarray(jax.vmap(exact)(places)) + NOISE * rng.standard_normal(25)

problem = gpde.Problem(
    domain=gpde.Box(0.0, 1.0),
    equations={"interior": lambda u, x: left_side(u, x) - left_side(exact, x)},
    observations=gpde.Observations(places, measured, noise=NOISE),
    reference=exact,
)

if __name__ == "__main__":
    solution = gpde.solve(problem, gpde.Matern(7 / 2, 0.3), num_interior=60, sampling="grid", nugget=1e-10)
    points = problem.domain.grid((200,))
    error, std = abs(solution(points) - jax.vmap(exact)(points)), solution.std(points)
    print(f"{solution.result}; largest error {error.max():.1e} from data with noise {NOISE:.0e}")
    print(f"root mean square of error / standard deviation: {np.sqrt(np.mean((error / std) ** 2)):.1f}")
    solution.plot("noisy_observations.png")
