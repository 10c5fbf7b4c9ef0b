r"""Linear functionals $\phi = \delta_x \circ L$ of the unknown: values $[\phi, u]$ and covariances $\kappa(\phi, \psi)$."""

import bisect
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.kernels import AbstractKernel
from gpde.linear_operators import LinearOperator
from gpde.operators import partial

Kernels = tuple[AbstractKernel, ...]
"""One kernel per field: the fields are independent a priori."""

MOST_PADDED = 4
"""Up to so many rows of blocks, a matrix is the sum of its blocks padded with zeros: sums fuse into one loop over the result,
where joining copies it. But every entry of a sum looks at every block, so many of them are joined."""


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


class BlockGram(eqx.Module):
    r"""$\kappa(\phi, \phi)$ as one block per pair of operators. They are never joined: that would copy the whole matrix."""

    blocks: tuple[tuple[Float[Array, "_ _"], ...], ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the values of each operator begin, and the size at the end."""
        return tuple(itertools.accumulate((row[0].shape[0] for row in self.blocks), initial=0))

    def __getitem__(self, place: tuple[slice, slice]) -> Float[Array, "rows columns"]:
        """The covariances of some values of one operator with some of another."""
        (i, rows), (j, columns) = (self._within_block(part) for part in place)
        return self.blocks[i][j][rows, columns]

    def __matmul__(self, vector: Float[Array, " size"]) -> Float[Array, " size"]:
        parts = [vector[first:last] for first, last in itertools.pairwise(self.starts)]
        return jnp.concatenate([functools.reduce(jnp.add, map(jnp.matmul, row, parts)) for row in self.blocks])

    def plus_diagonal(self, diagonal: Float[Array, " size"]) -> "BlockGram":
        """With something added to its diagonal, elementwise as in `gram.add_diagonal`."""

        def block(i: int, j: int, values: Array) -> Array:
            if i != j:
                return values
            index = jnp.arange(values.shape[0])
            own = diagonal[self.starts[i] : self.starts[i + 1]]
            return jnp.where(index[:, None] == index[None, :], values + own[None, :], values)

        return BlockGram(tuple(tuple(block(i, j, b) for j, b in enumerate(row)) for i, row in enumerate(self.blocks)))

    def dense(self) -> Float[Array, "size size"]:
        if len(self.blocks) > MOST_PADDED:
            return jnp.block([list(row) for row in self.blocks])
        places = [(start, self.starts[-1] - end) for start, end in itertools.pairwise(self.starts)]
        padded = (
            jnp.pad(b, (i, j)) for i, row in zip(places, self.blocks, strict=True) for j, b in zip(places, row, strict=True)
        )
        return functools.reduce(jnp.add, padded)

    def _within_block(self, part: slice) -> tuple[int, slice]:
        block = bisect.bisect_right(self.starts, part.start) - 1
        return block, slice(part.start - self.starts[block], part.stop - self.starts[block])


def block_gram(kernels: Kernels, functionals: Functionals) -> BlockGram:
    r"""$\kappa(\phi, \phi)$, every block computed: for large ones that costs less than transposing."""
    groups = list(zip(functionals.operators, functionals.points, strict=True))
    return BlockGram(tuple(tuple(block(kernels, a, b, x, y) for b, y in groups) for a, x in groups))


def gram(kernels: Kernels, functionals: Functionals) -> Float[Array, "size size"]:
    r"""$\kappa(\phi, \phi)$: blocks above the diagonal are computed, those below are their transposes."""
    groups = list(zip(functionals.operators, functionals.points, strict=True))
    blocks: dict[tuple[int, int], Array] = {}
    for i, (a, x) in enumerate(groups):
        for j, (b, y) in enumerate(groups[i:], start=i):
            blocks[i, j] = block(kernels, a, b, x, y)
            blocks[j, i] = blocks[i, j].T
    return jnp.block([[blocks[i, j] for j in range(len(groups))] for i in range(len(groups))])


def variances(kernels: Kernels, functionals: Functionals) -> tuple[Float[Array, " _"], ...]:
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
