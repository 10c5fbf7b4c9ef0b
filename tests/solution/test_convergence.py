r"""How fast errors fall where points lie twice as densely.

The native space of a Matérn kernel is the Sobolev space $H^\tau$ with $\tau = \nu + d/2$. Collocation of an equation of second
order leaves a residual of order $h^{\tau-2}$ in the fill distance $h$ for every solution in it, and so an error of that order;
where the solution is smoother than the space, up to twice that, $h^{2(\tau-2)}$, and no more.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpde
from gpde import Matern, laplacian, partial

NU = 7 / 2


def wave(x):
    return jnp.sin(3 * x[0])


def hill(x):
    return jnp.sin(2 * x[0]) * jnp.cos(x[1])


def fading(x):
    return jnp.exp(-x[0]) * jnp.sin(2 * x[1])


def cubic(u, x):
    return -laplacian(u)(x) + u(x) ** 3


def heat(u, x):
    return partial(u, 0)(x) - partial(u, 1, 1)(x)


CASES = {
    "ode": (gpde.Box(0.0, 1.0), wave, cubic, [(15, 2), (31, 2)]),
    "heat": (gpde.SpaceTime((0.0, 1.0), 0.0, 1.0), fading, heat, [(64, 33), (256, 66)]),
    "disk": (gpde.Ball((0, 0), 1), hill, cubic, [(80, 30), (320, 60)]),
    "square": (gpde.Box((0, 0), (1, 1)), hill, cubic, [(64, 32), (256, 64)]),
}


@pytest.mark.parametrize("name", ["ode", "heat", "disk", pytest.param("square", marks=pytest.mark.slow)])
def test_half_the_fill_distance_divides_the_error_as_the_kernel_says(name):
    domain, exact, left_side, sizes = CASES[name]
    parts = ("boundary", "initial") if name == "heat" else ("boundary",)
    problem = gpde.Problem(
        domain,
        {"interior": lambda u, x: left_side(u, x) - left_side(exact, x)} | dict.fromkeys(parts, lambda u, x: u(x) - exact(x)),
    )
    points = domain.test_points((101,) if domain.dim == 1 else (21, 21))
    truth = np.asarray(jax.jit(jax.vmap(exact))(points))

    def error(num_interior, num_boundary):
        sizes = {"num_interior": num_interior, "num_boundary": num_boundary}
        solution = gpde.solve(problem, Matern(NU, 0.5), method=gpde.FullBatch(), sampling="grid", nugget=1e-14, **sizes)
        return np.sqrt(np.mean((solution(points) - truth) ** 2))

    rate = np.log2(error(*sizes[0]) / error(*sizes[1]))
    least = NU + domain.dim / 2 - 2
    assert least < rate < 2 * least + 0.5
