r"""Reads an equation: which linear operators of the unknown it looks at, and its residual as a function of their values.

The operators that matter are the row space of $\partial r/\partial z$ over probe points and values of the derivatives $z$, in
reduced echelon form: $-\Delta u + u^3$ gives $\{u, \Delta u\}$.
"""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.equations.kinds import Kind, classify
from gpde.equations.linear_operators import (
    Derivative,
    LinearOperator,
    coefficient_matrix,
    derivative_units,
    operator_order,
    operator_unit,
    row_space,
    rows_outside,
)
from gpde.equations.programs import Program, traced
from gpde.equations.statements import Site, Statement, words
from gpde.equations.tracing import requested_derivatives, require_double_precision

_NUM_PROBES = 48
_OTHER_SIZES = (1, 2, 3, 4, 5, -2, -4, -6, -8, -10)  # powers of ten of the values of the second set of probes
_UNKNOWN_ADVICE = "An equation is a function of the unknown, as in `lambda u, x: laplacian(u)(x) - f(x)`."


@dataclasses.dataclass(frozen=True)
class Reading:
    r"""The equations of one part, understood: $r(x, v)$, with $v_k = L_k u(x)$.

    `eliminated` names one functional per equation for which all can be solved at once (each is affine in them with the
    constant, invertible coefficients `elimination_matrix`), or is None. `units` are the lengths in which it was read,
    `columns` the derivatives the equations ask for. Readings that compute the same are equal, whatever the names of the
    equations and the units: what was compiled for one serves all.
    """

    equations: tuple[Statement, ...] = dataclasses.field(compare=False)
    program: Program
    dim: int
    num_fields: int
    units: tuple[float, ...] = dataclasses.field(compare=False)
    columns: tuple[Derivative, ...]
    operators: tuple[LinearOperator, ...]
    pivots: tuple[Derivative, ...]
    kinds: tuple[Kind, ...]
    eliminated: tuple[int, ...] | None
    elimination_matrix: tuple[tuple[float, ...], ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the equations."""
        return tuple(statement.name for statement in self.equations)

    @property
    def takes_normal(self) -> bool:
        """Whether an equation asks for the normal."""
        return any(statement.normal is not None for statement in self.equations)

    @property
    def order(self) -> int:
        """The highest derivative any operator takes."""
        return max(operator_order(operator) for operator in self.operators)

    def averaged(self) -> "Reading":
        """The same equations, to hold on average: at no point can they be solved for anything."""
        kinds = tuple(dataclasses.replace(kind, dirichlet=False) for kind in self.kinds)
        return dataclasses.replace(self, kinds=kinds, eliminated=None, elimination_matrix=None)

    def residual(self, site: Site, values: Float[Array, " operators"]) -> Float[Array, " equations"]:
        r"""$r(x, v)$ for one point: the pivot derivatives take the operators' values, every other derivative is zero."""
        given = dict(zip(self.pivots, values, strict=True))
        z = jnp.stack([given.get(column, jnp.zeros((), dtype=values.dtype)) for column in self.columns])
        return self.program(site, z)

    def covers(self, sites: Site) -> bool:
        """Whether what was read holds at these sites too, for values drawn at random: the operators found are enough, what
        was linear is linear, and what the equations are solved for has the same coefficients."""
        columns, num = self.columns, sites.num_points
        pivots = [columns.index(pivot) for pivot in self.pivots]
        unit = derivative_units(columns, self.units)
        z = unit * np.random.default_rng(7).normal(size=(2 * num, len(columns)))
        rows = self.program.gradients(sites.at(np.arange(2 * num) % num), z)
        rows = rows.reshape(2, num, -1, len(columns))  # (draws, points, equations, derivatives)
        rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, np.nan)
        # NaN (the root of a negative draw, say) never differs: comparisons with it are False.
        scaled = rows * unit
        tolerance = 1e-8 * np.abs(scaled).max(axis=-1, keepdims=True)
        bent = (np.abs(scaled[0] - scaled[1]) > tolerance[0])[:, [kind.linear for kind in self.kinds]]
        changed = np.zeros(0)
        if self.eliminated is not None:
            chosen = np.array(pivots)[list(self.eliminated)]
            changed = np.abs(rows[..., chosen] - np.array(self.elimination_matrix)) * unit[chosen] > tolerance
        outside = rows_outside(rows, self.operators, self.pivots, columns, self.units)
        # One point in two far out, for switches; elsewhere gradients have told.
        far = z[:num] * np.where(np.arange(num) % 2, 1e3, 1.0)[:, None]
        found = self.program.residuals(sites, far)
        size = _sizes(found, far, self.program.gradients(sites, far))
        switched = _gap(found, self.program.residuals(sites, _as_read(self, far))) > size
        return not (np.any(outside) or np.any(bent) or np.any(changed) or np.any(switched))


