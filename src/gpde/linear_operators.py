r"""Linear differential operators with constant coefficients as data, and the fewest of them that span given rows."""

from collections.abc import Sequence

import numpy as np

from gpde.kernels import MultiIndex, Terms

LinearOperator = tuple[tuple[int, Terms], ...]
r"""For each field the operator looks at: its index and the terms $c_\alpha \partial^\alpha$."""

Derivative = tuple[int, MultiIndex]
r"""One derivative of one field, $\partial^\alpha u_f$."""

# Row spaces are decided at 1e-10 of the largest row: autodiff errors lie at 1e-15, meaningful coefficients far above.
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
    rows: np.ndarray, columns: Sequence[Derivative], *, minimal: bool
) -> tuple[tuple[LinearOperator, ...], tuple[Derivative, ...]]:
    """A basis of the row space in reduced echelon form as operators, and the derivatives at its pivots.

    `columns` says which derivative each column belongs to. Without `minimal` every derivative that occurs is an operator.
    """
    basis, pivots = _echelon(rows) if minimal else _unit_rows(rows)
    return tuple(_operator(row, columns) for row in basis), tuple(columns[p] for p in pivots)


def _normalized(rows: np.ndarray) -> np.ndarray:
    scale = np.abs(rows).max(axis=1, keepdims=True)
    return rows[scale[:, 0] > 0] / scale[scale[:, 0] > 0]


def _unit_rows(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    used = np.flatnonzero(np.abs(_normalized(rows)).max(axis=0) > _RANK_TOLERANCE)
    return np.eye(rows.shape[1])[used], [int(column) for column in used]


def _echelon(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    _, singular, basis = np.linalg.svd(_normalized(rows), full_matrices=False)
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
        if abs(coefficient) > 1e-11:
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
