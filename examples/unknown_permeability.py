"""An unknown coefficient, which is a field: the permeability of the ground from heads in wells, with its error bars."""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import partial

jax.config.update("jax_enable_x64", True)
NOISE = 1e-3


def head(x):
    return x[0] + 0.1 * jnp.sin(jnp.pi * x[0])


def log_permeability(x):
    return 1.0 + 0.5 * jnp.cos(3 * x[0])


def flux(u, a):
    return lambda x: jnp.exp(a(x)) * partial(u, 0)(x)


def darcy(u, a, x):  # (eᵃ u')' is what a known pumping makes it
    return partial(flux(u, a), 0)(x) - partial(flux(head, log_permeability), 0)(x)


domain = gpde.Box(0.0, 1.0)
wells = domain.sample("interior", 40, sampling="sobol", seed=1)
heads = np.asarray(jax.vmap(head)(wells)) + NOISE * np.random.default_rng(0).normal(size=len(wells))
problem = gpde.Problem(
    domain=domain,
    equations={
        "interior": darcy,
        "boundary": lambda u, a, x: u(x) - head(x),
        "left": [lambda u, a, x: u(x) - head(x), lambda u, a, x: flux(u, a)(x) - flux(head, log_permeability)(x)],
    },
    fields={"u": None, "a": gpde.Unknown(mean=1.0)},  # before the data speak, log permeability is expected about 1
    observations=gpde.Observations(wells, heads, noise=NOISE),
    reference=lambda x: (head(x), log_permeability(x)),
    name="unknown_permeability",
    defaults=gpde.Defaults(
        kernel={"u": gpde.Gaussian(0.4) + gpde.Offset(), "a": gpde.Gaussian(0.4, amplitude=0.5)}, num_interior=40, nugget=1e-10
    ),
)

if __name__ == "__main__":
    solution = gpde.solve(problem)
    points = domain.grid((100,))
    error = np.abs(solution(points)[:, 1] - jax.vmap(log_permeability)(points))
    print(f"{solution.result.outcome.name.lower()}: log permeability to {error.max():.3f}; "
          f"{np.mean(error < 2 * solution.std(points)[:, 1]):.0%} of it within two standard deviations")  # fmt: skip
