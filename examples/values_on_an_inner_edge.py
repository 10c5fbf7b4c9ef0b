r"""Conditions inside the domain: values of u on a segment are exact `Observations`, data without noise.

A thin electrode lies in a square: $\Delta u = f$, and on the segment $y = \tfrac12$, $\tfrac14 < x < \tfrac34$ the
potential is known. On the outer boundary only derivatives are given, so the electrode alone tells the level.
"""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import laplacian, partial

jax.config.update("jax_enable_x64", True)


def exact(x):
    return 2.0 + jnp.cos(jnp.pi * x[0]) * jnp.cos(jnp.pi * x[1])


def slope(axis):
    return lambda u, x: partial(u, axis)(x)


electrode = np.column_stack([np.linspace(0.25, 0.75, 21), np.full(21, 0.5)])
problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={
        "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
        "left": slope(0),
        "right": slope(0),
        "bottom": slope(1),
        "top": slope(1),
    },
    observations=[gpde.Observations(electrode, np.array(jax.vmap(exact)(electrode)))],
    reference=exact,
)

if __name__ == "__main__":
    kernel = gpde.Gaussian(0.4) + gpde.Offset(2.0)  # the level is not known beforehand
    solution = gpde.solve(problem, kernel, num_interior=200, num_boundary=80, nugget=1e-12)
    points = problem.domain.grid((30, 30))
    print(f"{solution.result}; largest error {abs(solution(points) - jax.vmap(exact)(points)).max():.1e}")
