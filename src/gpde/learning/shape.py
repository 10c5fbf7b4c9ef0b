"""What of kernels is learned, as one vector: lengthscales of every coordinate, amplitudes of sums and of several fields."""

from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.functionals.functionals import Kernels
from gpde.kernels import AbstractKernel, Offset
from gpde.kernels.compose import Product, Sum
from gpde.kernels.radial import AbstractRadial


def _pieces(kernels: Kernels) -> list[AbstractRadial | Offset]:
    """The kernels that sums and products are made of, as far as they have something to learn."""
    return [leaf for leaf in jax.tree.leaves(kernels, is_leaf=_is_piece) if _is_piece(leaf)]


def _is_piece(node: Any) -> TypeGuard[AbstractRadial | Offset]:
    return isinstance(node, AbstractRadial | Offset)


def can_learn(kernels: Kernels) -> bool:
    """Whether every field has a lengthscale to learn."""
    return all(any(isinstance(piece, AbstractRadial) for piece in _pieces((kernel,))) for kernel in kernels)


class Shape(eqx.Module):
    r"""Kernels as a function of $\theta$: logarithms of lengthscales, piece by piece and coordinate by coordinate, then those
    of amplitudes. All amplitudes together have no influence on a solution without noise: then the first stays as it is, and
    `scaled` sets them in the end. Kernels of unknown scalars, which are `fixed`, come after those of the fields.
    """

    kernels: Kernels
    dim: int = eqx.field(static=True)
    every_amplitude: bool = eqx.field(static=True)
    fixed: Kernels = ()

    @property
    def num_lengthscales(self) -> int:
        return self.dim * sum(isinstance(piece, AbstractRadial) for piece in _pieces(self.kernels))

    @property
    def amplitude_axes(self) -> Float[np.ndarray, "fields parameters"]:
        """For every field whose amplitude is learned, which ones together make it larger: those of a sum, one of a product."""
        first = self.num_lengthscales - (0 if self.every_amplitude else 1)
        rows = np.zeros((len(self.kernels), len(self.theta)))
        for row, kernel in zip(rows, self.kernels, strict=True):
            row[[first + k for k in _scaling(kernel)]] = 1.0
            first += len(_pieces((kernel,)))
        return rows if self.every_amplitude else rows[1:]

    @property
    def field_scales(self) -> Float[np.ndarray, "fields parameters"]:
        """The same for every field but the first."""
        return self.amplitude_axes[1:] if self.every_amplitude else self.amplitude_axes

    @property
    def theta(self) -> Float[np.ndarray, " parameters"]:
        """Where the kernels stand."""
        pieces = _pieces(self.kernels)
        lengthscales = [np.broadcast_to(p.lengthscale, (self.dim,)) for p in pieces if isinstance(p, AbstractRadial)]
        amplitudes = [float(piece.amplitude) for piece in pieces][0 if self.every_amplitude else 1 :]
        return np.log(np.concatenate([*lengthscales, np.asarray(amplitudes)]))

    def at(self, theta: Float[Array, " parameters"]) -> Kernels:
        """The kernels with these numbers."""
        pieces = _pieces(self.kernels)
        number, place, changed = self.num_lengthscales, 0, []
        for index, piece in enumerate(pieces):
            amplitude = piece.amplitude
            if self.every_amplitude or index > 0:
                amplitude, number = jnp.exp(theta[number]), number + 1
            if isinstance(piece, AbstractRadial):
                numbers = jnp.exp(theta[place : place + self.dim]), amplitude
                changed.append(eqx.tree_at(lambda p: (p.lengthscale, p.amplitude), piece, numbers))
                place += self.dim
            else:
                changed.append(eqx.tree_at(lambda p: p.amplitude, piece, amplitude))
        return (*_with_pieces(self.kernels, changed), *self.fixed)


def _scaling(kernel: AbstractKernel, first: int = 0) -> list[int]:
    """Which of a kernel's pieces `scaled` multiplies."""
    match kernel:
        case AbstractRadial() | Offset():
            return [first]
        case Sum():
            return _scaling(kernel.first, first) + _scaling(kernel.second, first + len(_pieces((kernel.first,))))
        case Product():
            return _scaling(kernel.first, first)
    return []


def scaled(kernel: AbstractKernel, factor: float) -> AbstractKernel:
    """The kernel of `factor` times the field; one that does not show its amplitude stays as it is."""
    match kernel:
        case AbstractRadial() | Offset():
            return eqx.tree_at(lambda k: k.amplitude, kernel, factor * kernel.amplitude)
        case Sum():
            return Sum(scaled(kernel.first, factor), scaled(kernel.second, factor))
        case Product():
            return Product(scaled(kernel.first, factor), kernel.second)
    return kernel


def _with_pieces(kernels: Kernels, pieces: list[AbstractKernel]) -> Kernels:
    leaves, structure = jax.tree.flatten(kernels, is_leaf=_is_piece)
    new = iter(pieces)
    return jax.tree.unflatten(structure, [next(new) if _is_piece(leaf) else leaf for leaf in leaves])
