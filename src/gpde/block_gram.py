r"""The Gram matrix of a problem as the full GP uses it: in blocks, half of them, each pair of points looked at once."""

import functools
import itertools

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.functionals import Functionals, Kernels, block
from gpde.gram import add_diagonal

Layout = tuple[tuple[tuple[int, ...], int], ...]
"""For every part of a problem: where the values of its operators begin in the latent vector, and at how many points."""


# Up to so many rows of blocks, a matrix is the sum of its blocks padded with zeros: sums fuse into one loop over the result,
# where joining copies it. But every entry of a sum looks at every block, so many of them are joined.
_MOST_PADDED = 4


class BlockGram(eqx.Module):
    r"""$\kappa(\phi, \phi)$ in blocks, one per pair of operators of each pair of parts, keyed by where rows and columns begin.

    Of two blocks that are each other's transpose, one may be left out. They are never joined: that would copy the matrix.
    """

    blocks: dict[tuple[int, int], Float[Array, "_ _"]]

    def __getitem__(self, place: tuple[slice, slice]) -> Float[Array, "rows columns"]:
        """The covariances of the values of one operator on a part with those of another."""
        i, j = place[0].start, place[1].start
        return self.blocks[i, j] if (i, j) in self.blocks else self.blocks[j, i].T

    def __matmul__(self, vector: Float[Array, " size"]) -> Float[Array, " size"]:
        sums: dict[int, list[Array]] = {}
        for (i, j), values in self.blocks.items():
            rows, columns = values.shape
            sums.setdefault(i, []).append(values @ vector[j : j + columns])
            if (j, i) not in self.blocks:
                sums.setdefault(j, []).append(vector[i : i + rows] @ values)
        return jnp.concatenate([functools.reduce(jnp.add, sums[start]) for start in sorted(sums)])

    def plus_diagonal(self, diagonal: Float[Array, " size"]) -> "BlockGram":
        """With something added to its diagonal."""
        added = {
            (i, j): add_diagonal(block, diagonal[i : i + len(block)]) if i == j else block
            for (i, j), block in self.blocks.items()
        }
        return BlockGram(added)

    def upper_triangle(self) -> Float[Array, "size size"]:
        """As one matrix, with zeros below its diagonal blocks."""
        above = {(i, j): block for (i, j), block in self.blocks.items() if i <= j}
        mirrored = {(j, i): block.T for (i, j), block in self.blocks.items() if i > j and (j, i) not in self.blocks}
        return join_upper(above | mirrored)


def join_upper(blocks: dict[tuple[int, int], Float[Array, "_ _"]]) -> Float[Array, "size size"]:
    """One matrix of all blocks on and above its diagonal, keyed by where rows and columns begin; zeros below."""
    lengths = {i: len(block) for (i, j), block in sorted(blocks.items()) if i == j}
    size = sum(lengths.values())
    if len(lengths) <= _MOST_PADDED:
        padded = (jnp.pad(b, [(k, size - k - lengths[k]) for k in place]) for place, b in blocks.items())
        return functools.reduce(jnp.add, padded)
    return jnp.block([[blocks.get((i, j), jnp.zeros((m, n))) for j, n in lengths.items()] for i, m in lengths.items()])


def block_gram(kernels: Kernels, functionals: Functionals, layout: Layout) -> BlockGram:
    r"""$\kappa(\phi, \phi)$ of a problem: blocks of each part with itself and with those after it."""
    blocks: dict[tuple[int, int], Array] = {}
    for (rows, num_rows), (columns, num_columns) in itertools.combinations_with_replacement(layout, 2):
        # Computed on the same arrays of points, blocks share what is costly: distances and their exponentials.
        x, y = functionals.points_from(rows[0], num_rows), functionals.points_from(columns[0], num_columns)
        for i, j in itertools.product(rows, columns):
            blocks[i, j] = block(kernels, functionals.operator_at(i), functionals.operator_at(j), x, y)
    return BlockGram(blocks)
