r"""Long times: $u_t = 0.05 u_{xx} + u - u^3 + f$ solved window after window, each from where the last ended."""

import jax
import jax.numpy as jnp

import gpde
from gpde import partial

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.sin(jnp.pi * x[1] + x[0]) * (1 + 0.3 * jnp.cos(2 * x[0]))


def left_side(u, x):
    return partial(u, 0)(x) - 0.05 * partial(u, 1, 1)(x) - u(x) + u(x) ** 3


def given(u, x):
    return u(x) - exact(x)


problem = gpde.Problem(
    domain=gpde.SpaceTime((-1.0, 1.0), 0.0, 4.0),
    equations={
        "interior": lambda u, x: left_side(u, x) - left_side(exact, x),
        "initial": given,
        "boundary": given,
    },
    reference=exact,
    name="long_times",
)

if __name__ == "__main__":
    solution = gpde.march(problem, gpde.Gaussian((0.8, 0.4)), windows=4, num_interior=150, num_boundary=80, nugget=1e-12)
    for time in range(1, 5):
        points = jnp.column_stack([jnp.full(41, float(time)), jnp.linspace(-1, 1, 41)])
        print(f"t = {time}: largest error {abs(solution(points) - jax.vmap(exact)(points)).max():.1e}")
    print(solution.result)
