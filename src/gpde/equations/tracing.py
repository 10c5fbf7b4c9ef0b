"""The user's functions, run: which derivatives they ask for, what they return, and what went wrong in the user's words."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify
from jax.extend.core import Jaxpr, jaxpr_as_fun, subjaxprs
from jaxtyping import Array

from gpde.equations.derivatives import OrderTooHighError, unknowns
from gpde.equations.linear_operators import Derivative
from gpde.equations.statements import Site, Statement
from gpde.kernels import MultiIndex

# What JAX makes of an index that it cannot check while it traces, or that is past the end.
_INDEXING = ("gather", "scatter", "dynamic_slice", "dynamic_update_slice")


def require_double_precision(call: str) -> None:
    """Refuses float32: Gram matrices of PDE problems are singular in it at any useful nugget."""
    if jnp.result_type(float) != jnp.float64:
        raise ValueError(
            f"`{call}` needs double precision, and JAX is in single precision (its default): in float32 the covariance "
            'of a PDE is singular. Put `jax.config.update("jax_enable_x64", True)` right after `import jax`, or set the '
            "environment variable JAX_ENABLE_X64=1."
        )


def requested_derivatives(statement: Statement, fields: Sequence[str], probe: Site, *, scalar: bool = True) -> set[Derivative]:
    """The derivatives that evaluating an equation at a site asks for; more than matter, never fewer.

    With `scalar` its value must be one number (an equation); else it may be an array (an operator given to `apply`).
    """
    asked: set[Derivative] = set()
    name, dim = statement.name, len(probe.x)

    def derivative(index: int, alpha: MultiIndex, x: Array, _: Any) -> Array:
        if jnp.shape(x) != (dim,):
            raise ValueError(f"the unknown was given a point of shape {jnp.shape(x)} instead of ({dim},)")
        asked.add((index, alpha))
        return jnp.ones((), dtype=x.dtype)

    def trace(site: Site) -> Any:
        value = statement(unknowns(derivative, dim, len(fields), {}), site)
        if value is None:
            raise ValueError("it returned nothing; a function that is written with `def` needs a `return`")
        if callable(value):
            raise ValueError("it returned a function; an operator of u is a function to be taken at x, as `laplacian(u)(x)`")
        return value

    try:
        program, shape = jax.make_jaxpr(trace, return_shape=True)(probe)
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
    # An index that is known and in range has become a slice: most programs have nothing to check.
    if any(indexing in operation for operation in _primitives(program.jaxpr) for indexing in _INDEXING):
        _check_indices(jaxpr_as_fun(program), name, probe)
    return asked


def _primitives(program: Jaxpr) -> Iterator[str]:
    """The names of all operations of a program, and of those within it."""
    yield from (operation.primitive.name for operation in program.eqns)
    for inner in subjaxprs(program):
        yield from _primitives(inner)


def _check_indices(program: Callable[..., Any], name: str, probe: Site) -> None:
    """Refuses `x[2]` in two dimensions, which JAX takes for `x[1]`."""
    error, _ = checkify.checkify(program, errors=checkify.index_checks)(*jax.tree.leaves(probe.map(jnp.asarray)))
    message = error.get()
    if message is not None:
        raise ValueError(
            f"{name} takes an index past the end: {_first_line(message)}. A point has the coordinates "
            f"{', '.join(f'`x[{axis}]`' for axis in range(len(probe.x)))}."
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
