"""The user's equations, traced once: programs that are equal where they compute the same, so that nothing compiles twice.

Two functions that a user writes are never equal, and one whose globals have changed is not what it was. What they compute can
be compared: the text of the traced program, with every constant in it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, Float

from gpde.equations.derivatives import unknowns
from gpde.equations.linear_operators import Derivative
from gpde.equations.statements import Site, Statement, shape_of
from gpde.kernels import MultiIndex

_NUM_KEPT = 256
_SMALL_BLOCK, _LARGE_BLOCK = 64, 4096  # points a compiled program takes


class Program:
    """The residuals of some equations as a function of the site and of the derivatives of the unknowns there.

    The user's functions run once. What they did is replayed from then on: to differentiate nested derivatives again for every
    program that needs them takes longer than to compile it.
    """

    def __init__(self, plain: Callable[[Site, Array], Array], bent: Callable[[Site, Array, Array], Array] | None):
        self._plain = jax.jit(plain)  # under `jit` its derivatives are kept as well

        def twice(site: Site, z: Array) -> tuple[Array, Array]:
            residuals = self._plain(site, z)
            return residuals, residuals

        # No argument is left out: two programs that use different ones would have the same text.
        both = jax.jacfwd(twice, argnums=1, has_aux=True)
        self._gradients_and_residuals = jax.jit(jax.vmap(both), keep_unused=True)
        self._bent = None if bent is None else jax.jit(jax.vmap(bent, in_axes=(0, 0, None)), keep_unused=True)

    def __call__(self, site: Site, z: Float[Array, " columns"]) -> Float[Array, " equations"]:
        return self._plain(site, z)

    def gradients(self, sites: Site, z: Float[np.ndarray, "points columns"]) -> Float[np.ndarray, "points equations columns"]:
        r"""$\partial r / \partial z$, every equation at every point."""
        return _in_blocks(lambda sites, z: self._gradients_and_residuals(sites, z)[0], sites, z)

    def residuals(self, sites: Site, z: Float[np.ndarray, "points columns"]) -> Float[np.ndarray, "points equations"]:
        """Every equation at every point."""
        return _in_blocks(lambda sites, z: self._gradients_and_residuals(sites, z)[1], sites, z)

    def bent(
        self, sites: Site, z: Float[np.ndarray, "points columns"], stray: float
    ) -> Float[np.ndarray, "points equations"] | None:
        """The residuals where every derivative of the unknown bends away from its point by `stray` times the squared
        distance: equations that look at the unknown at their own point alone do not notice. None where the program shows
        that they do."""
        bent, bend = self._bent, np.asarray(stray)
        return None if bent is None else _in_blocks(lambda sites, z: bent(sites, z, bend), sites, z)

    def key(self, sites: Site, num_columns: int) -> Any:
        """Equal for programs that compute the same. It traces and translates what reading will run."""
        block = sites.map(lambda leaf: jax.ShapeDtypeStruct((_SMALL_BLOCK, *np.shape(leaf)[1:]), jnp.float64))
        z = jax.ShapeDtypeStruct((_SMALL_BLOCK, num_columns), jnp.float64)
        number = jax.ShapeDtypeStruct((), jnp.float64)
        bent = () if self._bent is None else (_key(self._bent.lower(block, z, number)),)
        return _key(self._gradients_and_residuals.lower(block, z)), *bent


def traced(statements: Sequence[Statement], num_fields: int, columns: tuple[Derivative, ...], sites: Site) -> Program:
    """The program of equations, with the derivatives in the order of `columns`; an earlier one, if that computes the same."""
    place = {column: k for k, column in enumerate(columns)}
    shape = shape_of(sites)
    (dim,) = shape.x.shape

    def outputs(site: Site, z: Array, stray: Array | None = None) -> Array:
        # All that is traced comes as an argument: a function with a rule of its own cannot look out of the user's `jit`.
        def derivative(index: int, alpha: MultiIndex, y: Array, values: Any) -> Array:
            z, x, stray = values
            own = z[place[index, alpha]]
            return own if stray is None else own + stray * jnp.sum((y - x) ** 2)

        fields = unknowns(derivative, dim, num_fields, (z, site.x, stray))
        return jnp.stack([jnp.asarray(statement(fields, site), dtype=z.dtype) for statement in statements])

    def recorded(*shapes: Any) -> ClosedJaxpr:
        whole = jax.make_jaxpr(outputs)(*shapes)
        # Nested derivatives leave behind half of what they compute, and every program that is made of this one would repeat it.
        needed, _ = dce_jaxpr(whole.jaxpr, [True] * len(whole.jaxpr.outvars), instantiate=True)
        return ClosedJaxpr(needed, whole.consts)

    def replay(record: ClosedJaxpr) -> Callable[..., Array]:
        program = jaxpr_as_fun(record)
        return lambda *arguments: program(*jax.tree.leaves(arguments))[0]

    z, number = jax.ShapeDtypeStruct((len(columns),), jnp.float64), jax.ShapeDtypeStruct((), jnp.float64)
    written = recorded(shape, z)
    plain = _with_plain_values(written.jaxpr)
    if plain is not None:
        program = Program(replay(ClosedJaxpr(plain, written.consts)), None)
    else:
        program = Program(replay(written), replay(recorded(shape, z, number)))
    return _once(_programs, program.key(sites, len(columns)), lambda: program)


def _with_plain_values(program: Jaxpr) -> Jaxpr | None:
    """The program with entries of z where it has derivatives of the unknowns that JAX could differentiate further; None where
    not all of them are seen to be taken at the point x itself."""
    x, z = program.invars[0], program.invars[-1]
    equations = []
    for equation in program.eqns:
        if not any(z is variable for variable in equation.invars):
            equations.append(equation)
            continue
        # A derivative of an unknown takes a point, and the values that `traced` gives to all of them: z and x.
        if equation.primitive.name != "custom_jvp_call" or [id(v) for v in equation.invars] != [id(x), id(z), id(x)]:
            return None
        inner = equation.params["call_jaxpr"].jaxpr
        place = dict(zip([*inner.invars, *inner.outvars], [*equation.invars, *equation.outvars], strict=True))
        for step in inner.eqns:
            place |= {v: Var(v.aval) for v in step.outvars if v not in place}
            invars = [v if isinstance(v, Literal) else place[v] for v in step.invars]
            equations.append(step.replace(invars=invars, outvars=[place[v] for v in step.outvars]))
    return program.replace(eqns=equations)


def run_compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """`jax.jit(function)(*arguments)`, compiled only where no function that computes the same has been compiled before."""
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    return _once(_executables, _key(lowered), lowered.compile)(*arguments)


_programs: OrderedDict[Any, Program] = OrderedDict()
_executables: OrderedDict[Any, Any] = OrderedDict()


def _key(lowered: Any) -> Any:
    """Equal where two traced functions compute the same."""
    text = lowered.as_text()
    # What calls back into Python is not told by its text.
    return object() if "callback" in text else (hashlib.sha256(text.encode()).digest(), lowered.in_tree, lowered.out_tree)


def _once(kept: OrderedDict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What was made for the key before, or is made now; those used last are kept."""
    found = kept.pop(key, None)
    kept[key] = make() if found is None else found
    while len(kept) > _NUM_KEPT:
        kept.popitem(last=False)
    return kept[key]


def _in_blocks(function: Callable[[Site, Any], Array], sites: Site, z: np.ndarray) -> np.ndarray:
    """A function of many points, in blocks of one of two sizes: few programs are compiled, whatever the number of points."""
    num = len(z)
    size = _SMALL_BLOCK if num <= 8 * _SMALL_BLOCK else _LARGE_BLOCK
    index = np.minimum(np.arange(-(-num // size) * size), num - 1).reshape(-1, size)
    return np.concatenate([np.asarray(function(sites.at(i), z[i])) for i in index])[:num]
