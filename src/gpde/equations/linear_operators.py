r"""Linear differential operators with constant coefficients as data, and the fewest of them that span given rows."""

from collections.abc import Sequence

import numpy as np

from gpde.kernels import MultiIndex, Terms

LinearOperator = tuple[tuple[int, Terms], ...]
r"""For each field the operator looks at: its index and the terms $c_\alpha \partial^\alpha$."""

Derivative = tuple[int, MultiIndex]
r"""One derivative of one field, $\partial^\alpha u_f$."""

# Coefficients below this, relative to the largest of their row and in units of the domain, are what rounding left.
_ROUNDING = 1e-13
# Small coefficients are enlarged before ranks are decided, at most this much: their rounding errors are enlarged as well.
_LARGEST_GAIN = 1e5
_RANK_TOLERANCE = 1e-10


def operator_order(operator: LinearOperator) -> int:
    """The highest derivative it takes."""
    return max(sum(alpha) for _, terms in operator for alpha, _ in terms)


def point_value(field: int, dim: int) -> LinearOperator:
    """The value of one field."""
    return ((field, (((0,) * dim, 1.0),)),)


def is_point_value(operator: LinearOperator) -> bool:
    """Whether it is the value of one field."""
    return len(operator) == 1 and len(operator[0][1]) == 1 and sum(operator[0][1][0][0]) == 0


def derivative_units(columns: Sequence[Derivative], units: Sequence[float]) -> np.ndarray:
    r"""The size of $\partial^\alpha u$ where u and coordinates in units of `units` are of order one."""
    return np.array([np.prod(np.asarray(units) ** -np.asarray(alpha, dtype=float)) for _, alpha in columns])


def operator_unit(operator: LinearOperator, units: Sequence[float]) -> float:
    """The size of its largest term, likewise."""
    terms = [(field, alpha) for field, terms in operator for alpha, _ in terms]
    return float(np.max(np.abs([c for _, terms in operator for _, c in terms]) * derivative_units(terms, units)))


def operator_text(operator: LinearOperator, fields: Sequence[str], coordinates: Sequence[str]) -> str:
    """A linear operator as a person writes it: `u`, `u_t - 0.02 u_xx`, `Δu`."""
    dim = len(coordinates)
    pieces: list[tuple[float, str]] = []
    for field, terms in operator:
        left = dict(terms)
        pure = [tuple(2 * (a == b) for b in range(dim)) for a in range(dim)]
        if dim > 1 and all(left.get(alpha) == left.get(pure[0]) and alpha in left for alpha in pure):
            pieces.append((left[pure[0]], f"Δ{fields[field]}"))
            left = {alpha: c for alpha, c in left.items() if alpha not in pure}
        for alpha, coefficient in left.items():
            axes = "".join(coordinates[a] * n for a, n in enumerate(alpha))
            pieces.append((coefficient, fields[field] + (f"_{axes}" if axes else "")))
    text = ""
    for coefficient, symbol in pieces:
        sign = "-" if coefficient < 0 else "+"
        factor = "" if abs(coefficient) == 1 else f"{abs(coefficient):.6g} "
        text += f" {sign} {factor}{symbol}"
    text = text.removeprefix(" + ")
    return "-" + text.removeprefix(" - ") if text.startswith(" - ") else text


def row_space(
    rows: np.ndarray, columns: Sequence[Derivative], units: Sequence[float], *, minimal: bool
) -> tuple[tuple[LinearOperator, ...], tuple[Derivative, ...]]:
    """A basis of the row space in reduced echelon form as operators, and the derivatives at its pivots.

    `columns` says which derivative each column belongs to, `units` are the lengths of the domain. Without `minimal` every
    derivative that occurs is an operator.
    """
    gain = _column_gains(rows, columns, units)
    present = np.flatnonzero(gain > 0)
    if not minimal:
        basis, pivots = np.eye(len(present)), list(range(len(present)))
    else:
        basis, pivots = _echelon(_normalized(rows[:, present] * gain[present]))
    found = np.zeros((len(basis), len(columns)))
    found[:, present] = np.where(np.abs(basis) > _RANK_TOLERANCE, basis, 0.0) / gain[present]
    kept = [int(present[p]) for p in pivots]
    found /= found[np.arange(len(kept)), kept][:, None]
    return tuple(_operator(row, columns) for row in found), tuple(columns[p] for p in kept)


def rows_outside(
    rows: np.ndarray,
    operators: Sequence[LinearOperator],
    pivots: Sequence[Derivative],
    columns: Sequence[Derivative],
    units: Sequence[float],
) -> np.ndarray:
    """Which rows are finite and not combinations of the operators."""
    rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
    inside = rows[..., [columns.index(pivot) for pivot in pivots]] @ coefficient_matrix(operators, columns)
    gain = _column_gains(rows.reshape(-1, len(columns)), columns, units)
    return np.any(np.abs(rows - inside) * gain > 1e-8 * np.abs(rows * gain).max(axis=-1, keepdims=True), axis=-1)


def _column_gains(rows: np.ndarray, columns: Sequence[Derivative], units: Sequence[float]) -> np.ndarray:
    """What to multiply each column by so that its entries are of order one; zero for a column of rounding errors.

    A diffusivity may be small in any units. It is no less a coefficient for that.
    """
    unit = derivative_units(columns, units)
    scaled = _normalized(rows * unit)
    if not len(scaled):
        return np.zeros(len(columns))
    size = np.abs(scaled).max(axis=0)
    return np.where(size > _ROUNDING, unit / np.maximum(size, 1 / _LARGEST_GAIN), 0.0)


def _normalized(rows: np.ndarray) -> np.ndarray:
    scale = np.abs(rows).max(axis=1, keepdims=True)
    return rows[scale[:, 0] > 0] / scale[scale[:, 0] > 0]


def _echelon(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[singular > _RANK_TOLERANCE * singular[0]]
    pivots: list[int] = []
    for column in range(basis.shape[1]):
        row = len(pivots)
        if row == len(basis):
            break
        best = row + int(np.argmax(np.abs(basis[row:, column])))
        if abs(basis[best, column]) <= 1e-8:
            continue
        basis[[row, best]] = basis[[best, row]]
        basis[row] /= basis[row, column]
        others = np.arange(len(basis)) != row
        basis[others] -= np.outer(basis[others, column], basis[row])
        pivots.append(column)
    return basis[: len(pivots)], pivots


def _operator(row: np.ndarray, columns: Sequence[Derivative]) -> LinearOperator:
    by_field: dict[int, list[tuple[MultiIndex, float]]] = {}
    for coefficient, (field, alpha) in zip(row, columns, strict=True):
        if coefficient != 0:
            by_field.setdefault(field, []).append((alpha, _snap(float(coefficient))))
    return tuple((field, tuple(terms)) for field, terms in sorted(by_field.items()))


def _snap(coefficient: float) -> float:
    """The short decimal that was surely meant, where rounding alone stands between (0.02 for 0.02000000000000001)."""
    short = float(f"{coefficient:.8g}")
    return short if abs(short - coefficient) <= 1e-13 * abs(coefficient) else coefficient


def coefficient_matrix(operators: Sequence[LinearOperator], columns: Sequence[Derivative]) -> np.ndarray:
    matrix = np.zeros((len(operators), len(columns)))
    for row, operator in enumerate(operators):
        for field, terms in operator:
            for alpha, coefficient in terms:
                matrix[row, columns.index((field, alpha))] = coefficient
    return matrix
