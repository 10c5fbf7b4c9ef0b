"""A PDE of one's own: write the equation as on paper, solve, evaluate, differentiate.

The same file works from the command line: `gpde solve examples/own_pde.py`.
"""

import jax
import jax.numpy as jnp

import gpde
from gpde import laplacian

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1])


def left_side(u, x):
    return -laplacian(u)(x) + jnp.exp(u(x))


def equation(u, x):  # zero where it holds; the exact solution gives the right-hand side
    return left_side(u, x) - left_side(exact, x)


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={"interior": equation, "boundary": lambda u, x: u(x)},
    reference=exact,
    name="own_pde",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.3), num_interior=200, num_boundary=80, nugget=1e-12, grid=(40, 40)),
)

if __name__ == "__main__":
    problem.describe()
    solution = gpde.solve(problem, seed=7)
    points = problem.domain.grid((40, 40))
    error = abs(solution(points) - jax.vmap(exact)(points)).max()
    print(f"{solution.result}; largest error {error:.1e}, largest residual {abs(solution.residual(points)).max():.1e}")
    print("u and its Laplacian at the centre:", solution([[0.5, 0.5]]), solution.apply(laplacian, [[0.5, 0.5]]))
    solution.plot("own_pde.png")
    solution.save("own_pde.npz")
