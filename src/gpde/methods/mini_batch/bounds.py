r"""The convex set $\mathcal X$ of Algorithm 1: lowest and highest values of functionals, given by name or index."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.point_table import PointTable
from gpde.equations.linear_operators import LinearOperator, operator_text
from gpde.methods.base import Setup

Bounds = Mapping[str | int, tuple[float | int, float | int]]


def bound_tables(
    setup: Setup, bounds: Bounds | None, table: PointTable, *, eliminate: bool
) -> tuple[Float[Array, "points operators"], Float[Array, "points operators"]] | None:
    """Lowest and highest values by point and operator; with `eliminate` those that the equations fix have none."""
    if not bounds:
        return None
    low, high = (np.full(table.active.shape, sign * np.inf) for sign in (-1, 1))
    by_slot = _by_slot(setup, bounds, table.operators)
    first = 0
    for part in setup.collocation.parts:
        rows = slice(first, first + part.num_points)
        first += part.num_points
        solved_for = (part.reading.eliminated or ()) if eliminate and not part.noisy else ()
        fixed = [part.reading.operators[k] for k in solved_for]
        for slot, (least, most) in by_slot.items():
            if table.operators[slot] not in fixed:
                low[rows, slot], high[rows, slot] = least, most
    return jnp.asarray(low), jnp.asarray(high)


def check_bounds(setup: Setup, bounds: Bounds | None, operators: tuple[LinearOperator, ...]) -> None:
    """Raises `ValueError` where bounds name no functional, or leave no room."""
    _by_slot(setup, bounds or {}, operators)


def bounds_on_eliminated(setup: Setup, bounds: Bounds | None, operators: tuple[LinearOperator, ...]) -> list[str]:
    """The bounded functionals that elimination would solve a differential equation for. Values that Dirichlet conditions fix
    are no obstacle."""
    found = []
    for slot in _by_slot(setup, bounds or {}, operators):
        operator = operators[slot]
        for part in setup.collocation.parts:
            reading = part.reading
            solved_for = [reading.operators[k] for k in reading.eliminated or ()]
            if not part.noisy and operator in solved_for and not all(kind.dirichlet for kind in reading.kinds):
                found.append(functional_names(setup, operators)[slot])
    return found


def check_fixed_values(
    setup: Setup, bounds: Bounds | None, table: PointTable, values: Float[Array, "points operators"]
) -> None:
    """Raises `ValueError` where a Dirichlet condition asks for a value out of bounds."""
    for slot, (least, most) in _by_slot(setup, bounds or {}, table.operators).items():
        reached = np.asarray(values[:, slot])[np.asarray(table.active[:, slot])]
        outside = reached[(reached < least) | (reached > most)]
        if len(outside):
            name = functional_names(setup, table.operators)[slot]
            raise ValueError(
                f"`bounds`: {name} must lie in [{least:g}, {most:g}], but a condition fixes it at {outside[0]:.4g}. "
                "Widen the bounds."
            )


def functional_names(setup: Setup, operators: tuple[LinearOperator, ...]) -> list[str]:
    """The functionals as a person writes them."""
    coordinates = setup.coordinates[: setup.collocation.parts[0].points.shape[1]]
    return [operator_text(o, setup.fields, coordinates) for o in operators]


def _by_slot(setup: Setup, bounds: Bounds, operators: tuple[LinearOperator, ...]) -> dict[int, tuple[float, float]]:
    names = functional_names(setup, operators)
    found = {}
    for key, pair in bounds.items():
        if key not in names and not (isinstance(key, int) and 0 <= key < len(names)):
            raise ValueError(f"`bounds`: there is no functional {key!r}; the problem has {', '.join(names)}.")
        least, most = (float(bound) for bound in pair)
        if not least < most:
            raise ValueError(f"`bounds[{key!r}]`: a lowest and a higher highest value are needed; came {pair!r}.")
        found[key if isinstance(key, int) else names.index(key)] = (least, most)
    return found
