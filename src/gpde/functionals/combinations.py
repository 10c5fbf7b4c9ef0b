r"""Combinations of functionals, $\psi = \sum_i a_i\, \phi_i$ point by point: what a linearised equation is.

Their covariances $\Psi K \Psi^T$ are sums over pairs of operators, since a row of $\Psi$ has entries at one point only. This is
the one formula behind every conditioning on equations, whether $K$ comes as a matrix or block by block as it is made.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, overload

from jaxtyping import Array, Float

Key = TypeVar("Key")
Combination = Sequence[tuple[Key, Float[Array, " _"] | None]]
"""Which functionals, by a key of the caller's, with which coefficients at each point; None: the functional itself."""


@overload
def combined(
    covariance: Callable[[Key, Key], Float[Array, "left right"]], left: Combination[Key], right: Combination[Key]
) -> Float[Array, "left right"]: ...


@overload
def combined(
    covariance: Callable[[Key, Key], Float[Array, "left right"] | None], left: Combination[Key], right: Combination[Key]
) -> Float[Array, "left right"] | None: ...


def combined(
    covariance: Callable[[Key, Key], Float[Array, "left right"] | None], left: Combination[Key], right: Combination[Key]
) -> Float[Array, "left right"] | None:
    r"""$\sum_{ij} a_i K_{ij} b_j^T$ entry by entry, where `covariance` gives the blocks $K_{ij}$; None where all of them are
    zero, as `covariance` says by None."""
    terms = [_scaled(block, a, b) for i, a in left for j, b in right if (block := covariance(i, j)) is not None]
    return total(terms) if terms else None


def _scaled(block: Array, left: Array | None, right: Array | None) -> Array:
    block = block if left is None else left[:, None] * block
    return block if right is None else block * right[None, :]


def total(terms: Iterable[Array]) -> Array:
    """The sum of one array or more."""
    first, *rest = terms
    return sum(rest, start=first)
