"""Equations as people bring them: a statement and its exact solution, and nothing that would help a solver.

From one to four coordinates, of second and fourth order, one field and several, boxes and other domains, sources and none,
layers, long intervals, quantities of 1e5 and 1e-3 in units in which domains are not of size one.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from gpde.domains import Ball, Box, Polygon, SpaceTime
from gpde.operators import biharmonic, directional, divergence, gradient, laplacian, partial
from gpde.problem.problem import Problem

sin, cos, exp, tanh, pi = jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.pi
Side = Callable[[Any, Any], Any]
LINE, SQUARE = Box(0.0, 1.0), Box((0.0, 0.0), (1.0, 1.0))


def with_values(left: Side, exact: Callable[[Any], Any], domain: Any) -> Problem:
    """The problem of a left side with a known solution, given on the whole boundary (and at the start of time)."""

    def given(u: Any, x: Any) -> Any:
        return u(x) - exact(x)

    equations = {"interior": lambda u, x: left(u, x) - left(exact, x), "boundary": given}
    return Problem(domain, {**equations, "initial": given} if "initial" in domain.parts else equations, reference=exact)


def outflow_layer() -> Problem:
    """-ε u'' + u' = 1, zero at both ends, ε = 0.02: a layer at the right end."""
    epsilon = 0.02

    def exact(x: Any) -> Any:
        return x[0] - (exp((x[0] - 1) / epsilon) - exp(-1 / epsilon)) / (1 - exp(-1 / epsilon))

    equations = {
        "interior": lambda u, x: -epsilon * partial(u, 0, 0)(x) + partial(u, 0)(x) - 1,
        "boundary": lambda u, x: u(x),
    }
    return Problem(LINE, equations, reference=exact)


def oscillator() -> Problem:
    """Six periods that die away, u'' + u'/10 + u = 0 on [0, 40] from u = 1, u' = 0."""
    omega = (1 - 0.05**2) ** 0.5

    def exact(t: Any) -> Any:
        return exp(-0.05 * t[0]) * (cos(omega * t[0]) + 0.05 / omega * sin(omega * t[0]))

    equations = {
        "interior": lambda u, t: partial(u, 0, 0)(t) + 0.1 * partial(u, 0)(t) + u(t),
        "left": [lambda u, t: u(t) - 1, lambda u, t: partial(u, 0)(t)],
    }
    return Problem(Box(0.0, 40.0), equations, reference=exact)


def logistic() -> Problem:
    """Growth to a limit, u' = u (1 - u) on [0, 12] from u = 0.01."""
    equations = {
        "interior": lambda u, t: partial(u, 0)(t) - u(t) * (1 - u(t)),
        "left": lambda u, t: u(t) - 0.01,
    }
    return Problem(Box(0.0, 12.0), equations, reference=lambda t: 1 / (1 + 99 * exp(-t[0])))


def kink() -> Problem:
    """Steady Allen-Cahn, ε² u'' + u - u³ = 0 with ε = 0.1: from one phase to the other, where only the ends tell."""
    width = 0.1

    def exact(x: Any) -> Any:
        return tanh((x[0] - 0.4) / (width * 2**0.5))

    equations = {
        "interior": lambda u, x: width**2 * partial(u, 0, 0)(x) + u(x) - u(x) ** 3,
        "boundary": lambda u, x: u(x) - exact(x),
    }
    return Problem(LINE, equations, reference=exact)


def beam() -> Problem:
    """E I w'''' = q for a beam of 4 m, clamped at one end and free at the other: millimetres from newtons."""
    length, stiffness, load = 4.0, 2.0e6, 500.0

    def exact(x: Any) -> Any:
        return load * x[0] ** 2 * (x[0] ** 2 - 4 * length * x[0] + 6 * length**2) / (24 * stiffness)

    equations = {
        "interior": lambda w, x: stiffness * partial(w, 0, 0, 0, 0)(x) - load,
        "left": [lambda w, x: w(x), lambda w, x: partial(w, 0)(x)],
        "right": [lambda w, x: partial(w, 0, 0)(x), lambda w, x: partial(w, 0, 0, 0)(x)],
    }
    return Problem(Box(0.0, length), equations, fields=("w",), reference=exact)


def laplace() -> Problem:
    """Δu = 0 with the values of a harmonic function."""
    return with_values(lambda u, x: laplacian(u)(x), lambda x: exp(2 * x[0]) * sin(2 * x[1]), SQUARE)