def read(
    equations: Sequence[Statement],
    fields: Sequence[str],
    probes: Site,
    *,
    units: Sequence[float] | Float[np.ndarray, " dim"] | None = None,
    functionals: str = "minimal",
    num_probes: int = _NUM_PROBES,
) -> Reading:
    """Reads equations that hold at the same points.

    **Main arguments:**

    - `equations`: functions of the fields and the point, with what to call them in messages.
    - `probes`: sites of the part where they hold.

    **Other arguments:**

    - `units`: the lengths in which coordinates are measured, those of the domain: with them 1e-11 m²/s is not a small
      number where lengths are micrometres.
    - `functionals`: `"minimal"` finds the smallest set of operators; `"derivatives"` keeps every partial derivative apart,
      as the paper's experiments do.
    - `num_probes`: how many points and values to try, at least.
    """
    if functionals not in ("minimal", "derivatives"):
        raise ValueError(f"`functionals` must be 'minimal' or 'derivatives', not {functionals!r}.")
    require_double_precision("Problem")
    asked: set[Derivative] = set()
    for statement in equations:
        found = requested_derivatives(statement, fields, probes.at(0))
        if not found:
            raise ValueError(f"{statement.name} never looks at the unknown {words(fields)}. {_UNKNOWN_ADVICE}")
        asked |= found
    dim = probes.x.shape[1]
    columns = tuple(sorted(asked, key=lambda c: (sum(c[1]), c[0], tuple(-a for a in c[1]))))
    blank = Reading(
        equations=tuple(equations),
        program=traced(equations, len(fields), columns, probes),
        dim=dim,
        num_fields=len(fields),
        units=tuple(float(length) for length in (np.ones(dim) if units is None else units)),
        columns=columns,
        operators=(),
        pivots=(),
        kinds=(),
        eliminated=None,
        elimination_matrix=None,
    )
    num_probes = max(num_probes, 3 * len(blank.columns))
    sites = probes.at(np.arange(num_probes) % probes.num_points)
    unit = derivative_units(blank.columns, blank.units)
    z = unit * np.random.default_rng(20240).normal(size=(num_probes, len(blank.columns)))
    z *= np.array([0.3, 1.0, 3.0])[np.arange(num_probes) % 3, None]
    near = blank.program.gradients(sites, z)
    finite = np.isfinite(near).all(axis=-1) & np.isfinite(blank.program.residuals(sites, z))
    for e, name in enumerate(blank.names):
        _check_probes(finite[:, e], sites.x, name)
    _check_local(blank, sites, z, finite)
    for e, name in enumerate(blank.names):
        if not np.any(near[finite[:, e], e]):
            raise ValueError(
                f"{name} does not depend on the unknown {words(fields)} at any probe point: its derivative in "
                f"every value of {words(fields)} is zero. {_UNKNOWN_ADVICE}"
            )
    minimal = functionals == "minimal"
    rows = near[finite]
    operators, pivots = row_space(rows, blank.columns, blank.units, minimal=minimal)
    # Values of other sizes find a term that sleeps below a threshold, as max(u - 100, 0), or that only small values show, as
    # the Laplacian in -Δu + 1e16 u³. Their rows are badly scaled: only those that show something new are used.
    other = z * 10.0 ** np.resize(_OTHER_SIZES, num_probes)[:, None]
    far = blank.program.gradients(sites, other)
    new = far.reshape(-1, len(unit))
    new = new[rows_outside(new, operators, pivots, blank.columns, blank.units)]
    rows = np.concatenate([rows, new])
    if len(new):
        operators, pivots = row_space(rows, blank.columns, blank.units, minimal=minimal)
    reading = dataclasses.replace(blank, operators=operators, pivots=pivots)
    # A switch, as where(u > 273, 2, 1), has no gradient in what it asks for. It is found by its values.
    both = sites.at(np.arange(2 * num_probes) % num_probes)
    twice = both, np.concatenate([z, other]), np.concatenate([near, far])
    for alone in (True, False):
        unread = _unread(reading, *twice)
        silent = unread & ~np.any(np.where(np.isfinite(rows), rows, 0.0) != 0, axis=0)
        chosen = np.flatnonzero(silent if alone and silent.any() else unread)
        if len(chosen):
            rows = np.concatenate([rows, np.eye(len(unit))[chosen]])
            operators, pivots = row_space(rows, blank.columns, blank.units, minimal=minimal)
            reading = dataclasses.replace(blank, operators=operators, pivots=pivots)
    return _classified(reading, sites)


