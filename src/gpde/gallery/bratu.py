r"""$u'' + \lambda e^u = 0$ on $[0, 1]$ with $u = 0$ at both ends: two solutions for $\lambda < 3.51$, none beyond.

The height $u(\tfrac12) = s$ tells the two branches apart and grows along them, through the fold at $s = 1.187$. So $s$ is given
and $\lambda$ is unknown, as a second field with $\lambda' = 0$; `gpde.continuation` in $s$ runs along both branches.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian, Offset
from gpde.operators import Field, partial
from gpde.problem.problem import Defaults, Observations, Problem


def build(*, height: float | int = 2.0) -> Problem:
    r"""The problem with the solution of height $s$, `height`:

    $$u = 2 \ln\frac{\cosh(\theta/4)}{\cosh(\theta (x - \tfrac12)/2)}, \quad \cosh(\theta/4) = e^{s/2}, \quad
      \lambda = \frac{\theta^2}{2 \cosh^2(\theta/4)}.$$
    """
    if not (math.isfinite(height) and 0 < height <= 8):
        raise ValueError(f"`bratu`: `height` is above zero and at most 8; got {height}.")
    theta = 4 * math.acosh(math.exp(height / 2))
    strength = theta**2 / 2 * math.exp(-height)

    def exact(x: Float[Array, "1"]) -> tuple[Array, Array]:
        u = height - 2 * jnp.log(jnp.cosh(theta * (x[0] - 0.5) / 2))
        return u, jnp.full_like(u, strength)

    def equation(u: Field, lam: Field, x: Array) -> Array:
        return partial(u, 0, 0)(x) + lam(x) * jnp.exp(u(x))

    def constant(u: Field, lam: Field, x: Array) -> Array:
        del u
        return partial(lam, 0)(x)

    def boundary(u: Field, lam: Field, x: Array) -> Array:
        del lam
        return u(x)

    return Problem(
        domain=Box(0.0, 1.0),
        equations={"interior": [equation, constant], "boundary": boundary},
        fields=("u", "lam"),
        observations=Observations(np.array([[0.5]]), np.array([float(height)]), name="height"),
        reference=exact,
        name="bratu",
        defaults=Defaults(
            kernel={"u": Gaussian(0.15), "lam": Gaussian(0.5) + Offset(4.0)},
            num_interior=80,
            num_boundary=2,
            nugget=1e-12,
            grid=(200,),
        ),
    )