def heated_plate() -> Problem:
    """-∇·(k ∇T) = q in a plate of 5 by 2 cm around 1e5 units: conductivity varies, sides insulated or held."""

    def exact(x: Any) -> Any:
        return 1e5 + 2e3 * cos(pi * x[0] / 0.05) * cos(pi * x[1] / 0.02)

    def left(u: Any, x: Any) -> Any:
        return -divergence(lambda y: (15.0 + 100.0 * y[0]) * gradient(u)(y))(x)

    equations = {
        "interior": lambda u, x: left(u, x) - left(exact, x),
        "boundary": lambda u, x: u(x) - exact(x),
        "left": lambda u, x, n: directional(u, n)(x),
        "top": lambda u, x, n: directional(u, n)(x),
    }
    return Problem(Box((0.0, 0.0), (0.05, 0.02)), equations, reference=exact)


def carried() -> Problem:
    """-0.05 Δu + (1, ½)·∇u = f: carried faster than it spreads, with a layer inside."""

    def exact(x: Any) -> Any:
        return sin(pi * x[1]) * tanh((x[0] - 0.5) / 0.15) + x[0]

    return with_values(
        lambda u, x: -0.05 * laplacian(u)(x) + partial(u, 0)(x) + 0.5 * partial(u, 1)(x), exact, SQUARE
    )  # fmt: skip


def power_law() -> Problem:
    """-∇·((0.1 + |∇u|²) ∇u) = f, near the 4-Laplacian, on a disk."""
    return with_values(
        lambda u, x: -divergence(lambda y: (0.1 + jnp.sum(gradient(u)(y) ** 2)) * gradient(u)(y))(x),
        lambda x: sin(2 * x[0]) + x[0] * x[1],
        Ball((0.0, 0.0), 1.0),
    )


def clamped_plate() -> Problem:
    """Δ²u = f with u = ∂u/∂n = 0 on all sides."""

    def exact(x: Any) -> Any:
        return (sin(pi * x[0]) * sin(pi * x[1])) ** 2

    equations = {
        "interior": lambda u, x: biharmonic(u)(x) - biharmonic(exact)(x),
        "boundary": [lambda u, x: u(x), lambda u, x, n: directional(u, n)(x)],
    }
    return Problem(SQUARE, equations, reference=exact)


def helmholtz() -> Problem:
    """Δu + 100 u = 0: a plane wave, by its values on the boundary of an L."""
    ell = Polygon([(0.0, 0.0), (1.0, 0.0), (1.0, 0.5), (0.5, 0.5), (0.5, 1.0), (0.0, 1.0)])
    return with_values(lambda u, x: laplacian(u)(x) + 100 * u(x), lambda x: sin(8 * x[0] + 6 * x[1]), ell)


def elasticity() -> Problem:
    """Plane strain of a steel block of 2 by 1 m, displacements of a millimetre: two fields, moduli of 1e11."""
    mu, lam = 8.0e10, 1.2e11

    def exact(x: Any) -> tuple[Any, Any]:
        return 1e-3 * sin(1.5 * x[0]) * cos(2 * x[1]), 5e-4 * x[0] * exp(-x[1])

    def force(axis: int) -> Callable[[Any, Any, Any], Any]:
        def of(u: Any, v: Any, x: Any) -> Any:
            own = (u, v)[axis]
            both = lambda y: partial(u, 0)(y) + partial(v, 1)(y)  # noqa: E731
            return mu * laplacian(own)(x) + (mu + lam) * partial(both, axis)(x)

        return lambda u, v, x: of(u, v, x) - of(lambda y: exact(y)[0], lambda y: exact(y)[1], x)

    equations = {
        "interior": [force(0), force(1)],
        "boundary": [lambda u, v, x: u(x) - exact(x)[0], lambda u, v, x: v(x) - exact(x)[1]],
    }
    return Problem(Box((0.0, 0.0), (2.0, 1.0)), equations, fields=("u", "v"), reference=exact)


def predators() -> Problem:
    """-Δu = u (1 - v) + f, -Δv = v (u - 1) + g: two densities that react."""

    def exact(x: Any) -> tuple[Any, Any]:
        return 1 + 0.5 * cos(3 * x[0]) * x[1], 1 + 0.5 * sin(2 * x[0] + 3 * x[1])

    def first(u: Any, v: Any, x: Any) -> Any:
        return -laplacian(u)(x) - u(x) * (1 - v(x))

    def second(u: Any, v: Any, x: Any) -> Any:
        return -laplacian(v)(x) - v(x) * (u(x) - 1)

    def truth(index: int) -> Callable[[Any], Any]:
        return lambda x: exact(x)[index]

    equations = {
        "interior": [lambda u, v, x, s=s: s(u, v, x) - s(truth(0), truth(1), x) for s in (first, second)],
        "boundary": [lambda u, v, x: u(x) - exact(x)[0], lambda u, v, x: v(x) - exact(x)[1]],
    }
    return Problem(SQUARE, equations, fields=("u", "v"), reference=exact)


