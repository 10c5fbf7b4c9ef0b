r"""Coefficients that depend on the point and on the solution: $-\nabla \cdot (a(x, u) \nabla u) = f$."""

import jax
import jax.numpy as jnp

import gpde
from gpde import divergence, gradient

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.sin(jnp.pi * x[0]) * x[1] * (1 - x[1])


def left_side(u, x):
    def flux(y):
        conductivity = 1.0 + 0.5 * jnp.sin(3 * y[0]) + u(y) ** 2
        return conductivity * gradient(u)(y)

    return -divergence(flux)(x)


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={
        "interior": lambda u, x: left_side(u, x) - left_side(exact, x),
        "boundary": lambda u, x: u(x) - exact(x),
    },
    reference=exact,
)

if __name__ == "__main__":
    # Low-discrepancy points fill the square more evenly than random ones.
    solution = gpde.solve(
        problem, gpde.Gaussian(0.4), num_interior=150, num_boundary=60, sampling="sobol", nugget=1e-12, seed=1
    )
    points = problem.domain.grid((30, 30))
    error = abs(solution(points) - jax.vmap(exact)(points)).max()
    print(f"{solution.result}; largest error {error:.1e}")
