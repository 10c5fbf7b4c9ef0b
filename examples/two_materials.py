"""Two materials that touch: each has a field of its own, and at the interface the temperature jumps and the flux does not."""

import jax
import jax.numpy as jnp
import numpy as np

import gpde
from gpde import Unknown, directional, laplacian

jax.config.update("jax_enable_x64", True)
CORE, SHELL = 1.0, 5.0  # conductivities


def in_core(x):
    return jnp.cos(2 * x[0]) * jnp.exp(x[1])


def in_shell(x):
    return jnp.sin(x[0] + 2 * x[1])


def flux(u, v, x, n):  # what flows out of the core, and does not arrive in the shell
    return CORE * directional(u, n)(x) - SHELL * directional(v, n)(x)


problem = gpde.Problem(
    domain=gpde.Divided(gpde.Box((-1, -1), (1, 1)), gpde.Ball((0, 0), 0.5), names=("core", "shell")),
    equations={
        "core": lambda u, v, x: -CORE * laplacian(u)(x) + CORE * laplacian(in_core)(x),
        "shell": lambda u, v, x: -SHELL * laplacian(v)(x) + SHELL * laplacian(in_shell)(x),
        "boundary": lambda u, v, x: v(x) - in_shell(x),
        "interface": [
            lambda u, v, x: u(x) - v(x) - (in_core(x) - in_shell(x)),  # the jump
            lambda u, v, x, n: flux(u, v, x, n) - flux(in_core, in_shell, x, n),
        ],
    },
    fields={"u": Unknown(on="core"), "v": Unknown(on="shell")},
    reference=lambda x: (in_core(x), in_shell(x)),
    name="two_materials",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.5) + gpde.Offset(), num_interior=200, num_boundary=120, nugget=1e-12),
)

if __name__ == "__main__":
    solution = gpde.solve(problem)
    points = problem.domain.test_points((30, 30))
    truth = np.stack([jax.vmap(in_core)(points), jax.vmap(in_shell)(points)], axis=1)
    off = np.abs(solution(points) - truth)  # NaN where a field does not live
    print(f"{solution.result.outcome.name.lower()}: largest error {np.nanmax(off):.1e}")
