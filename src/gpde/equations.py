r"""Reads an equation: which linear operators of the unknown it looks at, and its residual as a function of their values.

At a point $x_0$ the unknown is known by its derivatives $z_\alpha = \partial^\alpha u(x_0)$ alone. `known_derivatives` makes an
ordinary JAX function of them: its value is $z_0$ and its derivative rule raises the multi-index, so that the user's
equation, however it differentiates, evaluates to $r(x_0, z)$. The operators that matter are the row space of
$\partial r/\partial z$ over probe points and values, in reduced echelon form: $-\Delta u + u^3$ gives $\{u, \Delta u\}$.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from gpde.kernels import MultiIndex
from gpde.linear_operators import LinearOperator, coefficient_matrix, is_point_value, operator_order, row_space

Equation = Callable[..., Any]
MAX_ORDER = 4
_NUM_PROBES = 48
_CHECK_TOLERANCE = 1e-9
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
            out, tangent = jax.jvp(lambda v: derivative(alpha, x, v), (values,), (jax.tree.unflatten(tree, dleaves),))
            if not isinstance(dx, SymbolicZero):
                # A direction known while tracing (that of `partial`) spares the derivatives it does not ask for.
                known = None if isinstance(dx, Tracer) else np.asarray(dx)
                for axis in range(dim):
                    if known is not None and known[axis] == 0:
                        continue
                    raised = (*alpha[:axis], alpha[axis] + 1, *alpha[axis + 1 :])
                    tangent = tangent + at(raised)(x, values) * dx[axis]
            return out, tangent

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
    constant, invertible coefficients `elimination_matrix`), or is None.
    """

    equations: tuple[Equation, ...]
    names: tuple[str, ...]
    dim: int
    num_fields: int
    operators: tuple[LinearOperator, ...]
    pivots: tuple[tuple[int, MultiIndex], ...]
    kinds: tuple[Kind, ...]
    eliminated: tuple[int, ...] | None
    elimination_matrix: tuple[tuple[float, ...], ...] | None

    @property
    def order(self) -> int:
        """The highest derivative any operator takes."""
        return max(operator_order(operator) for operator in self.operators)

    def residual(self, x: Float[Array, " dim"], values: Float[Array, " operators"]) -> Float[Array, " equations"]:
        r"""$r(x, v)$ for one point: the pivot derivatives take the operators' values, every other derivative is zero."""
        z = dict(zip(self.pivots, values, strict=True))
        return _evaluate(self.equations, self.dim, self.num_fields, x, z)

    def output(self, x: Float[Array, " dim"], values: Float[Array, " operators"]) -> Any:
        """What a single equation returns, of whatever shape (`apply` with the gradient, say)."""
        z = dict(zip(self.pivots, values, strict=True))
        return _call(self.equations[0], self.dim, self.num_fields, x, z)

    def covers(self, points: Float[np.ndarray, "points dim"]) -> bool:
        """Whether what was read holds at these points too, for values drawn at random: the operators found are enough, what
        was linear is linear, and what the equations are solved for has the same coefficients."""
        columns = _columns_of(self)
        pivots = [columns.index(pivot) for pivot in self.pivots]
        z = np.random.default_rng(7).normal(size=(2 * len(points), len(columns)))
        rows = _gradients(self.equations, self.dim, self.num_fields, columns, np.tile(points, (2, 1)), z)
        rows = rows.reshape(2, len(points), -1, len(columns))  # (draws, points, equations, derivatives)
        rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, np.nan)
        tolerance = 1e-8 * np.abs(rows).max(axis=-1, keepdims=True)
        # NaN (the root of a negative draw, say) never differs: comparisons with it are False.
        bent = (np.abs(rows[0] - rows[1]) > tolerance[0])[:, [kind.linear for kind in self.kinds]]
        changed = (
            np.zeros(0)
            if self.eliminated is None
            else np.abs(rows[..., pivots][..., self.eliminated] - np.array(self.elimination_matrix)) > tolerance
        )
        return not (np.any(_outside(rows, self.operators, self.pivots, columns)) or np.any(bent) or np.any(changed))


