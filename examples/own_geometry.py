"""A geometry of one's own: a smooth blob with a hole, by a formula and a difference; its normals, and a constant that only a
mean fixes."""

import jax
import jax.numpy as jnp

import gpde
from gpde import directional, laplacian

jax.config.update("jax_enable_x64", True)


def blob(x):  # negative inside
    return x[0] ** 2 + x[1] ** 2 + 0.3 * x[0] * x[1] ** 2 - 1.0


def exact(x):
    return jnp.sin(x[0]) * jnp.cosh(x[1]) + 0.5 * x[1] ** 2


domain = gpde.SignedDistance(blob, (-1.6, -1.6), (1.6, 1.6)) - gpde.Ball((0.2, 0.1), 0.3)
nodes, weights = domain.quadrature("interior", 100)
level = float(weights @ jax.vmap(exact)(nodes))
problem = gpde.Problem(
    domain=domain,
    equations={
        "interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x),
        "boundary": lambda u, x, n: directional(u, n)(x) - directional(exact, n)(x),  # n is the outward normal
    },
    constraints=gpde.Mean("interior", lambda u, x: u(x) - level, points=nodes, weights=weights),
    reference=exact,
    name="own_geometry",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.8) + gpde.Offset(), num_interior=200, num_boundary=120, nugget=1e-12),
)

if __name__ == "__main__":
    solution = gpde.solve(problem)
    points = domain.test_points((30, 30))
    print(f"{solution.result.outcome.name.lower()}: largest error {abs(solution(points) - jax.vmap(exact)(points)).max():.1e}")
    solution.plot("own_geometry.png")
