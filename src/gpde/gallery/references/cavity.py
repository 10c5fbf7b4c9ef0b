r"""Steady flow in a square that a lid drives, by its stream function on Chebyshev points.

$\psi_y \Delta\psi_x - \psi_x \Delta\psi_y = \tfrac1{Re} \Delta^2 \psi$ with $u = \psi_y$, $v = -\psi_x$; $\psi = 0$ and no slip
on the walls, $\psi_y = \text{lid}(x)$ on the lid. Newton's method from rest.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

from gpde.gallery.references.chebyshev import differentiation, polynomials


def driven(
    reynolds: float, lid: Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]], num: int = 24
) -> Callable[[Float[Array, "2"]], Array]:
    r"""The stream function $\psi(x, y)$; `lid` is the speed of the lid at $y = 1$."""
    x, d = differentiation(num)
    size = num + 1
    eye = np.eye(size)
    d2 = d @ d
    d4 = d2 @ d2
    dx, dy = np.kron(d, eye), np.kron(eye, d)  # x slowest
    laplacian = np.kron(d2, eye) + np.kron(eye, d2)
    biharmonic = np.kron(d4, eye) + 2 * np.kron(d2, d2) + np.kron(eye, d4)
    ldx, ldy = laplacian @ dx, laplacian @ dy
    i, j = (index.ravel() for index in np.meshgrid(np.arange(size), np.arange(size), indexing="ij"))
    walls = (i == 0) | (i == num) | (j == 0) | (j == num)
    # No slip takes the place of the equation in the next row of points; index 0 is at 1, where the lid is.
    in_x, in_y = ((i == 1) | (i == num - 1)) & ~walls, ((j == 1) | (j == num - 1)) & ~walls
    in_y &= ~in_x
    rows = np.eye(size * size)[walls], _wall_rows(dx, i, j, in_x, num, along=0), _wall_rows(dy, i, j, in_y, num, along=1)
    values = np.zeros(walls.sum()), np.zeros(in_x.sum()), np.where(j[in_y] == 1, lid(x[i[in_y]]), 0.0)
    inner = ~(walls | in_x | in_y)
    psi = np.zeros(size * size)
    for _ in range(30):
        px, py, lx, ly = dx @ psi, dy @ psi, ldx @ psi, ldy @ psi
        residual = (py * lx - px * ly - biharmonic @ psi / reynolds)[inner]
        jacobian = (py[:, None] * ldx + lx[:, None] * dy - px[:, None] * ldy - ly[:, None] * dx - biharmonic / reynolds)[inner]
        right = [value - row @ psi for row, value in zip(rows, values, strict=True)]
        step = np.linalg.solve(np.concatenate([jacobian, *rows]), np.concatenate([-residual, *right]))
        psi = psi + step
        if np.abs(step).max() < 1e-13:
            break
    table = psi.reshape(size, size)
    weights = np.linalg.inv(np.polynomial.chebyshev.chebvander(2 * x - 1, num))
    coefficients = weights @ table @ weights.T

    def stream(point: Float[Array, "2"]) -> Array:
        return polynomials(2 * point[0] - 1, num) @ coefficients @ polynomials(2 * point[1] - 1, num)

    return stream


def _wall_rows(derivative: np.ndarray, i: np.ndarray, j: np.ndarray, chosen: np.ndarray, num: int, along: int) -> np.ndarray:
    """For each chosen point the derivative at the wall next to it."""
    at_i, at_j = i[chosen].copy(), j[chosen].copy()
    place = at_i if along == 0 else at_j
    place[:] = np.where(place == 1, 0, num)
    return derivative[at_i * (num + 1) + at_j]
