"""Does a result tell good from bad? True errors beside the residual between the points, on the gallery and on problems that are
under-resolved on purpose: kernels too short, too few points, layers, fronts, bumps, rough kernels, few steps."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.domains import Box, SpaceTime
from gpde.gallery import get
from gpde.kernels import Gaussian, Matern
from gpde.methods import Consensus, FullBatch, MiniBatch
from gpde.operators import biharmonic, laplacian, partial
from gpde.problem.problem import Problem
from gpde.solution._solve import solve
from gpde.solution.solution import Solution

# An error above the first must be noted, one below the second must not be; between them either will do.
BAD, GOOD = 1e-2, 1e-5
SQUARE, LINE = Box((0.0, 0.0), (1.0, 1.0)), Box(0.0, 1.0)
sin, cos, exp, pi = jnp.sin, jnp.cos, jnp.exp, jnp.pi


class Case(NamedTuple):
    """A problem and how it is solved."""

    name: str
    problem: Problem
    arguments: dict[str, Any]


def manufactured(exact: Callable[..., Any], left: Callable[..., Any], domain: Any = SQUARE) -> Problem:
    """The problem with this solution, given on the whole boundary."""
    equations = {
        "interior": lambda u, x: left(u, x) - left(exact, x),
        "boundary": lambda u, x: u(x) - exact(x),
    }
    return Problem(domain=domain, equations=equations, reference=exact)


def minus_laplacian(u: Any, x: Any) -> Any:
    """The left side of Poisson's equation."""
    return -laplacian(u)(x)


def smooth(x: Any) -> Any:
    """A solution without surprises."""
    return sin(pi * x[0]) * sin(2 * pi * x[1]) + x[0] ** 2


def layer(epsilon: float) -> Problem:
    """A boundary layer at the outflow."""

    def exact(x: Any) -> Any:
        return (exp((x[0] - 1) / epsilon) - exp(-1 / epsilon)) / (1 - exp(-1 / epsilon)) * sin(pi * x[1])

    return manufactured(exact, lambda u, x: -epsilon * laplacian(u)(x) + partial(u, 0)(x))


def layer_on_a_line(epsilon: float) -> Problem:
    """The same in one dimension, with a source."""

    def exact(x: Any) -> Any:
        return x[0] - (exp((x[0] - 1) / epsilon) - exp(-1 / epsilon)) / (1 - exp(-1 / epsilon))

    return manufactured(exact, lambda u, x: -epsilon * partial(u, 0, 0)(x) + partial(u, 0)(x), LINE)


def bump(width: float) -> Problem:
    """A source that points may miss."""

    def exact(x: Any) -> Any:
        return sin(pi * x[0]) * sin(pi * x[1]) + exp(-((x[0] - 0.43) ** 2 + (x[1] - 0.61) ** 2) / (2 * width**2))

    return manufactured(exact, minus_laplacian)


def plate() -> Problem:
    """Fourth order in the plane."""

    def exact(x: Any) -> Any:
        return sin(pi * x[0]) * sin(pi * x[1])

    equations = {
        "interior": lambda u, x: biharmonic(u)(x) - biharmonic(exact)(x),
        "boundary": [lambda u, x: u(x) - exact(x), lambda u, x: laplacian(u)(x) - laplacian(exact)(x)],
    }
    return Problem(domain=SQUARE, equations=equations, reference=exact)


def beam() -> Problem:
    """Fourth order on a line."""
    equations = {
        "interior": lambda u, x: partial(u, 0, 0, 0, 0)(x) - 1e4 * sin(10 * x[0]),
        "boundary": [lambda u, x: u(x) - sin(10 * x[0]), lambda u, x: partial(u, 0)(x) - 10 * cos(10 * x[0])],
    }
    return Problem(domain=LINE, equations=equations, reference=lambda x: sin(10 * x[0]))


