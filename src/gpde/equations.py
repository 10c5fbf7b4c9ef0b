r"""Reads an equation: which linear operators of the unknown it looks at, and its residual as a function of their values.

At a point $x_0$ the unknown is known by its derivatives $z_\alpha = \partial^\alpha u(x_0)$ alone. `known_derivatives` makes an
ordinary JAX function of them: its value is $z_0$ and its derivative rule raises the multi-index, so that the user's
equation, however it differentiates, evaluates to $r(x_0, z)$. The operators that matter are the row space of
$\partial r/\partial z$ over probe points and values, in reduced echelon form: $-\Delta u + u^3$ gives $\{u, \Delta u\}$.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jax.experimental import checkify
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, Bool, Float

from gpde.kernels import MultiIndex
from gpde.linear_operators import (
    Derivative,
    LinearOperator,
    derivative_units,
    is_point_value,
    operator_order,
    operator_unit,
    row_space,
    rows_outside,
)

Equation = Callable[..., Any]
MAX_ORDER = 4
_NUM_PROBES = 48
_SMALL_BLOCK, _LARGE_BLOCK = 64, 4096  # points a compiled program takes
_CHECK_TOLERANCE = 1e-9
_ROUNDING = 1e-13  # relative to the largest: what cancels leaves that much behind
_UNKNOWN_ADVICE = "An equation is a function of the unknown, as in `lambda u, x: laplacian(u)(x) - f(x)`."


def require_double_precision(call: str) -> None:
    """Refuses float32: Gram matrices of PDE problems are singular in it at any useful nugget."""
    if jnp.result_type(float) != jnp.float64:
        raise ValueError(
            f"`{call}` needs double precision, and JAX is in single precision (its default): in float32 the covariance "
            'of a PDE is singular. Put `jax.config.update("jax_enable_x64", True)` right after `import jax`, or set the '
            "environment variable JAX_ENABLE_X64=1."
        )


class OrderTooHighError(ValueError):
    """The equation takes a derivative of higher order than the library reads."""


def known_derivatives(
    derivative: Callable[[MultiIndex, Array, Any], Array], dim: int, values: Any, max_order: int | None = None
) -> Callable[[Array], Array]:
    r"""The function $u$ whose derivatives are given: `derivative(alpha, x, values)` is $\partial^\alpha u(x)$.

    Differentiating the result with any JAX transformation ends in calls of `derivative`, never in differentiating it in
    $x$. It may be differentiated in `values`.
    """

    @functools.cache
    def at(alpha: MultiIndex) -> Callable[[Array, Any], Array]:
        if max_order is not None and sum(alpha) > max_order:
            raise OrderTooHighError(f"a derivative of order {sum(alpha)} is taken; gpde reads orders up to {max_order}")

        @jax.custom_jvp
        def value(x: Array, values: Any) -> Array:
            return derivative(alpha, x, values)

        @functools.partial(value.defjvp, symbolic_zeros=True)
        def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
            (x, values), (dx, dvalues) = primals, tangents
            leaves, tree = jax.tree.flatten(values)
            # Zeros are made real: what XLA folds away costs nothing.
            dleaves = [
                jnp.zeros_like(v) if isinstance(dv, SymbolicZero) else dv
                for v, dv in zip(leaves, jax.tree.leaves(dvalues, is_leaf=_is_symbolic_zero), strict=True)
            ]
            _, tangent = jax.jvp(lambda v: derivative(alpha, x, v), (values,), (jax.tree.unflatten(tree, dleaves),))
            if not isinstance(dx, SymbolicZero):
                # A direction known while tracing (that of `partial`) spares the derivatives it does not ask for.
                known = None if isinstance(dx, Tracer) else np.asarray(dx)
                for axis in range(dim):
                    if known is not None and known[axis] == 0:
                        continue
                    raised = (*alpha[:axis], alpha[axis] + 1, *alpha[axis + 1 :])
                    tangent = tangent + at(raised)(x, values) * dx[axis]
            # Not what `derivative` gave: that is a constant to JAX, and a second derivative of u³ would lose 6u|∇u|².
            return value(x, values), tangent

        return value

    return lambda x: at((0,) * dim)(x, values)


def _is_symbolic_zero(leaf: Any) -> bool:
    return isinstance(leaf, SymbolicZero)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What an equation is: `linear` (affine in everything), `dirichlet` (affine in one point value alone), and the
    functionals it looks at, and in which of them it is affine with a constant coefficient."""

    linear: bool
    dirichlet: bool
    looks_at: tuple[int, ...]
    affine_in: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    r"""The equations of one part, understood: $r(x, v)$, with $v_k = L_k u(x)$.

    `eliminated` names one functional per equation for which all can be solved at once (each is affine in them with the
    constant, invertible coefficients `elimination_matrix`), or is None. `units` are the lengths in which it was read,
    `columns` the derivatives the equations ask for.
    """

    equations: tuple[Equation, ...]
    names: tuple[str, ...]
    dim: int
    num_fields: int
    units: tuple[float, ...]
    columns: tuple[Derivative, ...]
    operators: tuple[LinearOperator, ...]
    pivots: tuple[Derivative, ...]
    kinds: tuple[Kind, ...]
    eliminated: tuple[int, ...] | None
    elimination_matrix: tuple[tuple[float, ...], ...] | None

    @property
    def order(self) -> int:
        """The highest derivative any operator takes."""
        return max(operator_order(operator) for operator in self.operators)

    def residual(self, x: Float[Array, " dim"], values: Float[Array, " operators"]) -> Float[Array, " equations"]:
        r"""$r(x, v)$ for one point: the pivot derivatives take the operators' values, every other derivative is zero."""
        given = dict(zip(self.pivots, values, strict=True))
        z = jnp.stack([given.get(column, jnp.zeros((), dtype=x.dtype)) for column in self.columns])
        return _traced(self.equations, self.dim, self.num_fields, self.columns)(x, z)

    def covers(self, points: Float[np.ndarray, "points dim"]) -> bool:
        """Whether what was read holds at these points too, for values drawn at random: the operators found are enough, what
        was linear is linear, and what the equations are solved for has the same coefficients."""
        columns = self.columns
        pivots = [columns.index(pivot) for pivot in self.pivots]
        unit = derivative_units(columns, self.units)
        z = unit * np.random.default_rng(7).normal(size=(2 * len(points), len(columns)))
        rows = _gradients(self, np.tile(points, (2, 1)), z)
        rows = rows.reshape(2, len(points), -1, len(columns))  # (draws, points, equations, derivatives)
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
        return not (np.any(outside) or np.any(bent) or np.any(changed))


