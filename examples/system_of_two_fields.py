r"""Two unknowns: a predator and its prey at rest, $-\Delta u + uv = f$, $-\Delta v - u^2 = g$, each with its own kernel."""

import jax
import jax.numpy as jnp

import gpde
from gpde import laplacian

jax.config.update("jax_enable_x64", True)


def exact_u(x):
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])


def exact_v(x):
    return x[0] * x[1] * jnp.cos(x[1])


def prey(u, v, x):
    return -laplacian(u)(x) + u(x) * v(x)


def predator(u, v, x):
    return -laplacian(v)(x) - u(x) ** 2


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    fields=("u", "v"),
    equations={
        "interior": [
            lambda u, v, x: prey(u, v, x) - prey(exact_u, exact_v, x),
            lambda u, v, x: predator(u, v, x) - predator(exact_u, exact_v, x),
        ],
        "boundary": [lambda u, v, x: u(x), lambda u, v, x: v(x) - exact_v(x)],
    },
    reference=lambda x: (exact_u(x), exact_v(x)),
)

if __name__ == "__main__":
    kernels = {"u": gpde.Gaussian(0.4), "v": gpde.Gaussian(0.6)}
    solution = gpde.solve(problem, kernels, num_interior=100, num_boundary=60, nugget=1e-12, seed=3)
    points = problem.domain.grid((30, 30))
    truth = jax.vmap(lambda x: jnp.stack([exact_u(x), exact_v(x)]))(points)
    error = abs(solution(points) - truth).max(axis=0)
    print(f"{solution.result}; largest error {error[0]:.1e} in u, {error[1]:.1e} in v")
    solution.plot("system_of_two_fields.png")
