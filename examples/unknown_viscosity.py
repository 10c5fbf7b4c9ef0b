"""The viscosity of Burgers' equation from noisy measurements of a wave: an unknown scalar, estimated with its error bar."""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import partial

jax.config.update("jax_enable_x64", True)
VISCOSITY, NOISE = 0.1, 0.01


def wave(x):  # a front of height 1 that travels at speed 1/2
    return 0.5 - 0.5 * jnp.tanh((x[1] - 0.5 * x[0]) / (4 * VISCOSITY))


def burgers(u, x, nu):  # takes the scalar by its name
    return partial(u, 0)(x) + u(x) * partial(u, 1)(x) - nu * partial(u, 1, 1)(x)


def measured(seed=0):
    domain = gpde.SpaceTime((-1.0, 1.0), 0.0, 1.0)
    places = domain.sample("interior", 60, seed=seed + 1)
    values = np.asarray(jax.vmap(wave)(places)) + NOISE * np.random.default_rng(seed).normal(size=60)
    return gpde.Problem(
        domain=domain,
        equations={"interior": burgers, "initial": lambda u, x: u(x) - wave(x), "boundary": lambda u, x: u(x) - wave(x)},
        observations=gpde.Observations(places, values, noise=NOISE),
        parameters={"nu": gpde.Parameter(initial=0.3, lower=0.0)},
        reference=wave,
        name="unknown_viscosity",
        defaults=gpde.Defaults(
            kernel=gpde.Gaussian((0.4, 0.2)) + gpde.Offset(), num_interior=150, num_boundary=60, nugget=1e-9
        ),
    )


problem = measured()

if __name__ == "__main__":
    solution = gpde.solve(problem)
    nu = solution.parameters["nu"]
    print(f"{solution.result.outcome.name.lower()}: viscosity {nu.value:.4f} ± {nu.std:.4f}, in truth {VISCOSITY}")
    points = problem.domain.grid((20, 40))
    print(f"largest error of the wave {abs(solution(points) - jax.vmap(wave)(points)).max():.1e}")
