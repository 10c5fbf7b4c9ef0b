r"""Steady flow in a square that a lid drives: $\psi_y \Delta\psi_x - \psi_x \Delta\psi_y = \tfrac1{Re} \Delta^2\psi$.

The Navier–Stokes equations by their stream function, $u = \psi_y$ and $v = -\psi_x$: one equation of fourth order, without a
pressure and without mass to conserve.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.gallery.references.cavity import driven
from gpde.kernels import Gaussian
from gpde.operators import Field, biharmonic, directional, laplacian, partial
from gpde.problem.problem import Defaults, Problem


def build(*, reynolds: float | int = 100.0) -> Problem:
    r"""The problem with no slip on the walls and $u = 16 x^2 (1 - x)^2$ on the lid, which is at rest at its ends.

    `reynolds` is $Re$. The reference is a spectral method on Chebyshev points.
    """
    if not (math.isfinite(reynolds) and 0 < reynolds <= 400):
        raise ValueError(f"`cavity`: `reynolds` is above zero and at most 400; got {reynolds}.")

    def equation(psi: Field, x: Array) -> Array:
        vorticity = laplacian(psi)
        carried = partial(psi, 1)(x) * partial(vorticity, 0)(x) - partial(psi, 0)(x) * partial(vorticity, 1)(x)
        return carried - biharmonic(psi)(x) / reynolds

    def closed(psi: Field, x: Array) -> Array:
        return psi(x)

    def no_slip(psi: Field, x: Array, n: Array) -> Array:
        return directional(psi, n)(x)

    def lid(psi: Field, x: Array) -> Array:
        return partial(psi, 1)(x) - _speed(x[0])

    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": [closed, no_slip], "top": [closed, lid]},
        fields=("psi",),
        reference=lambda x: _reference(float(reynolds))(x),
        name="cavity",
        defaults=Defaults(kernel=Gaussian(0.2, amplitude=0.1), num_interior=600, num_boundary=240, nugget=1e-12, grid=(50, 50)),
    )


def _speed(x: Any) -> Any:
    """Of the lid, for numbers of numpy and of jax."""
    return 16 * x**2 * (1 - x) ** 2


@functools.cache
def _reference(reynolds: float) -> Callable[[Float[Array, "2"]], Array]:
    return driven(reynolds, _speed)
