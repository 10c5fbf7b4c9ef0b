r"""Sides have names: heat flows in on the left, nothing passes the bottom, and two sides are held at a temperature.

A box in the plane has the sides `left`, `right`, `bottom` and `top`; `problem.describe()` lists what holds on each. The exact
solution is $u = \cos(\pi y / 2) \sinh(\pi (1 - x)/2)$, for which $\Delta u = 0$.
"""

import jax
import jax.numpy as jnp

import gpde
from gpde import laplacian, partial

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.cos(jnp.pi * x[1] / 2) * jnp.sinh(jnp.pi * (1 - x[0]) / 2)


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={
        "interior": lambda u, x: laplacian(u)(x),
        "left": lambda u, x: partial(u, 0)(x) - partial(exact, 0)(x),  # Neumann: a derivative is given
        "bottom": lambda u, x: partial(u, 1)(x),  # insulated
        "right": lambda u, x: u(x),  # Dirichlet: a value is given
        "top": lambda u, x: u(x),
    },
    reference=exact,
)

if __name__ == "__main__":
    problem.describe()
    solution = gpde.solve(problem, gpde.Gaussian(0.6), num_interior=150, num_boundary=80, nugget=1e-12)
    points = problem.domain.grid((30, 30))
    print(f"{solution.result}; largest error {abs(solution(points) - jax.vmap(exact)(points)).max():.1e}")