def _unread(reading: Reading, sites: Site, z: np.ndarray, gradients: np.ndarray) -> Bool[np.ndarray, " columns"]:
    """Derivatives that the residual depends on, though not by way of the operators."""
    residuals = reading.program.residuals
    found = residuals(sites, z)
    size = _sizes(found, z, gradients)
    missed = np.flatnonzero(np.any(_gap(found, residuals(sites, _as_read(reading, z))) > size, axis=1))
    unread = np.zeros(len(reading.columns), dtype=bool)
    for column in range(len(unread) if len(missed) else 0):
        without = z[missed].copy()
        without[:, column] = 0.0
        unread[column] = np.any(_gap(residuals(sites.at(missed), without), found[missed]) > size[missed])
    return unread


def _as_read(reading: Reading, z: np.ndarray) -> np.ndarray:
    """Derivatives with the same values of the operators, of which `residual` knows: the pivots, and zeros."""
    reduced = np.zeros_like(z)
    pivots = [reading.columns.index(pivot) for pivot in reading.pivots]
    reduced[:, pivots] = z @ coefficient_matrix(reading.operators, reading.columns).T
    return reduced


def _gap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The distance of residuals; NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return np.abs(left - right)


def _sizes(residuals: np.ndarray, z: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """What rounding may make of residuals, rather too much; NaN where they are not finite, to which nothing compares."""
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.abs(residuals) + np.sum(np.abs(gradients * z[:, None, :]), axis=-1)
    return np.where(np.isfinite(terms), 1e-9 * terms, np.nan)


def _classified(reading: Reading, sites: Site) -> Reading:
    """The reading with the kind of each equation, and functionals it can be solved for."""
    rng = np.random.default_rng(11)
    unit = np.array([operator_unit(operator, reading.units) for operator in reading.operators])
    pivots = [reading.columns.index(pivot) for pivot in reading.pivots]

    def at(scale: float) -> tuple[np.ndarray, np.ndarray]:
        z = np.zeros((sites.num_points, len(reading.columns)))
        z[:, pivots] = scale * unit * rng.normal(size=(sites.num_points, len(pivots)))
        return z, reading.program.gradients(sites, z)

    draws = [at(scale) for scale in (0.5, 2.0, 50.0, 1e4)]
    samples = np.stack([gradients[..., pivots] for _, gradients in draws])
    kinds, eliminated, matrix = classify(samples, reading.operators, unit)
    # What has constant gradients is affine, unless it is a switch.
    affine = np.ones(len(kinds), dtype=bool)
    for z, gradients in draws:
        affine &= _is_affine(reading, sites, z, gradients, range(len(reading.columns)))
        if eliminated is not None and not np.all(_is_affine(reading, sites, z, gradients, [pivots[k] for k in eliminated])):
            eliminated = matrix = None
    kinds = tuple(
        dataclasses.replace(kind, linear=kind.linear and bool(plain), dirichlet=kind.dirichlet and bool(plain))
        for kind, plain in zip(kinds, affine, strict=True)
    )
    return dataclasses.replace(reading, kinds=kinds, eliminated=eliminated, elimination_matrix=matrix)


def _is_affine(
    reading: Reading, sites: Site, z: np.ndarray, gradients: np.ndarray, columns: Sequence[int]
) -> Bool[np.ndarray, " equations"]:
    """Whether setting these derivatives to zero changes each residual by what its gradient says."""
    columns = list(columns)
    without = z.copy()
    without[:, columns] = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        found = reading.program.residuals(sites, z)
        moved = np.einsum("pec,pc->pe", gradients[..., columns], z[:, columns])
        gap = np.abs(found - reading.program.residuals(sites, without) - moved)
        return ~np.any(gap > _sizes(found, z, gradients), axis=0)


def _check_probes(finite: Bool[np.ndarray, " probes"], x: np.ndarray, name: str) -> None:
    if np.mean(finite) < 0.2:
        bad = x[np.flatnonzero(~finite)[0]]
        raise ValueError(
            f"{name} is not finite at {np.sum(~finite)} of {len(x)} probe points, for instance at x = {_point(bad)}. "
            "Check divisions, logarithms and roots in its coefficients and sources."
        )


def _check_local(reading: Reading, sites: Site, z: np.ndarray, finite: Bool[np.ndarray, "probes equations"]) -> None:
    """A residual that looks at the unknown at its own point alone does not notice how it bends away from there."""
    plain, bent = (reading.program.bent(sites, z, stray) for stray in (0.0, 1.0))
    if plain is None or bent is None:
        return
    for e, name in enumerate(reading.names):
        here = finite[:, e]
        if np.any(np.abs(plain - bent)[here, e] > 1e-9 * (1 + np.abs(plain[here, e]))):
            raise ValueError(
                f"{name} looks at the unknown away from its own point `x` (as `u(-x)` or `u(x + h)` would). "
                "An equation may use u and its derivatives at x only; for periodic functions use a kernel with a `period`."
            )


def _point(x: np.ndarray) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in x) + ")"
