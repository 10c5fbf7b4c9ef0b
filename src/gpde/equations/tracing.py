"""The user's functions, run: which derivatives they ask for, what they return, and what went wrong in the user's words."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array

from gpde.equations.derivatives import OrderTooHighError, unknowns
from gpde.equations.linear_operators import Derivative
from gpde.kernels import MultiIndex

Equation = Callable[..., Any]


def require_double_precision(call: str) -> None:
    """Refuses float32: Gram matrices of PDE problems are singular in it at any useful nugget."""
    if jnp.result_type(float) != jnp.float64:
        raise ValueError(
            f"`{call}` needs double precision, and JAX is in single precision (its default): in float32 the covariance "
            'of a PDE is singular. Put `jax.config.update("jax_enable_x64", True)` right after `import jax`, or set the '
            "environment variable JAX_ENABLE_X64=1."
        )


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
            f"{'s' if len(fields) > 1 else ''} {words(fields)} and the point; its signature is {signature}."
        ) from error


def check_operator(operator: Callable[..., Any], name: str, fields: Sequence[str]) -> None:
    """An operator takes the fields and gives a function: `laplacian`, or `lambda u, v: ...` for two fields."""
    try:
        inspect.signature(operator).bind(*([None] * len(fields)))
    except ValueError:  # a builtin without a signature: calling it will tell
        return
    except TypeError as error:
        raise ValueError(
            f"{name} must take the field{'s' if len(fields) > 1 else ''} {words(fields)} and return a function of the "
            f"point, as in `lambda {', '.join(fields)}: ...`: {error}."
        ) from error


@functools.lru_cache(maxsize=256)
def traced(
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

        fields = unknowns(derivative, dim, num_fields, (z, x, stray))
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
        value = equation(*unknowns(derivative, dim, len(fields), {}), x)
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
    if isinstance(error, TypeError) and "positional argument" in said and "known_derivatives" in said:
        return (
            f"an unknown is a function of one point, `{u}(x)`, not of its coordinates one by one ({said.rpartition('() ')[2]})"
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


def words(fields: Sequence[str]) -> str:
    return ", ".join(f"`{f}`" for f in fields)
