r"""A disk that gives off heat: $-\Delta u + u^3 = f$ with $\partial_n u + 2u = g$ on the rim, and a hole held at a temperature.

An equation on the boundary may take the outward normal, whatever the shape. Domains are added and cut, and `with_parts` gives
names to pieces of their boundary: here `hole`, whose equation wins over that of the rest.
"""

import jax
import jax.numpy as jnp

import gpde
from gpde import directional, laplacian

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.exp(0.5 * x[0]) * jnp.sin(2 * x[1] + 0.3)


def left_side(u, x):
    return -laplacian(u)(x) + u(x) ** 3


def given_off(u, x, n):  # Robin: the flux outward, and what the surroundings take
    return directional(u, n)(x) + 2 * u(x)


disk = gpde.Ball((0.0, 0.0), 1.0) - gpde.Ball((0.2, 0.1), 0.3)
problem = gpde.Problem(
    domain=disk.with_parts(hole=lambda x: x[0] ** 2 + x[1] ** 2 < 0.9),
    equations={
        "interior": lambda u, x: left_side(u, x) - left_side(exact, x),
        "boundary": lambda u, x, n: given_off(u, x, n) - given_off(exact, x, n),
        "hole": lambda u, x: u(x) - exact(x),
    },
    reference=exact,
)

if __name__ == "__main__":
    problem.describe()
    solution = gpde.solve(problem, gpde.Gaussian(0.6), num_interior=200, num_boundary=100, nugget=1e-12)
    points = problem.domain.test_points((30, 30))
    print(f"{solution.result}; largest error {abs(solution(points) - jax.vmap(exact)(points)).max():.1e}")
