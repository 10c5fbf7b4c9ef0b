r"""$u_t + u u_x - \nu u_{xx} = 0$ for $t \in [0, 1]$ and $x \in [-1, 1]$ (paper, Sec. 4.2).

The paper prints $+\nu u_{xx}$, which is ill-posed; this is the equation that its references solve.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import roots_hermite

from gpde.domains import Box, SpaceTime
from gpde.kernels import Gaussian
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Problem

# 80 nodes are good to 2e-13 at ν = 0.02 and only to 3e-3 at ν = 0.001.
_NUM_NODES = 200


def build(*, viscosity: float | int = 0.02) -> Problem:
    r"""The problem with $u(0, x) = -\sin\pi x$ and $u(t, \pm 1) = 0$; `viscosity` is $\nu$."""
    if not (math.isfinite(viscosity) and viscosity > 0):
        raise ValueError(f"`burgers`: `viscosity` is finite and above zero; got {viscosity}.")

    def equation(u: Field, x: Array) -> Array:
        return partial(u, 0)(x) + u(x) * partial(u, 1)(x) - viscosity * partial(u, 1, 1)(x)

    def initial(u: Field, x: Array) -> Array:
        return u(x) + jnp.sin(jnp.pi * x[1])

    def boundary(u: Field, x: Array) -> Array:
        return u(x)

    return Problem(
        domain=SpaceTime(Box(-1.0, 1.0), 0.0, 1.0),
        equations={"interior": equation, "initial": initial, "boundary": boundary},
        reference=cole_hopf(viscosity),
        name="burgers",
        # The paper's kernel exp(-dt²/0.3² - dx²/0.05²) has no ½.
        defaults=Defaults(
            kernel=Gaussian((0.3 / math.sqrt(2), 0.05 / math.sqrt(2))),
            num_interior=2000,
            num_boundary=400,
            nugget=1e-10,
            grid=(31, 101),
        ),
    )


def cole_hopf(viscosity: float | int) -> Callable[[Float[Array, "2"]], Float[Array, ""]]:
    r"""The exact solution as a function of $(t, x)$.

    $$u = -\frac{\int \sin(\pi y) E(y) e^{-\xi^2} d\xi}{\int E(y) e^{-\xi^2} d\xi}, \qquad
      E(y) = e^{-\cos(\pi y) / 2\pi\nu}, \quad y = x - \sqrt{4\nu t}\,\xi,$$

    by Gauss–Hermite quadrature. At $t = 0$ the value is exact, but $\sqrt t$ has no derivative there.
    """
    nodes, weights = roots_hermite(_NUM_NODES)
    log_weights = np.log(weights)

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        y = x[1] - jnp.sqrt(4 * viscosity * x[0]) * nodes
        # Softmax takes the largest exponent out: E itself overflows below ν = 1/4500.
        return -jnp.sin(jnp.pi * y) @ jax.nn.softmax(log_weights - jnp.cos(jnp.pi * y) / (2 * jnp.pi * viscosity))

    return exact