def read(
    equations: Sequence[Equation],
    names: Sequence[str],
    dim: int,
    fields: Sequence[str],
    probes: Float[np.ndarray, "points dim"],
    *,
    functionals: str = "minimal",
    scalar: bool = True,
    num_probes: int = _NUM_PROBES,
) -> Reading:
    """Reads equations that hold at the same points.

    **Main arguments:**

    - `equations`, `names`: functions of the fields and the point, and what to call them in messages.
    - `probes`: points of the part where they hold.

    **Other arguments:**

    - `functionals`: `"minimal"` finds the smallest set of operators; `"derivatives"` keeps every partial derivative apart,
      as the paper's experiments do.
    - `scalar`: whether the value must be a scalar (an equation) or may be an array (an operator given to `apply`).
    - `num_probes`: how many points and values to try, at least.
    """
    if functionals not in ("minimal", "derivatives"):
        raise ValueError(f"`functionals` must be 'minimal' or 'derivatives', not {functionals!r}.")
    require_double_precision("Problem")
    num_fields = len(fields)
    columns: set[tuple[int, MultiIndex]] = set()
    for equation, name in zip(equations, names, strict=True):
        asked = _requested(equation, name, dim, fields, probes[0], scalar)
        if not asked:
            raise ValueError(f"{name} never looks at the unknown {_words(fields)}. {_UNKNOWN_ADVICE}")
        columns |= asked
    ordered = sorted(columns, key=lambda c: (sum(c[1]), c[0], tuple(-a for a in c[1])))
    num_probes = max(num_probes, 3 * len(ordered))
    x = probes[np.arange(num_probes) % len(probes)]
    z = np.random.default_rng(20240).normal(size=(num_probes, len(ordered)))
    z *= np.array([0.3, 1.0, 3.0])[np.arange(num_probes) % 3, None]

    gradients = []
    for equation, name in zip(equations, names, strict=True):
        rows, finite = _probe(equation, name, dim, num_fields, ordered, x, z)
        if not np.any(rows[finite]):
            raise ValueError(
                f"{name} does not depend on the unknown {_words(fields)} at any probe point: its derivative in "
                f"every value of {_words(fields)} is zero. {_UNKNOWN_ADVICE}"
            )
        gradients.append(rows[finite].reshape(-1, len(ordered)))
    rows = np.concatenate(gradients)
    operators, pivots = row_space(rows, ordered, minimal=functionals == "minimal")
    # Values far out find a term that sleeps below a threshold, as max(u - 100, 0). Their rows are badly scaled: only those
    # that show something new are used.
    far = z * 10.0 ** (1 + np.arange(num_probes) % 5)[:, None]
    far_rows = _gradients(equations, dim, num_fields, ordered, x, far)
    new = far_rows[_outside(far_rows, operators, pivots, ordered)]
    if len(new):
        operators, pivots = row_space(np.concatenate([rows, new]), ordered, minimal=functionals == "minimal")
    reading = Reading(
        equations=tuple(equations),
        names=tuple(names),
        dim=dim,
        num_fields=num_fields,
        operators=operators,
        pivots=pivots,
        kinds=(),
        eliminated=None,
        elimination_matrix=None,
    )
    return _classified(reading, x) if scalar else reading


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


def _call(equation: Equation, dim: int, num_fields: int, x: Array, z: Mapping[tuple[int, MultiIndex], Array]) -> Any:
    def field(index: int) -> Callable[[Array], Array]:
        own = {alpha: value for (f, alpha), value in z.items() if f == index}
        return known_derivatives(lambda alpha, x, v: v.get(alpha, jnp.zeros((), dtype=x.dtype)), dim, own, MAX_ORDER)

    return equation(*[field(index) for index in range(num_fields)], x)


