r"""Flow through a porous square, $-\nabla\cdot(e^a \nabla u) = 1$ with $u = 0$ on the boundary, on Chebyshev points."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

from gpde.gallery.references.chebyshev import differentiation, polynomials

Log = Callable[[Float[np.ndarray, "points points"], Float[np.ndarray, "points points"]], Float[np.ndarray, "points points"]]


def pressure(log_permeability: Log, num: int = 40) -> Callable[[Float[Array, "2"]], Array]:
    r"""$u(x, y)$ from $-(\Delta + \nabla a\cdot\nabla)u = e^{-a}$; `log_permeability` is $a$ on arrays of $x$ and of $y$."""
    x, d = differentiation(num)
    size = num + 1
    a = log_permeability(*np.meshgrid(x, x, indexing="ij"))
    eye = np.eye(size)
    dx, dy = np.kron(d, eye), np.kron(eye, d)  # x slowest
    along, across = (d @ a).ravel(), (a @ d.T).ravel()
    matrix = -(np.kron(d @ d, eye) + np.kron(eye, d @ d) + along[:, None] * dx + across[:, None] * dy)
    inner = np.zeros((size, size), dtype=bool)
    inner[1:-1, 1:-1] = True
    inside = inner.ravel()
    table = np.zeros(size * size)
    table[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], np.exp(-a).ravel()[inside])
    weights = np.linalg.inv(np.polynomial.chebyshev.chebvander(2 * x - 1, num))
    coefficients = weights @ table.reshape(size, size) @ weights.T

    def at(point: Float[Array, "2"]) -> Array:
        return polynomials(2 * point[0] - 1, num) @ coefficients @ polynomials(2 * point[1] - 1, num)

    return at
