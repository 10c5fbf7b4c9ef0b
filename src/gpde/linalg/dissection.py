r"""Nested dissection of $H = \sum_c R_c^T B_c R_c$: the order in which to eliminate its unknowns, and what each step touches.

A line through the middle of the points cuts the unknowns in two. Those on one side that share a block with the other side
separate the rest: no block reaches across them. They are eliminated after both halves, which are cut again in the same way.
What is eliminated together is a *front*: its unknowns share blocks only with each other, with fronts below that are done, and
with its *boundary*, unknowns of fronts above (George, SIAM Journal on Numerical Analysis 10, 1973).
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Unknowns in a front below which it is not cut again: its dense factor costs less than more and smaller ones.
_SMALLEST_CUT = 150
# A separator with more than this share of the unknowns separates nothing worth while; one with half of them is a whole side.
_LARGEST_SEPARATOR = 0.48


class Front(NamedTuple):
    """Unknowns `first` to `last`, in the order of elimination, their later neighbours, the blocks that no earlier front has
    taken, and the fronts below that touch it first."""

    first: int
    last: int
    boundary: Int[np.ndarray, " boundary"]
    blocks: Int[np.ndarray, " blocks"]
    children: tuple[int, ...]

    @property
    def unknowns(self) -> Int[np.ndarray, " unknowns"]:
        """All it touches, in the order of elimination."""
        return np.concatenate([np.arange(self.first, self.last), self.boundary])


class Elimination(NamedTuple):
    """The fronts, lowest first; `order` holds the unknowns as they are eliminated, `position` is its inverse, with one more
    entry for rows that are dropped."""

    order: Int[np.ndarray, " size"]
    position: Int[np.ndarray, " size_and_one"]
    fronts: tuple[Front, ...]

    @property
    def num_entries(self) -> int:
        """Numbers in the factor."""
        return sum((f.last - f.first) * (f.last - f.first + len(f.boundary)) for f in self.fronts)


def factor_entries(size: int, width: int, dim: int) -> float:
    r"""About how many numbers a factor has, before there are blocks to look at: $N \log N$ in the plane, $N^{2-2/d}$ above.

    Measured for blocks of 64 unknowns in two and of 100 in three dimensions. Separators are as thick as blocks are wide.
    """
    if dim == 1:
        return 4.0 * size * width
    if dim == 2:
        return 1.1 * size * np.log2(max(2, size)) * width
    return 1.1 * float(size) ** (2 - 2 / dim) * width


def dissect(rows: Int[np.ndarray, "blocks width"], coordinates: Float[np.ndarray, "size dim"]) -> Elimination:
    """The elimination of a sum of blocks that act on these rows; rows equal to the number of unknowns are dropped."""
    size = len(coordinates)
    pieces = _pieces(rows, coordinates)
    starts = np.cumsum([0, *(len(piece) for piece in pieces)])
    order = np.concatenate(pieces)
    position = np.empty(size + 1, dtype=np.int64)
    position[order] = np.arange(size)
    position[size] = size
    owner = np.repeat(np.arange(len(pieces)), np.diff(starts))

    # A block's unknowns share it, so they lie in one front and in fronts above that: it belongs to the lowest.
    placed = position[rows]
    lowest = np.append(owner, len(pieces))[placed.min(axis=1)]
    by_front = np.argsort(lowest, kind="stable")
    splits = np.searchsorted(lowest[by_front], np.arange(len(pieces) + 1))

    fronts: list[Front] = []
    children: list[list[int]] = [[] for _ in pieces]
    for index, (first, last) in enumerate(itertools.pairwise(starts)):
        blocks = by_front[splits[index] : splits[index + 1]]
        touched = np.unique(np.concatenate([placed[blocks].reshape(-1), *(fronts[c].boundary for c in children[index])]))
        boundary = touched[(touched >= last) & (touched < size)]
        fronts.append(Front(int(first), int(last), boundary, blocks, tuple(children[index])))
        if len(boundary):
            children[owner[boundary[0]]].append(index)
    return Elimination(order, position, tuple(fronts))


def _pieces(rows: Int[np.ndarray, "blocks width"], coordinates: Float[np.ndarray, "size dim"]) -> list[np.ndarray]:
    """The unknowns that are eliminated together, in the order of elimination."""
    left, right, separating = 1, 2, 3
    mark = np.zeros(len(coordinates) + 1, dtype=np.int8)
    pieces: list[np.ndarray] = []

    def cut(unknowns: np.ndarray, blocks: np.ndarray) -> None:
        if len(unknowns) <= _SMALLEST_CUT:
            pieces.append(unknowns)
            return
        mark[unknowns] = right
        mark[_along(coordinates, unknowns)[: len(unknowns) // 2]] = left
        members = rows[blocks]
        across = members[np.any(mark[members] == left, axis=1) & np.any(mark[members] == right, axis=1)]
        separator = min((np.unique(across[mark[across] == side]) for side in (left, right)), key=len)
        mark[separator] = separating
        halves = [unknowns[mark[unknowns] == side] for side in (left, right)]
        blocks_of = [blocks[np.any(mark[rows[blocks]] == side, axis=1)] for side in (left, right)]
        mark[unknowns] = 0
        if len(separator) > _LARGEST_SEPARATOR * len(unknowns):
            pieces.append(unknowns)
            return
        for half, own_blocks in zip(halves, blocks_of, strict=True):
            cut(half, own_blocks)
        if len(separator):
            # Along the cut, so that what a front below touches of it lies together.
            pieces.append(_along(coordinates, separator))

    cut(np.arange(len(coordinates)), np.arange(len(rows)))
    return pieces


def _along(coordinates: Float[np.ndarray, "size dim"], unknowns: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
    """The unknowns sorted along the coordinate in which they extend farthest."""
    own = coordinates[unknowns]
    return unknowns[np.argsort(own[:, np.argmax(np.ptp(own, axis=0))], kind="stable")]