def read(
    equations: Sequence[Equation],
    names: Sequence[str],
    dim: int,
    fields: Sequence[str],
    probes: Float[np.ndarray, "points dim"],
    *,
    units: Sequence[float] | Float[np.ndarray, " dim"] | None = None,
    functionals: str = "minimal",
    num_probes: int = _NUM_PROBES,
) -> Reading:
    """Reads equations that hold at the same points.

    **Main arguments:**

    - `equations`, `names`: functions of the fields and the point, and what to call them in messages.
    - `probes`: points of the part where they hold.

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
    for equation, name in zip(equations, names, strict=True):
        found = requested_derivatives(equation, name, dim, fields, probes[0])
        if not found:
            raise ValueError(f"{name} never looks at the unknown {_words(fields)}. {_UNKNOWN_ADVICE}")
        asked |= found
    blank = Reading(
        equations=tuple(equations),
        names=tuple(names),
        dim=dim,
        num_fields=len(fields),
        units=tuple(float(length) for length in (np.ones(dim) if units is None else units)),
        columns=tuple(sorted(asked, key=lambda c: (sum(c[1]), c[0], tuple(-a for a in c[1])))),
        operators=(),
        pivots=(),
        kinds=(),
        eliminated=None,
        elimination_matrix=None,
    )
    num_probes = max(num_probes, 3 * len(blank.columns))
    x = probes[np.arange(num_probes) % len(probes)]
    unit = derivative_units(blank.columns, blank.units)
    z = unit * np.random.default_rng(20240).normal(size=(num_probes, len(blank.columns)))
    z *= np.array([0.3, 1.0, 3.0])[np.arange(num_probes) % 3, None]
    near = _gradients(blank, x, z)
    finite = np.isfinite(near).all(axis=-1) & np.isfinite(_bent(blank, x, z, 0.0))
    for e, name in enumerate(names):
        _check_probes(finite[:, e], x, name)
    _check_local(blank, x, z, finite)
    for e, name in enumerate(names):
        if not np.any(near[finite[:, e], e]):
            raise ValueError(
                f"{name} does not depend on the unknown {_words(fields)} at any probe point: its derivative in "
                f"every value of {_words(fields)} is zero. {_UNKNOWN_ADVICE}"
            )
    minimal = functionals == "minimal"
    rows = near[finite]
    operators, pivots = row_space(rows, blank.columns, blank.units, minimal=minimal)
    # Values far out find a term that sleeps below a threshold, as max(u - 100, 0). Their rows are badly scaled: only those
    # that show something new are used.
    far = _gradients(blank, x, z * 10.0 ** (1 + np.arange(num_probes) % 5)[:, None]).reshape(-1, len(unit))
    new = far[rows_outside(far, operators, pivots, blank.columns, blank.units)]
    if len(new):
        operators, pivots = row_space(np.concatenate([rows, new]), blank.columns, blank.units, minimal=minimal)
    return _classified(dataclasses.replace(blank, operators=operators, pivots=pivots), x)


def equation_name(equation: Equation, part: str, index: int | None = None) -> str:
    """What messages call an equation: its part, its place there, and its own name if it has one."""
    own = getattr(equation, "__name__", "<lambda>")
    place = f"the equation on '{part}'" if index is None else f"equation {index + 1} on '{part}'"
    return place if own == "<lambda>" else f"{place} (`{own}`)"


def check_arguments(equation: Equation, name: str, fields: Sequence[str]) -> None:
    """An equation takes the fields and the point, `(u, x)` for one field."""
    if not callable(equation):
        raise ValueError(
            f"{name} must be a function such as `lambda {', '.join(fields)}, x: ...`, not {type(equation).__name__}."
        )
    try:
        signature = inspect.signature(equation)
    except (TypeError, ValueError):  # a builtin without a signature: calling it will tell
        return
    names = [p.name for p in signature.parameters.values() if p.default is p.empty]
    if sorted(names) == sorted([*fields, "x"]) and names != [*fields, "x"]:
        raise ValueError(
            f"{name} takes `({', '.join(names)})`; the order is `({', '.join(fields)}, x)`: the fields as in `fields`, "
            "the point last."
        )
    try:
        signature.bind(*([None] * (len(fields) + 1)))
    except TypeError as error:
        raise ValueError(
            f"{name} must take {len(fields) + 1} arguments, `({', '.join(fields)}, x)`: the field"
            f"{'s' if len(fields) > 1 else ''} {_words(fields)} and the point; its signature is {signature}."
        ) from error


def check_operator(operator: Callable[..., Any], name: str, fields: Sequence[str]) -> None:
    """An operator takes the fields and gives a function: `laplacian`, or `lambda u, v: ...` for two fields."""
    try:
        inspect.signature(operator).bind(*([None] * len(fields)))
    except ValueError:  # a builtin without a signature: calling it will tell
        return
    except TypeError as error:
        raise ValueError(
            f"{name} must take the field{'s' if len(fields) > 1 else ''} {_words(fields)} and return a function of the "
            f"point, as in `lambda {', '.join(fields)}: ...`: {error}."
        ) from error


# --- evaluation at one point -------------------------------------------------------------------------------------------


def _fields(
    derivative: Callable[[int, MultiIndex, Array, Any], Array], dim: int, num_fields: int, values: Any
) -> list[Callable[[Array], Array]]:
    """The unknowns as functions of a point: `derivative(field, alpha, x, values)` says what they are."""
    return [known_derivatives(functools.partial(derivative, index), dim, values, MAX_ORDER) for index in range(num_fields)]


@functools.lru_cache(maxsize=256)
def _traced(
    equations: tuple[Equation, ...], dim: int, num_fields: int, columns: tuple[Derivative, ...], bent: bool = False
) -> Callable[..., Array]:
    """The residuals as a function of the point and of the derivatives there, in the order of `columns`.

    The user's functions run once. What they did is replayed from then on: to differentiate nested derivatives again for every
    program that needs them takes longer than to compile it. With `bent` a third argument bends every derivative of the unknown
    away from the point.
    """
    place = {column: k for k, column in enumerate(columns)}

    def outputs(x: Array, z: Array, stray: Array | None = None) -> Array:
        # All that is traced comes as an argument: a function with a rule of its own cannot look out of the user's `jit`.
        def derivative(index: int, alpha: MultiIndex, y: Array, values: Any) -> Array:
            z, x, stray = values
            own = z[place[index, alpha]]
            return own if stray is None else own + stray * jnp.sum((y - x) ** 2)

        fields = _fields(derivative, dim, num_fields, (z, x, stray))
        return jnp.stack([jnp.asarray(equation(*fields, x), dtype=x.dtype) for equation in equations])

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((dim,), (len(columns),), *([()] if bent else []))]
    replay = jaxpr_as_fun(jax.make_jaxpr(outputs)(*shapes))
    return jax.jit(lambda *arguments: replay(*arguments)[0])  # under `jit` its derivatives are kept as well


def requested_derivatives(
    equation: Equation, name: str, dim: int, fields: Sequence[str], probe: np.ndarray, *, scalar: bool = True
) -> set[Derivative]:
    """The derivatives that evaluating the equation asks for; more than matter, never fewer.

    With `scalar` its value must be one number (an equation); else it may be an array (an operator given to `apply`).
    """
    check_arguments(equation, name, fields)
    asked: set[Derivative] = set()

    def derivative(index: int, alpha: MultiIndex, x: Array, _: Any) -> Array:
        if jnp.shape(x) != (dim,):
            raise ValueError(f"the unknown was given a point of shape {jnp.shape(x)} instead of ({dim},)")
        asked.add((index, alpha))
        return jnp.ones((), dtype=x.dtype)

    def trace(x: Array) -> Any:
        value = equation(*_fields(derivative, dim, len(fields), {}), x)
        if callable(value):
            raise ValueError("it returned a function; an operator of u is a function to be taken at x, as `laplacian(u)(x)`")
        return value

    try:
        program, shape = jax.make_jaxpr(trace, return_shape=True)(jnp.asarray(probe))
    except OrderTooHighError as error:
        raise ValueError(
            f"{name}: {error}. Introduce a further field for a lower derivative, as in `fields=('u', 'w')` with w = Δu."
        ) from error
    except Exception as error:
        raise ValueError(
            f"{name} could not be evaluated at a point of shape ({dim},): {_cause(error, fields)}. "
            "An equation is written for one point `x` with jax.numpy and gpde's operators."
        ) from error
    leaves = jax.tree.leaves(shape)
    if any(jnp.issubdtype(leaf.dtype, jnp.complexfloating) for leaf in leaves):
        raise ValueError(f"{name} has complex values; state its real and its imaginary part as two equations of real fields.")
    if scalar and (len(leaves) != 1 or leaves[0].shape != ()):
        came = f"an array of shape {leaves[0].shape}" if len(leaves) == 1 else f"{len(leaves)} values"
        raise ValueError(
            f"{name} must return one number per point; it returned {came}. Give a system as a list of "
            "equations, one per component, and index a gradient or a point, as in `gradient(u)(x)[0]`, `x[0]`."
        )
    _check_indices(jaxpr_as_fun(program), name, probe)
    return asked


def _check_indices(program: Callable[[Array], Any], name: str, probe: np.ndarray) -> None:
    """Refuses `x[2]` in two dimensions, which JAX takes for `x[1]`."""
    error, _ = checkify.checkify(program, errors=checkify.index_checks)(jnp.asarray(probe))
    message = error.get()
    if message is not None:
        raise ValueError(
            f"{name} takes an index past the end: {_first_line(message)}. A point has the coordinates "
            f"{', '.join(f'`x[{axis}]`' for axis in range(len(probe)))}."
        )


def _cause(error: Exception, fields: Sequence[str]) -> str:
    """What went wrong while an equation was traced, in the user's words where the mistake is a common one."""
    said = _first_line(str(error))
    u = fields[0]
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return (
            "an `if`, `and`, `or`, `min`, `max` or `while` asks whether a value of x or of the unknown is true, and x "
            "stands for all points at once; write `jnp.where(condition, a, b)`, `jnp.maximum(a, b)`"
        )
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "a function of numpy was given x or a value of the unknown; take the one of jax.numpy (`jnp.sin`, not `np.sin`)"
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return (
            "a number was needed where x or a value of the unknown stands (`float(...)`, `int(...)`, a function of `math`, "
            "an index or a range); x stands for all points at once: write it with jax.numpy"
        )
    if isinstance(error, TypeError) and "'function'" in said and ("operand" in said or "not supported" in said):
        return (
            f"a function was used as a number ({said}). An operator of {u} is a function to be taken at x: "
            f"`laplacian({u})(x)`, `{u}(x)`"
        )
    if isinstance(error, TypeError) and ("not subscriptable" in said or "not callable" in said):
        return (
            f"a function was indexed or a number was called ({said}). The unknowns come first and the point last, "
            f"`({', '.join(fields)}, x)`"
        )
    if isinstance(error, TypeError) and "'function'" in said and "abstract array" in said:
        return f"a function was given where a number belongs; take it at x, as `jnp.sin({u}(x))`"
    return f"{type(error).__name__}: {said}"


