r"""The Gram matrix of a problem as the full GP uses it: in blocks, between two parts only one way."""

import functools
import itertools

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpde.functionals.functionals import Functionals, Kernels, block, share_a_field

Layout = tuple[tuple[tuple[int, ...], int], ...]
"""For every part of a problem: where the values of its operators begin in the latent vector, and at how many points."""


def add_diagonal(matrix: Float[Array, "size size"], diagonal: Float[Array, " size"]) -> Float[Array, "size size"]:
    """The matrix with something added to its diagonal."""
    # Elementwise, so that it fuses with what uses it: a scatter would write the whole matrix first.
    index = jnp.arange(matrix.shape[0])
    return jnp.where(index[:, None] == index[None, :], matrix + diagonal[None, :], matrix)


class BlockGram(eqx.Module):
    r"""$\kappa(\phi, \phi)$ in blocks, one per pair of operators of each pair of parts, keyed by where rows and columns begin.

    Left out are blocks of zeros, and the second of two that are each other's transpose. Methods work on
    the rest as they are: to join them copies the matrix.
    """

    blocks: dict[tuple[int, int], Float[Array, "_ _"]]

    def between(self, i: int, j: int) -> Float[Array, "rows columns"] | None:
        """The covariances of values of one operator on a part with those of another, or None where they are zero."""
        if (i, j) in self.blocks:
            return self.blocks[i, j]
        return self.blocks[j, i].T if (j, i) in self.blocks else None

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
        """As one matrix, with zeros below the blocks on its diagonal."""
        above = {(i, j): block for (i, j), block in self.blocks.items() if i <= j}
        mirrored = {(j, i): block.T for (i, j), block in self.blocks.items() if i > j and (j, i) not in self.blocks}
        return join_upper(above | mirrored)


def num_entries(functionals: Functionals, layout: Layout) -> int:
    """Numbers in the blocks of `block_gram`."""
    operators = {start: functionals.operator_at(start) for rows, _ in layout for start in rows}
    return sum(
        num_rows * num_columns
        for (rows, num_rows), (columns, num_columns) in itertools.combinations_with_replacement(layout, 2)
        for i, j in itertools.product(rows, columns)
        if share_a_field(operators[i], operators[j])
    )


def join_upper(blocks: dict[tuple[int, int], Float[Array, "_ _"]]) -> Float[Array, "size size"]:
    """One matrix of the blocks on and above its diagonal, keyed by where rows and columns begin; zeros where there is none."""
    lengths = {i: len(block) for (i, j), block in sorted(blocks.items()) if i == j}
    rows = []
    for i, m in lengths.items():
        row = jnp.concatenate([blocks.get((i, j), jnp.zeros((m, n))) for j, n in lengths.items() if j >= i], axis=1)
        rows.append(jnp.pad(row, ((0, 0), (i, 0))))
    return jnp.concatenate(rows)


def block_gram(kernels: Kernels, functionals: Functionals, layout: Layout) -> BlockGram:
    r"""$\kappa(\phi, \phi)$ of a problem: blocks of each part with itself and with those after it."""
    blocks: dict[tuple[int, int], Array] = {}
    for (rows, num_rows), (columns, num_columns) in itertools.combinations_with_replacement(layout, 2):
        # Computed on the same arrays of points, blocks share what is costly: distances and their exponentials.
        x, y = functionals.points_from(rows[0], num_rows), functionals.points_from(columns[0], num_columns)
        for i, j in itertools.product(rows, columns):
            left, right = functionals.operator_at(i), functionals.operator_at(j)
            if share_a_field(left, right):
                blocks[i, j] = block(kernels, left, right, x, y)
    return BlockGram(blocks)
