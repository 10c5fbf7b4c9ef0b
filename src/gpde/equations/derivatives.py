r"""An unknown that is known by its derivatives at one point, as an ordinary JAX function.

At a point $x_0$ the unknown is $z_\alpha = \partial^\alpha u(x_0)$ alone. `known_derivatives` makes a function of it:
its value is $z_0$ and its derivative rule raises the multi-index, so that the user's equation, however it differentiates,
evaluates to $r(x_0, z)$.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from gpde.kernels import MultiIndex

MAX_ORDER = 4


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
            terms = []
            if not all(map(_is_symbolic_zero, dleaves := jax.tree.leaves(dvalues, is_leaf=_is_symbolic_zero))):
                leaves, tree = jax.tree.flatten(values)
                # Zeros are made real: what XLA folds away costs nothing.
                real = [jnp.zeros_like(v) if _is_symbolic_zero(dv) else dv for v, dv in zip(leaves, dleaves, strict=True)]
                terms.append(jax.jvp(lambda v: derivative(alpha, x, v), (values,), (jax.tree.unflatten(tree, real),))[1])
            if not isinstance(dx, SymbolicZero):
                # A direction known while tracing (that of `partial`) spares the derivatives it does not ask for.
                known = None if isinstance(dx, Tracer) else np.asarray(dx)
                for axis in range(dim):
                    if known is not None and known[axis] == 0:
                        continue
                    raised = at((*alpha[:axis], alpha[axis] + 1, *alpha[axis + 1 :]))(x, values)
                    terms.append(raised if known is not None and known[axis] == 1 else raised * dx[axis])
            here = value(x, values)
            # Not what `derivative` gave: that is a constant to JAX, and a second derivative of u³ would lose 6u|∇u|².
            return here, functools.reduce(jnp.add, terms) if terms else jnp.zeros_like(here)

        return value

    return lambda x: at((0,) * dim)(x, values)


def _is_symbolic_zero(leaf: Any) -> bool:
    return isinstance(leaf, SymbolicZero)


def unknowns(
    derivative: Callable[[int, MultiIndex, Array, Any], Array], dim: int, num_fields: int, values: Any
) -> list[Callable[[Array], Array]]:
    """The unknowns as functions of a point: `derivative(field, alpha, x, values)` says what they are."""
    return [known_derivatives(functools.partial(derivative, index), dim, values, MAX_ORDER) for index in range(num_fields)]
