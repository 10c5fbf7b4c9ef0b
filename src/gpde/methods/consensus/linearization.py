"""The equations of all points linearised for the patches: which values they fix, what is left of them, how long a step is."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.point_table import PointTable
from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.functionals.functionals import Kernels, pair_covariance
from gpde.linalg.line_search import Damped, backtrack
from gpde.machine.arrays import on_device
from gpde.methods.consensus.patch import Equations


def value_slots(operators: tuple[LinearOperator, ...], dim: int, num_fields: int) -> list[tuple[int, int]]:
    """Which operators are the value of a field, and of which."""
    fields = {point_value(field, dim): field for field in range(num_fields)}
    return [(slot, fields[operator]) for slot, operator in enumerate(operators) if operator in fields]


@eqx.filter_jit
def linearized(
    table: PointTable, operators: Float[Array, "points operators"], kernels: Kernels
) -> tuple[Equations, Float[Array, "points equations"]]:
    """The equations at the current values of the operators, and the prior standard deviation of each."""
    index = jnp.arange(table.num_points)
    coefficients = jax.vmap(table.gradient)(index, operators)
    residual = jax.vmap(table.residual)(index, operators)
    # A linear equation whose coefficients all vanish at a point, as x u = 0 does at x = 0, says nothing there.
    silent = jnp.asarray(_linear(table)) & jnp.all(coefficients == 0, axis=-1)
    equations = Equations(
        operators=table.collocation.functionals.operators,
        num_fields=table.collocation.num_fields,
        points=table.points,
        coefficients=coefficients,
        rhs=jnp.einsum("ped,pd->pe", coefficients, operators) - residual,
        noise_variance=table.noise_variance,
        used=table.has_equation & jnp.asarray(dirichlet(table)[0] < 0) & ~silent,
    )
    prior = [jax.vmap(lambda x, pair=pair_covariance(kernels, o, o): pair(x, x))(table.points) for o in equations.operators]
    return equations, jnp.sqrt(jnp.einsum("ped,dp->pe", coefficients**2, jnp.stack(prior)))


@eqx.filter_jit
def shortened(
    table: PointTable,
    old: Float[Array, "points operators"],
    new: Float[Array, "points operators"],
    unit: Float[Array, "points equations"],
    slack: Float[Array, ""],
    max_halvings: int,
) -> tuple[Damped, Float[Array, ""]]:
    r"""Backtracking on $\tfrac12\sum_i |f_i(z_i) - y_i|^2$ in units of the prior, over the exact equations.

    The step solves the linearised equations, so this merit falls along it at rate $-2$ times itself. It may grow by a factor
    `slack`; where that is infinite the step is taken whole. The merit of the whole step comes too.
    """
    index = jnp.arange(table.num_points)
    counted = table.has_equation & (table.noise_variance == 0) & jnp.asarray(dirichlet(table)[0] < 0) & (unit > 0)

    def merit(operators: Array) -> Array:
        residual = jax.vmap(table.residual)(index, operators)
        return 0.5 * jnp.sum(jnp.where(counted, residual / jnp.where(unit > 0, unit, 1.0), 0.0) ** 2)

    def trial(t: Array) -> tuple[Array, Array]:
        operators = (1 - t) * old + t * new
        return operators, merit(operators)

    return backtrack(trial, jnp.where(jnp.isinf(slack), jnp.inf, slack * merit(old)), max_halvings=max_halvings), merit(new)


def dirichlet(table: PointTable) -> tuple[Int[np.ndarray, "points equations"], Int[np.ndarray, "points equations"]]:
    """For each equation that fixes a field's value: the field, and the slot of its value; -1 for other equations."""
    dim = table.points.shape[1]
    slots = {operator: k for k, operator in enumerate(table.collocation.functionals.operators)}
    field_of = {point_value(field, dim): field for field in range(table.collocation.num_fields)}
    fields, where = [], []
    for part in table.collocation.parts:
        field_row, slot_row = np.full((2, table.num_equations), -1)
        for e, kind in enumerate(part.reading.kinds):
            if kind.dirichlet and not part.noisy:
                operator = part.reading.operators[kind.looks_at[0]]
                field_row[e], slot_row[e] = field_of[operator], slots[operator]
        fields.append(np.tile(field_row, (part.num_points, 1)))
        where.append(np.tile(slot_row, (part.num_points, 1)))
    return np.concatenate(fields), np.concatenate(where)


def _linear(table: PointTable) -> Bool[np.ndarray, "points equations"]:
    """Which equations have coefficients that do not change from step to step."""
    rows = []
    for part in table.collocation.parts:
        row = np.zeros(table.num_equations, dtype=bool)
        row[: part.num_equations] = [kind.linear for kind in part.reading.kinds]
        rows.append(np.tile(row, (part.num_points, 1)))
    return np.concatenate(rows)


def fixed_values(table: PointTable, kernels: Kernels) -> Bool[np.ndarray, "points fields"]:
    """Which values a Dirichlet condition fixes."""
    equations, _ = linearized(table, on_device(np.zeros((table.num_points, table.num_operators))), kernels)
    fixed = np.zeros((table.num_points, table.collocation.num_fields), dtype=bool)
    for points, field, _ in _dirichlet_values(table, equations):
        fixed[points, field] = True
    return fixed


def starting_values(
    table: PointTable, operators: Float[Array, "points operators"], kernels: Kernels
) -> Float[np.ndarray, "points fields"]:
    """The values to start from: those of the operators where they are known, with Dirichlet values put in."""
    equations, _ = linearized(table, operators, kernels)
    values = np.zeros((table.num_points, table.collocation.num_fields))
    for slot, field in value_slots(equations.operators, table.points.shape[1], values.shape[1]):
        values[:, field] = np.asarray(operators)[:, slot]
    for points, field, value in _dirichlet_values(table, equations):
        values[points, field] = value
    return values


def _dirichlet_values(table: PointTable, equations: Equations) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Points with the field that a Dirichlet condition fixes there and its value."""
    fields, slots = dirichlet(table)
    rhs, coefficients = np.asarray(equations.rhs), np.asarray(equations.coefficients)
    for e in range(table.num_equations):
        at = np.arange(table.num_points), e, np.maximum(slots[:, e], 0)
        points = np.flatnonzero((fields[:, e] >= 0) & (coefficients[at] != 0))
        slot = slots[points, e]
        yield points, fields[points, e], rhs[points, e] / coefficients[points, e, slot]
