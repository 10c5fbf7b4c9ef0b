r"""$|\nabla u|^2 = 1 + \varepsilon \Delta u$ on the unit square: as ε → 0, the distance to its sides."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from gpde.domains import Box
from gpde.kernels import Gaussian
from gpde.operators import Field, gradient, laplacian
from gpde.problem.problem import Defaults, Problem


def build(*, epsilon: float | int = 0.1) -> Problem:
    r"""The problem with $u = 0$ on the boundary; `epsilon` is $\varepsilon$."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"`eikonal`: `epsilon` is finite and above zero; got {epsilon}.")

    def equation(u: Field, x: Array) -> Array:
        return jnp.sum(gradient(u)(x) ** 2) - 1.0 - epsilon * laplacian(u)(x)

    def boundary(u: Field, x: Array) -> Array:
        return u(x)

    return Problem(
        domain=Box((0.0, 0.0), (1.0, 1.0)),
        equations={"interior": equation, "boundary": boundary},
        reference=exit_time(epsilon),
        name="eikonal",
        defaults=Defaults(kernel=Gaussian(0.2), num_interior=900, num_boundary=300, nugget=1e-10, grid=(60, 60)),
    )


def exit_time(epsilon: float | int) -> Callable[[Float[Array, "2"]], Float[Array, ""]]:
    r"""The exact solution $u = -\varepsilon \log v$, from the exit time of Brownian motion.

    $v = e^{-u/\varepsilon}$ turns the equation into $\varepsilon^2 \Delta v = v$ with $v = 1$ on the boundary. So $v$
    is $E[e^{-T/\varepsilon^2}]$ with $T$ the time at which heat that starts at the point leaves the square, and staying
    inside in $x$ and in $y$ are independent: with $p(x, s)$ the chance to have left $[0, 1]$ by time $s$,

    $$v(x, y) = \int_0^\infty \bigl(p(x, s) + p(y, s) - p(x, s) p(y, s)\bigr) e^{-s/\varepsilon^2} ds/\varepsilon^2.$$

    In $\log s$ the integrand is analytic and decays at both ends, whatever the distance to a side or a corner, where
    series and polynomials in $x$ and $y$ suffer from $v \sim r^2 \log r$: the trapezoidal rule is exact to rounding.
    All terms are positive, so that a small $v$ has its relative accuracy, which is what $\log v$ needs.

    Measured: values and residuals of the equation are good to a few 1e-13, also 1e-8 away from a corner. Exactly on the
    boundary the value is right, but the second derivatives jump.
    """
    # At the centre the integrand is a bump about s = ε/4 of width sqrt(2 ε) in log s. The step resolves it to 1e-17;
    # past the last node it is below e^-40 of its height.
    step = min(0.15, math.sqrt(epsilon))
    scaled = np.exp(np.arange(math.log(1e-17), math.log(40.0 + 0.5 / epsilon), step))  # s / ε²
    weights, times = step * scaled * np.exp(-scaled), epsilon**2 * scaled

    def exact(x: Float[Array, "2"]) -> Float[Array, ""]:
        left_in_x, left_in_y = _chance_to_have_left(x[0], times), _chance_to_have_left(x[1], times)
        return -epsilon * jnp.log(weights @ (left_in_x + (1.0 - left_in_x) * left_in_y))

    return exact


def _chance_to_have_left(x: Float[Array, ""], times: Float[np.ndarray, " times"]) -> Float[Array, " times"]:
    r"""$p(x, s)$ on $[0, 1]$ for increasing times $s$, where $p_s = p_{xx}$, $p(x, 0) = 0$, $p(0, s) = p(1, s) = 1$.

    $$p = \sum_{m \ge 0} (-1)^m \Bigl(\mathrm{erfc}\frac{m + x}{2\sqrt s}
          + \mathrm{erfc}\frac{m + 1 - x}{2\sqrt s}\Bigr)
        = 1 - \sum_{n\ \mathrm{odd}} \frac{4}{\pi n} e^{-n^2\pi^2 s} \sin n\pi x$$

    The first for early times, the second for late ones: at $s = 0.05$ three and five terms leave out less than 1e-20.
    """
    num_early = int(np.searchsorted(times, 0.05))
    roots, late = 2 * np.sqrt(times[None, :num_early]), times[num_early:, None]
    m, n = np.arange(3.0)[:, None], np.arange(1.0, 10.0, 2.0)
    images = (-1) ** m[:, 0] @ (erfc((m + x) / roots) + erfc((m + 1 - x) / roots))
    waves = (4 / (np.pi * n) * np.exp(-((n * np.pi) ** 2) * late)) @ jnp.sin(jnp.pi * n * x)
    return jnp.concatenate([images, 1.0 - waves])
