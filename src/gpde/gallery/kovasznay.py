r"""Flow behind a grid (Kovasznay 1948): $(u \cdot \nabla) u = -\nabla p + \tfrac1{Re} \Delta u$, $\nabla \cdot u = 0$."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, laplacian, partial
from gpde.problem.problem import Defaults, Observations, Problem


def build(*, reynolds: float | int = 40.0) -> Problem:
    r"""The problem with the velocity $(u, v)$ given on the boundary and the pressure $p$ in one point; `reynolds` is $Re$.

    $$u = 1 - e^{\lambda x} \cos 2\pi y, \quad v = \frac{\lambda}{2\pi} e^{\lambda x} \sin 2\pi y, \quad
      p = \tfrac12 (1 - e^{2\lambda x}), \quad \lambda = \tfrac{Re}2 - \sqrt{\tfrac{Re^2}4 + 4\pi^2}.$$
    """
    if not (math.isfinite(reynolds) and reynolds > 0):
        raise ValueError(f"`kovasznay`: `reynolds` is finite and above zero; got {reynolds}.")
    decay = reynolds / 2 - math.sqrt(reynolds**2 / 4 + 4 * math.pi**2)

    def exact(x: Float[Array, "2"]) -> tuple[Array, Array, Array]:
        e, angle = jnp.exp(decay * x[0]), 2 * jnp.pi * x[1]
        return 1 - e * jnp.cos(angle), decay / (2 * jnp.pi) * e * jnp.sin(angle), (1 - e**2) / 2

    def momentum(axis: int):
        def equation(u: Field, v: Field, p: Field, x: Array) -> Array:
            own = (u, v)[axis]
            carried = u(x) * partial(own, 0)(x) + v(x) * partial(own, 1)(x)
            return carried + partial(p, axis)(x) - laplacian(own)(x) / reynolds

        return equation

    def mass(u: Field, v: Field, p: Field, x: Array) -> Array:
        del p
        return partial(u, 0)(x) + partial(v, 1)(x)

    def first(u: Field, v: Field, p: Field, x: Array) -> Array:
        del v, p
        return u(x) - exact(x)[0]

    def second(u: Field, v: Field, p: Field, x: Array) -> Array:
        del u, p
        return v(x) - exact(x)[1]

    return Problem(
        domain=Box((-0.5, -0.5), (1.0, 0.5)),
        equations={"interior": [momentum(0), momentum(1), mass], "boundary": [first, second]},
        fields=("u", "v", "p"),
        observations=Observations(np.zeros((1, 2)), np.zeros(1), operator=lambda u, v, p: p, name="pressure"),
        reference=exact,
        name="kovasznay",
        defaults=Defaults(kernel=Gaussian(0.5), num_interior=350, num_boundary=160, nugget=1e-12, grid=(45, 30)),
    )
