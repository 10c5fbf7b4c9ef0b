r"""Evolution equations on a circle: Fourier modes in space, an adaptive integrator in time.

$u_t = F(u, u_x, u_{xx}, \dots)$ for one field or several, with derivatives taken on the modes. The result is a polynomial in
time (Chebyshev nodes) with the modes as coefficients, so that it can be evaluated and differentiated anywhere.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.gallery.references.chebyshev import polynomials

Values = Float[np.ndarray, "fields points"]
Derivative = Callable[[Values, int], Values]


def evolved(
    rate: Callable[[Values, Derivative], Values],
    initial: Callable[[Float[np.ndarray, " points"]], Values],
    *,
    lower: float,
    length: float,
    duration: float,
    num_points: int = 128,
    num_times: int = 48,
    tolerance: float = 1e-11,
) -> Callable[[Float[Array, "2"]], tuple[Array, ...]]:
    r"""The fields as functions of $(t, x)$, $0 \le t \le$ `duration`; `rate(u, derivative)` is the right side."""
    from scipy.integrate import solve_ivp

    x = lower + length * np.arange(num_points) / num_points
    start = initial(x)
    wave = 2j * np.pi / length * np.arange(num_points // 2 + 1)

    def derivative(u: Values, times: int) -> Values:
        return np.fft.irfft(wave**times * np.fft.rfft(u, axis=1), n=num_points, axis=1)

    def right_side(t: float, flat: Float[np.ndarray, " all"]) -> Float[np.ndarray, " all"]:
        del t
        return rate(flat.reshape(start.shape), derivative).ravel()

    nodes = np.cos(np.pi * np.arange(num_times, -1, -1) / num_times)  # from -1 to 1
    times = duration * (nodes + 1) / 2
    run = solve_ivp(right_side, (0.0, duration), start.ravel(), "LSODA", t_eval=times, rtol=tolerance, atol=1e-3 * tolerance)
    if not run.success:
        raise RuntimeError(f"the reference solution could not be computed: {run.message}")
    values = run.y.T.reshape(len(times), *start.shape)
    modes = np.fft.rfft(values, axis=2) / num_points
    weights = np.full(modes.shape[2], 2.0)
    weights[0] = 1.0
    modes = np.linalg.solve(np.polynomial.chebyshev.chebvander(nodes, num_times), (modes * weights).reshape(len(times), -1))
    cosines, sines = (part.reshape(len(times), *start.shape[:1], -1) for part in (modes.real, -modes.imag))

    def exact(point: Float[Array, "2"]) -> tuple[Array, ...]:
        s, angle = 2 * point[0] / duration - 1, 2 * jnp.pi * (point[1] - lower) / length * np.arange(cosines.shape[2])
        in_space = cosines @ jnp.cos(angle) + sines @ jnp.sin(angle)
        return tuple(polynomials(s, num_times) @ in_space)

    return exact
