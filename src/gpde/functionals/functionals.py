r"""Linear functionals $\phi = \delta_x \circ L$ of the unknown: values $[\phi, u]$ and covariances $\kappa(\phi, \psi)$."""

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.equations.linear_operators import LinearOperator
from gpde.kernels import AbstractKernel
from gpde.operators import partial

Kernels = tuple[AbstractKernel, ...]
"""One kernel per field: the fields are independent a priori."""


class Functionals(eqx.Module):
    r"""Operators on points, one after the other: $\delta_x \circ L_1$ for $x \in X_1$, then $L_2$ on $X_2$, …"""

    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: tuple[Float[Array, "_ dim"], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(p) for p in self.points)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def operator_at(self, start: int) -> LinearOperator:
        """The operator whose value stands at `start`."""
        return self.operators[self._group(start)[0]]

    def points_from(self, start: int, num_points: int) -> Float[Array, "points dim"]:
        """The points of the values that begin at `start`."""
        group, first = self._group(start)
        return self.points[group][first : first + num_points]

    def _group(self, start: int) -> tuple[int, int]:
        """Which operator's value stands at `start`, and at which of its points."""
        starts = list(itertools.accumulate(self.sizes, initial=0))
        group = bisect.bisect_right(starts, start) - 1
        return group, start - starts[group]


def share_a_field(left: LinearOperator, right: LinearOperator) -> bool:
    """Whether two operators look at a common field; if not, their values are independent."""
    return not {field for field, _ in left}.isdisjoint(field for field, _ in right)


def pair_covariance(kernels: Kernels, left: LinearOperator, right: LinearOperator) -> Callable[[Array, Array], Array]:
    r"""$(x, y) \mapsto \kappa(\delta_x \circ L, \delta_y \circ L')$, summed over the fields both look at."""
    right_terms = dict(right)
    shared = [(kernels[f], terms, right_terms[f]) for f, terms in left if f in right_terms]

    def covariance(x: Array, y: Array) -> Array:
        parts = [kernel.covariance(terms, other, x, y) for kernel, terms, other in shared]
        return sum(parts[1:], start=parts[0]) if parts else jnp.zeros((), dtype=x.dtype)

    return covariance


def block(
    kernels: Kernels,
    left: LinearOperator,
    right: LinearOperator,
    x: Float[Array, "left dim"],
    y: Float[Array, "right dim"],
) -> Float[Array, "left right"]:
    """The covariances of one operator on points with another on points."""
    pair = pair_covariance(kernels, left, right)
    return jax.vmap(lambda a: jax.vmap(lambda b: pair(a, b))(y))(x)


def covariance(kernels: Kernels, left: Functionals, right: Functionals) -> Float[Array, "left right"]:
    r"""$\kappa(\phi, \psi)$, block by block."""
    return jnp.block(
        [
            [block(kernels, a, b, x, y) for b, y in zip(right.operators, right.points, strict=True)]
            for a, x in zip(left.operators, left.points, strict=True)
        ]
    )


def gram(kernels: Kernels, functionals: Functionals) -> Float[Array, "size size"]:
    r"""$\kappa(\phi, \phi)$: blocks above the diagonal are computed, those below are their transposes."""
    groups = list(zip(functionals.operators, functionals.points, strict=True))
    blocks: dict[tuple[int, int], Array] = {}
    for i, (a, x) in enumerate(groups):
        for j, (b, y) in enumerate(groups[i:], start=i):
            blocks[i, j] = block(kernels, a, b, x, y)
            blocks[j, i] = blocks[i, j].T
    return jnp.block([[blocks[i, j] for j in range(len(groups))] for i in range(len(groups))])


def prior_variances(kernels: Kernels, functionals: Functionals) -> tuple[Float[Array, " _"], ...]:
    r"""$\kappa(\phi_i, \phi_i)$, one vector per operator."""
    return tuple(
        jax.vmap(lambda p, pair=pair_covariance(kernels, o, o): pair(p, p))(x)
        for o, x in zip(functionals.operators, functionals.points, strict=True)
    )


def measure(functionals: Functionals, fields: Sequence[Callable[[Array], Any]]) -> Float[Array, " size"]:
    r"""$[\phi, u]$ of given functions, by automatic differentiation."""

    def value(operator: LinearOperator, x: Array) -> Array:
        total = jnp.zeros((), dtype=x.dtype)
        for field, terms in operator:
            for alpha, coefficient in terms:
                axes = [axis for axis, times in enumerate(alpha) for _ in range(times)]
                derivative = partial(fields[field], *axes) if axes else fields[field]
                total = total + coefficient * jnp.asarray(derivative(x)).reshape(())
        return total

    return jnp.concatenate(
        [jax.vmap(lambda p, o=o: value(o, p))(x) for o, x in zip(functionals.operators, functionals.points, strict=True)]
    )
