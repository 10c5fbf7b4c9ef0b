"""What kind an equation is, and for which functionals the equations of a part can be solved."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gpde.equations.linear_operators import LinearOperator, is_point_value, operator_order

_CHECK_TOLERANCE = 1e-9
_ROUNDING = 1e-13  # relative to the largest: what cancels leaves that much behind


@dataclasses.dataclass(frozen=True)
class Kind:
    """What an equation is: `linear` (affine in everything), `dirichlet` (affine in one point value alone), and the
    functionals it looks at, and in which of them it is affine with a constant coefficient."""

    linear: bool
    dirichlet: bool
    looks_at: tuple[int, ...]
    affine_in: tuple[int, ...]


def classify(
    samples: Float[np.ndarray, "draws points equations operators"],
    operators: Sequence[LinearOperator],
    unit: Float[np.ndarray, " operators"],
) -> tuple[tuple[Kind, ...], tuple[int, ...] | None, tuple[tuple[float, ...], ...] | None]:
    r"""The kind of each equation, the functionals all can be solved for at once, and their coefficients.

    `samples` are gradients $\partial r/\partial v$ at points for values of very different size; `unit` is the size of the
    operators' values in units of the domain.
    """
    num_equations, num_operators = samples.shape[2:]
    finite = np.asarray(np.isfinite(samples).all(axis=-1))
    samples = np.where(finite[..., None], samples, np.nan)
    # The first finite gradient of each equation; fmax, unlike max, passes over NaN (and all() does not: NaN <= x is False).
    coefficients = samples.reshape(-1, num_equations, num_operators)[
        finite.reshape(-1, num_equations).argmax(axis=0), np.arange(num_equations)
    ]
    size = np.fmax.reduce(np.abs(samples), axis=(0, 1))
    # Of its own row: beside the gradient of exp(u) at u = 1e4 anything would look small.
    row = np.abs(samples) * unit
    largest = row.max(axis=-1, keepdims=True)
    share = np.fmax.reduce(row / np.where(largest > 0, largest, 1.0), axis=(0, 1))
    in_values = np.fmax.reduce(np.abs(samples - samples[:1]), axis=(0, 1)) <= _CHECK_TOLERANCE * size
    constant = np.fmax.reduce(np.abs(samples - coefficients), axis=(0, 1)) <= _CHECK_TOLERANCE * size
    present = np.fmax.reduce(size, axis=0) > 0
    kinds = []
    for e in range(num_equations):
        seen = np.flatnonzero(share[e] > _ROUNDING)
        value_alone = len(seen) == 1 and is_point_value(operators[seen[0]])
        kinds.append(
            Kind(
                linear=bool(np.all(in_values[e])),
                dirichlet=value_alone and bool(np.all(in_values[e]) and np.all(samples[0, :, e, seen[0]] != 0)),
                looks_at=tuple(int(k) for k in seen),
                affine_in=tuple(int(k) for k in seen if constant[e, k] and coefficients[e, k] != 0),
            )
        )
    candidates = [k for k in range(num_operators) if present[k] and np.all(constant[:, k])]
    eliminated = _solvable(coefficients * unit, candidates, [operator_order(o) for o in operators])
    matrix = None if eliminated is None else tuple(map(tuple, coefficients[:, eliminated].tolist()))
    return tuple(kinds), eliminated, matrix


def _solvable(coefficients: np.ndarray, candidates: list[int], orders: list[int]) -> tuple[int, ...] | None:
    """One functional per equation with an invertible constant coefficient matrix: largest pivots first, and among equal
    ones the highest order (Burgers is solved for its u_t, the elliptic equation for Δu)."""
    chosen: list[int] = []
    rest = coefficients.copy()
    for _ in range(len(coefficients)):
        free = [k for k in candidates if k not in chosen]
        if not free:
            return None
        sizes = [np.linalg.norm(rest[:, k]) * (1 + 1e-6 * orders[k]) for k in free]
        best = free[int(np.argmax(sizes))]
        column = rest[:, best]
        norm = np.linalg.norm(column)
        if norm <= 1e-10 * np.abs(coefficients).max():
            return None
        rest = rest - np.outer(column / norm, column @ rest / norm)
        chosen.append(best)
    return tuple(chosen)