def insulated() -> Problem:
    """Derivatives given on all sides."""

    def exact(x: Any) -> Any:
        return cos(2 * pi * x[0]) * exp(x[1])

    def side(axis: int) -> Callable[..., Any]:
        return lambda u, x: partial(u, axis)(x) - partial(exact, axis)(x)

    equations = {
        "interior": lambda u, x: -laplacian(u)(x) + u(x) + laplacian(exact)(x) - exact(x),
        "left": side(0),
        "right": side(0),
        "bottom": side(1),
        "top": side(1),
    }
    return Problem(domain=SQUARE, equations=equations, reference=exact)


def two_fields() -> Problem:
    """A nonlinear system."""

    def a(x: Any) -> Any:
        return sin(pi * x[0]) * cos(x[1])

    def b(x: Any) -> Any:
        return exp(x[0] * x[1])

    def first(u: Any, v: Any, x: Any) -> Any:
        return -laplacian(u)(x) + v(x) * u(x)

    def second(u: Any, v: Any, x: Any) -> Any:
        return -laplacian(v)(x) + u(x) ** 2

    equations = {
        "interior": [lambda u, v, x: first(u, v, x) - first(a, b, x), lambda u, v, x: second(u, v, x) - second(a, b, x)],
        "boundary": [lambda u, v, x: u(x) - a(x), lambda u, v, x: v(x) - b(x)],
    }
    return Problem(domain=SQUARE, fields=("u", "v"), equations=equations, reference=lambda x: (a(x), b(x)))


def heat() -> Problem:
    """Two modes that decay."""
    equations = {
        "interior": lambda u, x: partial(u, 0)(x) - partial(u, 1, 1)(x),
        "initial": lambda u, x: u(x) - sin(pi * x[1]) - 0.5 * sin(3 * pi * x[1]),
        "boundary": lambda u, x: u(x),
    }

    def exact(x: Any) -> Any:
        return exp(-(pi**2) * x[0]) * sin(pi * x[1]) + 0.5 * exp(-9 * pi**2 * x[0]) * sin(3 * pi * x[1])

    return Problem(domain=SpaceTime((0.0, 1.0), 0.0, 0.2), equations=equations, reference=exact)


def wave() -> Problem:
    """A standing wave, for two periods."""
    equations = {
        "interior": lambda u, x: partial(u, 0, 0)(x) - partial(u, 1, 1)(x),
        "initial": [lambda u, x: u(x) - sin(2 * pi * x[1]), lambda u, x: partial(u, 0)(x)],
        "boundary": lambda u, x: u(x),
    }
    return Problem(
        domain=SpaceTime((0.0, 1.0), 0.0, 2.0),
        equations=equations,
        reference=lambda x: cos(2 * pi * x[0]) * sin(2 * pi * x[1]),
    )


def pulse() -> Problem:
    """A pulse that travels."""

    def exact(x: Any) -> Any:
        return exp(-(((x[1] - x[0] - 0.3) / 0.1) ** 2))

    equations = {
        "interior": lambda u, x: partial(u, 0)(x) + partial(u, 1)(x),
        "initial": lambda u, x: u(x) - exact(x),
        "left": lambda u, x: u(x) - exact(x),
    }
    return Problem(domain=SpaceTime((0.0, 1.0), 0.0, 1.0), equations=equations, reference=exact)


def laplace() -> Problem:
    """An equation without a source: its one operator is its residual."""
    equations = {
        "interior": lambda u, x: laplacian(u)(x),
        "boundary": lambda u, x: u(x) - exp(pi * x[0]) * sin(pi * x[1]),
    }
    return Problem(domain=SQUARE, equations=equations, reference=lambda x: exp(pi * x[0]) * sin(pi * x[1]))


def constant() -> Problem:
    """An equation all of whose terms vanish."""
    equations = {"interior": lambda u, x: partial(u, 0, 0)(x), "boundary": lambda u, x: u(x) - 300.0}
    return Problem(domain=LINE, equations=equations, reference=lambda x: 300.0 + 0 * x[0])