def _evaluate(equations: Sequence[Equation], dim: int, num_fields: int, x: Array, z: Mapping) -> Array:
    return jnp.stack([jnp.asarray(_call(e, dim, num_fields, x, z), dtype=x.dtype) for e in equations])


def _requested(
    equation: Equation, name: str, dim: int, fields: Sequence[str], probe: np.ndarray, scalar: bool
) -> set[tuple[int, MultiIndex]]:
    """The derivatives that evaluating the equation asks for; more than matter, never fewer."""
    check_arguments(equation, name, fields)
    asked: set[tuple[int, MultiIndex]] = set()

    def trace(x: Array) -> Any:
        def field(index: int) -> Callable[[Array], Array]:
            def derivative(alpha: MultiIndex, x: Array, _: Any) -> Array:
                if x.shape != (dim,):
                    raise ValueError(f"the unknown was given a point of shape {x.shape} instead of ({dim},)")
                asked.add((index, alpha))
                return jnp.ones((), dtype=x.dtype)

            return known_derivatives(derivative, dim, {}, MAX_ORDER)

        value = equation(*[field(index) for index in range(len(fields))], x)
        if callable(value):
            raise ValueError("it returned a function; an operator of u is a function to be taken at x, as `laplacian(u)(x)`")
        return value

    try:
        shape = jax.eval_shape(trace, jnp.asarray(probe))
    except OrderTooHighError as error:
        raise ValueError(
            f"{name}: {error}. Introduce a further field for a lower derivative, as in `fields=('u', 'w')` with w = Δu."
        ) from error
    except Exception as error:
        raise ValueError(
            f"{name} could not be evaluated at a point of shape ({dim},): {type(error).__name__}: {_first_line(error)}. "
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
    return asked


def _outside(rows: np.ndarray, operators: Sequence[LinearOperator], pivots: Sequence, columns: Sequence) -> np.ndarray:
    """Which rows are finite and not combinations of the operators."""
    rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
    inside = rows[..., [columns.index(pivot) for pivot in pivots]] @ coefficient_matrix(operators, columns)
    return np.any(np.abs(rows - inside) > 1e-8 * np.abs(rows).max(axis=-1, keepdims=True), axis=-1)


def _first_line(error: Exception) -> str:
    """What JAX says below the first line is about tracing."""
    return (str(error).strip().splitlines() or [""])[0].rstrip(".?")


def _gradients(
    equations: Sequence[Equation], dim: int, num_fields: int, columns: Sequence, x: np.ndarray, z: np.ndarray
) -> np.ndarray:
    r"""Rows of $\partial r / \partial z$, every equation and output at every probe."""
    rows = _gradient_function(tuple(equations), dim, num_fields, tuple(columns))(jnp.asarray(x), jnp.asarray(z))
    return np.asarray(rows).reshape(-1, len(columns))


@functools.lru_cache(maxsize=64)  # so that another solve of the same problem does not compile again
def _gradient_function(
    equations: tuple[Equation, ...], dim: int, num_fields: int, columns: tuple[tuple[int, MultiIndex], ...]
) -> Callable[[Array, Array], Array]:
    def outputs(x: Array, z: Array) -> Array:
        values = dict(zip(columns, z, strict=True))
        return jnp.concatenate(
            [
                jnp.ravel(jnp.asarray(leaf, dtype=x.dtype))
                for e in equations
                for leaf in jax.tree.leaves(_call(e, dim, num_fields, x, values))
            ]
        )

    return jax.jit(jax.vmap(jax.jacfwd(outputs, argnums=1)))


def _probe(
    equation: Equation, name: str, dim: int, num_fields: int, columns: list, x: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients at the probes, (probes, outputs, columns), and which probes are finite."""

    def value(x: Array, z: Array, stray: Array) -> Array:
        # `stray` bends every derivative of the unknown away from the point: a residual that looks only there ignores it.
        def field(index: int) -> Callable[[Array], Array]:
            own = {alpha: v for (f, alpha), v in zip(columns, z, strict=True) if f == index}
            return known_derivatives(lambda alpha, y, v: v[alpha] + stray * jnp.sum((y - x) ** 2), dim, own, MAX_ORDER)

        return jnp.concatenate(
            [
                jnp.ravel(jnp.asarray(leaf, dtype=x.dtype))
                for leaf in jax.tree.leaves(equation(*[field(i) for i in range(num_fields)], x))
            ]
        )

    evaluate = jax.jit(jax.vmap(value, in_axes=(0, 0, None)))
    plain = np.asarray(evaluate(jnp.asarray(x), jnp.asarray(z), jnp.zeros(())))
    bent = np.asarray(evaluate(jnp.asarray(x), jnp.asarray(z), jnp.ones(())))
    rows = _gradients((equation,), dim, num_fields, columns, x, z).reshape(len(x), -1, len(columns))
    finite = np.asarray(np.isfinite(plain).all(axis=1) & np.isfinite(rows).all(axis=(1, 2)))
    if not finite.any() or np.mean(finite) < 0.2:
        bad = x[np.flatnonzero(~finite)[0]]
        raise ValueError(
            f"{name} is not finite at {np.sum(~finite)} of {len(x)} probe points, for instance at x = {_point(bad)}. "
            "Check divisions, logarithms and roots in its coefficients and sources."
        )
    if np.any(np.abs(plain - bent)[finite] > 1e-9 * (1 + np.abs(plain[finite]))):
        raise ValueError(
            f"{name} looks at the unknown away from its own point `x` (as `u(-x)` or `u(x + h)` would). "
            "An equation may use u and its derivatives at x only; for periodic functions use a kernel with a `period`."
        )
    return rows, finite


@functools.lru_cache(maxsize=64)
def _columns_of(reading: Reading) -> tuple[tuple[int, MultiIndex], ...]:
    """Every derivative up to the reading's order in every field: more than the operators need, so that gaps show."""
    asked: set[tuple[int, MultiIndex]] = set()
    for equation, name in zip(reading.equations, reading.names, strict=True):
        fields = tuple(f"u{i}" for i in range(reading.num_fields))
        asked |= _requested(equation, name, reading.dim, fields, np.zeros(reading.dim), scalar=False)
    return tuple(sorted(asked))


# --- what kind ----------------------------------------------------------------------------------------------------------


def _classified(reading: Reading, x: np.ndarray) -> Reading:
    """The reading with the kind of each equation, and functionals it can be solved for."""
    rng = np.random.default_rng(11)
    num_operators, num_equations = len(reading.operators), len(reading.equations)
    gradient = jax.jit(jax.vmap(jax.jacfwd(reading.residual, argnums=1)))

    def at(scale: float) -> np.ndarray:
        values = scale * rng.normal(size=(len(x), num_operators))
        return np.asarray(gradient(jnp.asarray(x), jnp.asarray(values)))

    samples = np.stack([at(0.5), at(2.0), at(50.0), at(1e4)])  # (draws, points, equations, operators)
    finite = np.isfinite(samples).all(axis=-1)
    samples[~finite] = np.nan
    # The first finite gradient of each equation; fmax, unlike max, passes over NaN (and all() does not: NaN <= x is False).
    coefficients = samples.reshape(-1, num_equations, num_operators)[
        finite.reshape(-1, num_equations).argmax(axis=0), np.arange(num_equations)
    ]
    size = np.fmax.reduce(np.abs(samples), axis=(0, 1))
    in_values = np.fmax.reduce(np.abs(samples - samples[:1]), axis=(0, 1)) <= _CHECK_TOLERANCE * size
    constant = np.fmax.reduce(np.abs(samples - coefficients), axis=(0, 1)) <= _CHECK_TOLERANCE * size
    present = np.fmax.reduce(size, axis=0) > 0
    kinds = []
    for e in range(num_equations):
        seen = np.flatnonzero(size[e] > 0)
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
    eliminated = _solvable(coefficients, candidates, [operator_order(o) for o in reading.operators])
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
