r"""Whether the equations leave the solution open, judged by their form alone.

Along an axis, equations of order $p$ ask for $p$ conditions at its two ends together. The order of a system of $n$ equations in
$n$ fields is Jacobi's number, the largest $\sum_i \text{order}(\text{equation}_i, \text{field}_{\sigma(i)})$ over permutations
$\sigma$. And a field of which only derivatives occur is fixed up to a constant at best.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from gpde.equations.linear_operators import Derivative, LinearOperator, coefficient_matrix, derivative_units
from gpde.functionals.functionals import Kernels
from gpde.problem.problem import Problem
from gpde.solution.checks.residuals import CHUNK, Watched, residuals_and_gradients

_ABSENT = -1000  # in place of minus infinity: no sum of orders makes up for it


class _Looks(NamedTuple):
    """What each equation of a part looks at: which derivatives."""

    part: str
    derivatives: list[set[Derivative]]


def open_questions(problem: Problem, conditions: Sequence[Watched], kernels: Kernels) -> list[str]:
    """A sentence for each thing the equations do not decide."""
    looks = _looked_at(problem, conditions)
    interior = [equation for look in looks if look.part == "interior" for equation in look.derivatives]
    if not interior:
        return []  # data or boundary values alone: nothing promises a unique function
    data = [c for c in problem.conditions if c.observations is not None]
    among = "Of all solutions that meet them and the data" if data else "Of all solutions that meet them"
    reasons, said, notes = [], set(), []
    for fields in _coupled(interior, len(problem.fields)):
        if missing := _missing(problem, looks, interior, fields, kernels):
            reasons += missing
            said |= fields
    if reasons:
        notes.append(f"the equations leave the solution open: {', and '.join(reasons)}. {among} this is the one of least norm")
    values = {field for look in looks for equation in look.derivatives for field, alpha in equation if not any(alpha)}
    values |= {f for c in data for o in c.reading.operators for f, alpha in _terms(o) if not any(alpha)}
    notes += [
        f"the equations look at derivatives of {field} alone, which they fix up to a constant at best: this is the one of "
        "least norm"
        for index, field in enumerate(problem.fields)
        if index not in values | said
    ]
    return notes


def _looked_at(problem: Problem, conditions: Sequence[Watched]) -> list[_Looks]:
    r"""The derivatives in each equation: those with $\partial r/\partial(\partial^\alpha u) \ne 0$ for random values."""
    readings = tuple(c.part.reading for c in conditions)
    columns = sorted({d for r in readings for operator in r.operators for d in _terms(operator)})
    unit = derivative_units(columns, problem.domain.extent.tolist())
    rng = np.random.default_rng(3)
    values = [rng.normal(size=(CHUNK, len(r.operators))) for r in readings]
    found = residuals_and_gradients(readings, [c.pool.at(slice(CHUNK)) for c in conditions], values)
    out = []
    for condition, reading, (_, gradient) in zip(conditions, readings, found, strict=True):
        part = _where(problem, condition)
        if part is None:
            continue
        with np.errstate(invalid="ignore"):  # exp(-30 / u) at u < 0
            size = np.abs(gradient @ coefficient_matrix(reading.operators, columns)) * unit
        size = np.max(np.where(np.isfinite(size), size, 0.0), axis=0)  # (equations, derivatives)
        present = size > 1e-12 * size.max(axis=1, keepdims=True)
        present &= np.array([[field < len(problem.fields) for field, _ in columns]])  # scalars ask for no condition
        out.append(_Looks(part, [{columns[k] for k in np.flatnonzero(row)} for row in present]))
    return out


def _where(problem: Problem, condition: Watched) -> str | None:
    """The part that an equation holds on. Exact data all along one side are a condition there; others have no part."""
    if not condition.is_data:
        return condition.part.name
    points, domain = np.asarray(condition.part.points), problem.domain
    for atom in () if condition.part.noisy else domain.sides:
        side = np.ptp(domain.sample(atom, 64, seed=0), axis=0)
        if domain.on_part(atom, points).all() and np.all(np.ptp(points, axis=0) >= 0.5 * side):
            return atom
    return None


def _terms(operator: LinearOperator) -> list[Derivative]:
    return [(field, alpha) for field, terms in operator for alpha, _ in terms]


def _coupled(interior: Sequence[set[Derivative]], num_fields: int) -> list[set[int]]:
    """Fields in groups that no equation connects."""
    together = np.zeros((num_fields, num_fields))
    for equation in interior:
        fields = sorted({field for field, _ in equation})
        together[np.ix_(fields, fields)] = 1
    _, label = connected_components(together, directed=False)
    return [set(np.flatnonzero(label == group).tolist()) for group in range(label.max() + 1)]


def _missing(
    problem: Problem, looks: Sequence[_Looks], interior: Sequence[set[Derivative]], fields: set[int], kernels: Kernels
) -> list[str]:
    """What is missing for the given fields."""
    own = [equation for equation in interior if _touches(equation, fields)]
    names = ", ".join(problem.fields[field] for field in sorted(fields))
    if len(own) < len(fields):
        return [f"for {names} there {'is 1 equation' if len(own) == 1 else f'are {len(own)} equations'} in the interior"]
    if len(own) > len(fields):
        return []  # overdetermined: the orders say nothing
    conditions = _conditions(problem, looks, fields)
    reasons = []
    for axis, name in enumerate(problem.domain.coordinates):
        # Where functions repeat themselves the two ends are one place in the middle; but a longer period leaves a gap.
        period = max(kernel.periods(problem.domain.dim)[axis] for kernel in kernels)
        if 0 < period <= (1 + 1e-9) * problem.domain.extent[axis]:
            continue
        order = _order(own, sorted(fields), axis)
        ends = [min(atoms, key=conditions.__getitem__) for atoms in _ends(problem, axis) if atoms]
        there = sum(conditions[atom] for atom in ends)
        if there < order:
            where = " and ".join(f"'{atom}'" for atom in dict.fromkeys(ends))
            number = f"{there or 'no'} condition{'' if there == 1 else 's'}"
            longer = f" (the kernel's period, {period:g}, is longer than the domain)" if 0 < period < np.inf else ""
            reasons.append(f"of order {order} in {name}, they come with {number} for {names} on {where}{longer}")
    return reasons


def _conditions(problem: Problem, looks: Sequence[_Looks], fields: set[int]) -> dict[str, int]:
    """How many conditions for the given fields hold on each side."""
    conditions = dict.fromkeys(problem.domain.sides, 0)
    for look in looks:
        if look.part != "interior":
            for atom in problem.atoms(look.part):
                conditions[atom] += sum(_touches(equation, fields) for equation in look.derivatives)
    return conditions


def scalars_are_open(problem: Problem, conditions: Sequence[Watched]) -> bool:
    """Whether nothing can determine the unknown scalars: no data, no constraints, and nowhere more equations or conditions than
    the fields ask for, so that there is a solution whatever they are."""
    if not problem.parameters or problem.constraints or any(c.observations is not None for c in problem.conditions):
        return False
    looks = _looked_at(problem, conditions)
    interior = [equation for look in looks if look.part == "interior" for equation in look.derivatives]
    for fields in _coupled(interior, len(problem.fields)) if interior else []:
        own, there = [e for e in interior if _touches(e, fields)], _conditions(problem, looks, fields)
        if len(own) > len(fields):
            return False
        for axis in range(problem.domain.dim):
            most = [max(there[atom] for atom in atoms) for atoms in _ends(problem, axis) if atoms]
            if sum(most) > (_order(own, sorted(fields), axis) if len(own) == len(fields) else 0):
                return False
    return bool(interior)


def _touches(equation: set[Derivative], fields: set[int]) -> bool:
    return any(field in fields for field, _ in equation)


def _order(equations: Sequence[set[Derivative]], fields: Sequence[int], axis: int) -> int:
    """Jacobi's number along an axis; zero where no permutation finds its fields."""
    orders = np.full((len(equations), len(fields)), _ABSENT)
    for row, equation in enumerate(equations):
        for field, alpha in equation:
            column = fields.index(field)
            orders[row, column] = max(orders[row, column], alpha[axis])
    return max(0, int(orders[linear_sum_assignment(orders, maximize=True)].sum()))


def _ends(problem: Problem, axis: int) -> tuple[list[str], list[str]]:
    """The sides at the lower and at the upper end of an axis: where a third of a side's normals or more point there."""
    domain = problem.domain
    lower, upper = [], []
    for atom in domain.sides:
        normals = domain.atom_normal(atom, domain.sample(atom, 64, seed=0))[:, axis]
        if np.mean(normals < -1e-3) >= 1 / 3:
            lower.append(atom)
        if np.mean(normals > 1e-3) >= 1 / 3:
            upper.append(atom)
    return lower, upper