def thermal_stress() -> Problem:
    """Two fields of sizes 1e5 and 1, the second driven by the first: -ΔT = q, -Δs + s = 1e-5 T + f."""

    def exact(x: Any) -> tuple[Any, Any]:
        return 1e5 * sin(2 * x[0] + x[1]), cos(3 * x[1]) * x[0]

    def second(t: Any, s: Any, x: Any) -> Any:
        return -laplacian(s)(x) + s(x) - 1e-5 * t(x)

    def hot(x: Any) -> Any:
        return exact(x)[0]

    def loaded(x: Any) -> Any:
        return exact(x)[1]

    equations = {
        "interior": [
            lambda t, s, x: -laplacian(t)(x) + laplacian(hot)(x),
            lambda t, s, x: second(t, s, x) - second(hot, loaded, x),
        ],
        "boundary": [lambda t, s, x: t(x) - hot(x), lambda t, s, x: s(x) - loaded(x)],
    }
    return Problem(SQUARE, equations, fields=("T", "s"), reference=exact)


def heat() -> Problem:
    """u_t = 0.1 u_xx for two tones, no source."""

    def exact(x: Any) -> Any:
        slow, fast = (exp(-0.1 * (k * pi) ** 2 * x[0]) * sin(k * pi * x[1]) for k in (1, 3))
        return slow + 0.5 * fast

    equations = {
        "interior": lambda u, x: partial(u, 0)(x) - 0.1 * partial(u, 1, 1)(x),
        "initial": lambda u, x: u(x) - exact(x),
        "boundary": lambda u, x: u(x),
    }
    return Problem(SpaceTime(LINE, 0.0, 1.0), equations, reference=exact)


def travelling_front() -> Problem:
    """Burgers' equation, ν = 0.05, with a front that travels: u = ½ - ½ tanh((x - t/2) / 4ν)."""

    def exact(x: Any) -> Any:
        return 0.5 - 0.5 * tanh((x[1] - 0.5 * x[0]) / 0.2)

    equations = {
        "interior": lambda u, x: partial(u, 0)(x) + u(x) * partial(u, 1)(x) - 0.05 * partial(u, 1, 1)(x),
        "initial": lambda u, x: u(x) - exact(x),
        "boundary": lambda u, x: u(x) - exact(x),
    }
    return Problem(SpaceTime(Box(-1.0, 2.0), 0.0, 2.0), equations, reference=exact)


def screened() -> Problem:
    """-Δu + 4 sinh u = f in a ball."""
    return with_values(
        lambda u, x: -laplacian(u)(x) + 4 * jnp.sinh(u(x)),
        lambda x: cos(2 * x[0]) * sin(x[1] + x[2]),
        Ball((0.0, 0.0, 0.0), 1.0),
    )


def four_dimensions() -> Problem:
    """-Δu = f in four coordinates."""
    return with_values(
        lambda u, x: -laplacian(u)(x), lambda x: sin(x[0] + 2 * x[1]) * cos(x[2] - x[3]), Box((0.0,) * 4, (1.0,) * 4)
    )


STATEMENTS: dict[str, Callable[[], Problem]] = {
    "-εu″ + u′ = 1": outflow_layer,
    "u″ + u′/10 + u = 0, t ≤ 40": oscillator,
    "u′ = u(1 - u)": logistic,
    "ε²u″ + u - u³ = 0": kink,
    "EI w⁗ = q": beam,
    "Δu = 0": laplace,
    "-∇·(k∇T) = q, T ≈ 1e5": heated_plate,
    "-εΔu + b·∇u = f": carried,
    "-∇·((δ + |∇u|²)∇u) = f, disk": power_law,
    "Δ²u = f, clamped": clamped_plate,
    "Δu + k²u = 0, L": helmholtz,
    "elasticity, u ≈ 1e-3": elasticity,
    "two densities": predators,
    "two fields, 1e5 and 1": thermal_stress,
    "u_t = κu_xx": heat,
    "u_t + uu_x = νu_xx": travelling_front,
    "-Δu + 4 sinh u = f, ball": screened,
    "-Δu = f, 4-D": four_dimensions,
}