def _first_line(text: str) -> str:
    """What JAX says below the first line is about tracing."""
    return (text.strip().splitlines() or [""])[0].strip().rstrip(".?")


def _gradients(reading: Reading, x: np.ndarray, z: np.ndarray) -> Float[np.ndarray, "probes equations columns"]:
    r"""Rows of $\partial r / \partial z$, every equation at every probe."""
    function = _gradient_function(reading.equations, reading.dim, reading.num_fields, reading.columns)
    return _in_blocks(function, x, z)


@functools.lru_cache(maxsize=64)  # so that another solve of the same problem does not compile again
def _gradient_function(
    equations: tuple[Equation, ...], dim: int, num_fields: int, columns: tuple[Derivative, ...]
) -> Callable[[Array, Array], Array]:
    return jax.jit(jax.vmap(jax.jacfwd(_traced(equations, dim, num_fields, columns), argnums=1)))


def _in_blocks(function: Callable[[Array, Array], Array], x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A function of many points, in blocks of one of two sizes: few programs are compiled, whatever the number of points."""
    size = _SMALL_BLOCK if len(x) <= 8 * _SMALL_BLOCK else _LARGE_BLOCK
    index = np.minimum(np.arange(-(-len(x) // size) * size), len(x) - 1).reshape(-1, size)
    return np.concatenate([np.asarray(function(jnp.asarray(x[i]), jnp.asarray(z[i]))) for i in index])[: len(x)]


def _bent(reading: Reading, x: np.ndarray, z: np.ndarray, stray: float) -> Float[np.ndarray, "probes equations"]:
    """The residuals where the unknown's derivatives bend away from the point by `stray` times the squared distance."""
    function = _bent_function(reading.equations, reading.dim, reading.num_fields, reading.columns)
    return _in_blocks(lambda x, z: function(x, z, jnp.asarray(stray)), x, z)


@functools.lru_cache(maxsize=64)
def _bent_function(
    equations: tuple[Equation, ...], dim: int, num_fields: int, columns: tuple[Derivative, ...]
) -> Callable[[Array, Array, Array], Array]:
    return jax.jit(jax.vmap(_traced(equations, dim, num_fields, columns, bent=True), in_axes=(0, 0, None)))


def _check_probes(finite: Bool[np.ndarray, " probes"], x: np.ndarray, name: str) -> None:
    if np.mean(finite) < 0.2:
        bad = x[np.flatnonzero(~finite)[0]]
        raise ValueError(
            f"{name} is not finite at {np.sum(~finite)} of {len(x)} probe points, for instance at x = {_point(bad)}. "
            "Check divisions, logarithms and roots in its coefficients and sources."
        )


def _check_local(reading: Reading, x: np.ndarray, z: np.ndarray, finite: Bool[np.ndarray, "probes equations"]) -> None:
    """A residual that looks at the unknown at its own point alone does not notice how it bends away from there."""
    plain, bent = _bent(reading, x, z, 0.0), _bent(reading, x, z, 1.0)
    for e, name in enumerate(reading.names):
        here = finite[:, e]
        if np.any(np.abs(plain - bent)[here, e] > 1e-9 * (1 + np.abs(plain[here, e]))):
            raise ValueError(
                f"{name} looks at the unknown away from its own point `x` (as `u(-x)` or `u(x + h)` would). "
                "An equation may use u and its derivatives at x only; for periodic functions use a kernel with a `period`."
            )


# --- what kind ----------------------------------------------------------------------------------------------------------


def _classified(reading: Reading, x: np.ndarray) -> Reading:
    """The reading with the kind of each equation, and functionals it can be solved for."""
    rng = np.random.default_rng(11)
    num_operators, num_equations = len(reading.operators), len(reading.equations)
    unit = np.array([operator_unit(operator, reading.units) for operator in reading.operators])
    pivots = [reading.columns.index(pivot) for pivot in reading.pivots]

    def at(scale: float) -> np.ndarray:
        z = np.zeros((len(x), len(reading.columns)))
        z[:, pivots] = scale * unit * rng.normal(size=(len(x), num_operators))
        return _gradients(reading, x, z)[..., pivots]

    samples = np.stack([at(0.5), at(2.0), at(50.0), at(1e4)])  # (draws, points, equations, operators)
    finite = np.isfinite(samples).all(axis=-1)
    samples[~finite] = np.nan
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
        value_alone = len(seen) == 1 and is_point_value(reading.operators[seen[0]])
        kinds.append(
            Kind(
                linear=bool(np.all(in_values[e])),
                dirichlet=value_alone and bool(np.all(in_values[e]) and np.all(samples[0, :, e, seen[0]] != 0)),
                looks_at=tuple(int(k) for k in seen),
                affine_in=tuple(int(k) for k in seen if constant[e, k] and coefficients[e, k] != 0),
            )
        )
    candidates = [k for k in range(num_operators) if present[k] and np.all(constant[:, k])]
    eliminated = _solvable(coefficients * unit, candidates, [operator_order(o) for o in reading.operators])
    matrix = None if eliminated is None else tuple(map(tuple, coefficients[:, eliminated].tolist()))
    return dataclasses.replace(reading, kinds=tuple(kinds), eliminated=eliminated, elimination_matrix=matrix)


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


def _words(fields: Sequence[str]) -> str:
    return ", ".join(f"`{f}`" for f in fields)


def _point(x: np.ndarray) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in x) + ")"