def solved(
    name: str,
    problem: Problem,
    kernel: Any,
    num_interior: int,
    num_boundary: int | None = None,
    nugget: float = 1e-12,
    **more: Any,
) -> Case:
    """A case with its number of points, a third of them on the boundary by default."""
    counts = {"num_interior": num_interior, "num_boundary": num_boundary or max(8, num_interior // 3)}
    return Case(f"{name}, {num_interior} points", problem, {"kernel": kernel, "nugget": nugget, **counts, **more})


def cases(quick: bool) -> Iterator[Case]:
    """All cases, or a few small ones."""
    poisson = manufactured(smooth, minus_laplacian)
    yield solved("Poisson, Gaussian 0.3", poisson, Gaussian(0.3), 100, 40)
    yield solved("Poisson, Gaussian 0.02", poisson, Gaussian(0.02), 100, 40)
    if quick:
        return
    for name, parameters in (
        ("elliptic", {}),
        ("burgers", {}),
        ("burgers", {"viscosity": 0.2}),
        ("eikonal", {}),
        ("poisson", {}),
    ):
        problem = get(name).build(**parameters)
        for method in (FullBatch(), Consensus(), MiniBatch(num_steps=12_000)):
            title = f"{name}{''.join(f' {value}' for value in parameters.values())}, {method.name}"
            yield Case(title, problem, {"method": method})
    for lengthscale in (0.04, 0.08, 0.15, 0.3):
        yield solved(f"Poisson, Gaussian {lengthscale}", poisson, Gaussian(lengthscale), 400)
    for num in (10, 40, 80, 160):
        yield solved("Poisson, Gaussian 0.3", poisson, Gaussian(0.3), num)
    yield solved("Poisson, 8 on the boundary", poisson, Gaussian(0.3), 400, 8)
    for order, num in ((5 / 2, 200), (5 / 2, 800), (7 / 2, 200), (9 / 2, 200), (9 / 2, 800)):
        yield solved(f"Poisson, Matérn {order:g}", poisson, Matern(order, 0.3), num)
    for steps in (500, 4000):
        yield solved(f"Poisson, {steps} steps of mini-batch", poisson, Gaussian(0.3), 200, method=MiniBatch(num_steps=steps))
    for nugget in (1e-2, 1e-6):
        yield solved(f"Poisson, nugget {nugget:g}", poisson, Gaussian(0.3), 400, nugget=nugget)
    boundary_layer = layer(0.05)
    kernels = {
        "Gaussian 0.03": Gaussian(0.03),
        "Gaussian 0.06": Gaussian(0.06),
        "Gaussian 0.1, 0.3": Gaussian((0.1, 0.3)),
        "Gaussian 0.5": Gaussian(0.5),
        "Matérn 7/2": Matern(7 / 2, (0.05, 0.3)),
    }
    for name, kernel in kernels.items():
        yield solved(f"layer, {name}", boundary_layer, kernel, 900)
    yield solved("layer, Gaussian 0.03, consensus", boundary_layer, Gaussian(0.03), 900, method=Consensus())
    yield solved("layer, Gaussian 0.1, 0.3, consensus", boundary_layer, Gaussian((0.1, 0.3)), 900, method=Consensus())
    for num, lengthscale in ((20, 0.02), (40, 0.1), (100, 0.1), (300, 0.02)):
        yield solved(f"layer on a line, Gaussian {lengthscale}", layer_on_a_line(0.01), Gaussian(lengthscale), num, 2)
    oscillations = manufactured(lambda x: sin(8 * pi * x[0]) * sin(8 * pi * x[1]), minus_laplacian)
    for num, lengthscale in ((150, 0.2), (400, 0.1), (400, 0.2), (900, 0.1)):
        yield solved(f"oscillations, Gaussian {lengthscale}", oscillations, Gaussian(lengthscale), num)
    helmholtz = manufactured(lambda x: sin(6 * x[0] + 4 * x[1]), lambda u, x: laplacian(u)(x) + 52.0 * u(x))
    for num in (20, 300):
        yield solved("Helmholtz", helmholtz, Gaussian(0.3), num)
    for width, num in ((0.02, 60), (0.02, 900), (0.05, 200), (0.05, 900), (0.1, 900)):
        yield solved(f"bump of width {width}", bump(width), Gaussian(0.2), num)
    for viscosity, num in ((0.005, 500), (0.01, 1000), (0.02, 300)):
        yield solved(f"Burgers {viscosity}", get("burgers").build(viscosity=viscosity), None, num, nugget=1e-10)
    yield solved("eikonal", get("eikonal").build(), None, 100, nugget=1e-10)
    for num in (10, 40):
        yield solved("beam", beam(), Gaussian(0.2), num, 2)
    for num, lengthscale in ((30, 0.3), (300, 0.3), (300, 0.05)):
        yield solved(f"plate, Gaussian {lengthscale}", plate(), Gaussian(lengthscale), num)
    cube = Box((0.0,) * 3, (1.0,) * 3)
    three = manufactured(lambda x: sin(pi * x[0]) * sin(2 * pi * x[1]) * sin(pi * x[2]), minus_laplacian, cube)
    for num, lengthscale in ((100, 0.3), (600, 0.05), (1200, 0.5)):
        yield solved(f"Poisson in space, Gaussian {lengthscale}", three, Gaussian(lengthscale), num, num // 2)
    for num, lengthscale in ((30, 0.3), (400, 0.1), (400, 0.3)):
        yield solved(f"insulated, Gaussian {lengthscale}", insulated(), Gaussian(lengthscale), num)
    for num, lengthscale in ((20, 0.3), (300, 0.05), (300, 0.3)):
        yield solved(f"two fields, Gaussian {lengthscale}", two_fields(), Gaussian(lengthscale), num)
    for num, scale in ((30, 1.0), (150, 1.0), (600, 0.2)):
        yield solved(f"heat, Gaussian {0.05 * scale:g}, {0.2 * scale:g}", heat(), Gaussian((0.05 * scale, 0.2 * scale)), num)
    for num, lengthscale in ((50, 0.3), (400, 0.1), (800, 0.3)):
        yield solved(f"wave, Gaussian {lengthscale}", wave(), Gaussian(lengthscale), num)
    for num, lengthscale in ((150, 0.15), (500, 0.4)):
        yield solved(f"pulse, Gaussian {lengthscale}", pulse(), Gaussian(lengthscale), num)
    yield solved("Laplace, Gaussian 0.4", laplace(), Gaussian(0.4), 200)
    yield solved("Laplace, Gaussian 0.05", laplace(), Gaussian(0.05), 200)
    yield solved("constant", constant(), Gaussian(0.5), 20, 2)


def true_error(solution: Solution, problem: Problem) -> float:
    """The largest error, relative to the largest value, of the field for which that is worst."""
    assert problem.reference is not None
    parts = {part: 3000 if part == "interior" else 300 for part in problem.equations}
    points = np.concatenate([problem.sample_part(part, num, seed=991) for part, num in parts.items()])
    truth = np.stack([np.asarray(value) for value in _fields(jax.vmap(problem.reference)(jnp.asarray(points)))], axis=1)
    found = solution(points).reshape(truth.shape)
    return float(np.max(np.abs(found - truth).max(axis=0) / np.abs(truth).max(axis=0)))


def _fields(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def main(quick: bool = False) -> None:
    """Prints the table, and which verdicts are wrong."""
    table = Table(title="True error and residual between the points")
    for column in ("problem", "outcome", "true error", "at the points", "between the points", "noted"):
        table.add_column(column, justify="left" if column == "problem" else "right")
    rows, wrong = [], []
    for case in cases(quick):
        solution = solve(case.problem, **case.arguments)
        result = solution.result
        error, noted = true_error(solution, case.problem), "between the points" in str(result)
        if (error > BAD and result.successful and not noted) or (error < GOOD and (noted or not result.successful)):
            wrong.append(case.name)
        at, between = (max(numbers.values(), default=np.nan) for numbers in (result.at_points, result.between_points))
        rows.append((error, case.name, result.outcome.name.lower(), f"{at:.1e}", f"{between:.1e}", "yes" if noted else ""))
    for error, name, outcome, *numbers in sorted(rows):
        table.add_row(name, outcome, f"{error:.1e}", *numbers)
    Console().print(table)
    print(f"wrong: {', '.join(wrong) or 'none'} (errors above {BAD:g} are to be noted, below {GOOD:g} not)")
