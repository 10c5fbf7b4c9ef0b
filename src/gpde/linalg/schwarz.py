r"""Conjugate gradients with a two-level overlapping Schwarz preconditioner,

$$ M^{-1} = \sum_s R_s^T H_s^{-1} R_s + P (P^T H P)^{-1} P^T . $$

Subdomains are cells of a k-d partition widened by a few point spacings; their inverses are kept in single precision, which
halves the memory traffic and costs no iterations. The coarse functions $P$ interpolate from coarse points by a local Gaussian
process. Subdomain and coarse solves and the iteration itself run in JAX. Reference: Toselli and Widlund, Domain Decomposition
Methods (2005), Ch. 3.
"""

import contextlib
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, Int

from gpde.collocation.cover import partition, spread_centres
from gpde.collocation.neighbours import NeighbourIndex
from gpde.linalg.block_sum import AbstractLinearSolver, BlockSum, Solved, product
from gpde.linalg.cholesky import cholesky_solve
from gpde.machine.threads import map_chunks, num_cores, one_blas_thread

# Interpolation from coarse points: as many neighbours as a local quartic needs, at a lengthscale of three spacings.
_NUM_INTERPOLATED = {1: 7, 2: 25, 3: 40}
_COARSE_LENGTHSCALE = 3.0
_CHUNK_ENTRIES = 2**22
_CHUNK_ROWS = 4096


class Preconditioner(eqx.Module):
    """Subdomain inverses and the coarse factor, for a matrix scaled to unit diagonal."""

    scale: Float[Array, " size"]
    nodes: Int[Array, "subdomains width"]
    inverses: Float[Array, "subdomains width width"]
    columns: Int[Array, "size interpolated"]
    weights: Float[Array, "size interpolated"]
    coarse: Float[Array, "coarse coarse"]

    def __call__(self, r: Float[Array, " size"]) -> Float[Array, " size"]:
        r"""$M^{-1} r$."""
        local = jnp.append(r, 0.0)[self.nodes].astype(self.inverses.dtype)
        fine = jnp.einsum("sij,sj->si", self.inverses, local).astype(r.dtype)
        out = jnp.zeros(r.shape[0] + 1).at[self.nodes].add(fine)[:-1]
        restricted = jnp.zeros(self.coarse.shape[0]).at[self.columns].add(self.weights * r[:, None])
        lifted = cho_solve((self.coarse, True), restricted)
        return out + jnp.sum(self.weights * lifted[self.columns], axis=1)


class Prepared(NamedTuple):
    """A preconditioner, or None for a matrix that is not positive definite, and how many iterations it took: first, for the
    matrix it was made of, and last."""

    preconditioner: Preconditioner | None
    iterations: list[int]


class Schwarz(AbstractLinearSolver):
    """Conjugate gradients with a two-level Schwarz preconditioner: time and memory linear in the number of unknowns.

    - `cell_size`: unknowns per subdomain before widening; `overlap`: how far it is widened, in point spacings.
    - `coarse_ratio`: unknowns per coarse point. The coarse space has to grow with the problem.
    - `max_iterations`: of conjugate gradients; the best iterate is returned, or NaN if none is better than zero.
    - `patience`: a preconditioner made for one matrix serves the next ones until it takes this many times the iterations.
    """

    name: ClassVar[str] = "schwarz"
    cell_size: int = 80
    overlap: float = 2.0
    coarse_ratio: int = 50
    max_iterations: int = 400
    patience: float = 1.5

    def memory(self, num_entries: int, size: int, dim: int) -> float:
        """Bytes at the peak, for so many numbers in blocks and so many unknowns: the blocks, their entries with indices while
        the matrix is assembled or two more copies while it is applied, the subdomains' inverses, and the coarse matrix with
        its copies while that is factored."""
        widened = self.cell_size * (1 + 2 * self.overlap / self.cell_size ** (1 / dim)) ** dim
        # The widest subdomain sets the width of all: at the edge of random points it has 1.7 times the mean.
        inverses = 2 * 4 * size / self.cell_size * min(size, 1.7 * widened) ** 2
        coarse = 8 * (size / self.coarse_ratio) ** 2
        return inverses + max(28.0 * num_entries + coarse, 12.0 * num_entries + 5 * coarse)

    def compute(
        self,
        matrix: BlockSum,
        coordinates: Float[np.ndarray, "size dim"],
        component: Int[np.ndarray, " size"],
        previous: Any = None,
    ) -> Prepared:
        if isinstance(previous, Prepared) and previous.preconditioner is not None:
            first, *_, last = [*previous.iterations, *previous.iterations] or [0, 0]
            if last <= self.patience * max(first, 10):
                return previous
        upper = matrix.upper()
        diagonal = upper.diagonal()
        if not (np.isfinite(upper.data).all() and (diagonal > 0).all()):
            return Prepared(None, [])
        scale = 1.0 / np.sqrt(diagonal)
        upper = sp.csr_matrix(sp.diags(scale) @ upper @ sp.diags(scale))
        nodes = self._subdomains(coordinates)
        columns, weights, num_coarse = self._interpolation(coordinates, component)
        weights = weights / scale[:, None]
        coarse = _coarse_factor(upper, columns, weights, num_coarse)
        if coarse is None:
            return Prepared(None, [])
        return Prepared(
            Preconditioner(
                scale=jnp.asarray(scale),
                nodes=jnp.asarray(nodes),
                inverses=jnp.asarray(_inverses(upper, nodes)),
                columns=jnp.asarray(columns),
                weights=jnp.asarray(weights),
                coarse=jnp.asarray(coarse),
            ),
            [],
        )

    def solve(self, matrix: BlockSum, prepared: Prepared, rhs: Float[np.ndarray, " size"], tolerance: float) -> Solved:
        if prepared.preconditioner is None:
            return Solved(np.full_like(rhs, np.nan), np.nan, 0)
        with one_blas_thread():
            x, residual, count = _conjugate_gradients(
                jnp.asarray(matrix.blocks),
                jnp.asarray(matrix.rows),
                prepared.preconditioner,
                jnp.asarray(rhs),
                jnp.asarray(tolerance),
                self.max_iterations,
            )
            solved = Solved(np.asarray(x), float(residual), int(count))
        prepared.iterations.append(solved.num_iterations)
        if not solved.residual < 1.0:
            return solved._replace(solution=np.full_like(rhs, np.nan))  # as a factorisation answers where there is none
        return solved

    def _subdomains(self, coordinates: Float[np.ndarray, "size dim"]) -> Int[np.ndarray, "subdomains width"]:
        """The unknowns of each subdomain, padded with `size`."""
        size = len(coordinates)
        index = NeighbourIndex(coordinates)
        members = []
        for cell in partition(coordinates, max(1, size // self.cell_size)):
            own = coordinates[cell]
            reach = self.overlap * _spacing(own)
            members.append(index.inside(own.min(axis=0) - reach, own.max(axis=0) + reach))
        nodes = np.full((len(members), max(len(m) for m in members)), size, dtype=np.int32)
        for row, member in zip(nodes, members, strict=True):
            row[: len(member)] = member
        return nodes

    def _interpolation(
        self, coordinates: Float[np.ndarray, "size dim"], component: Int[np.ndarray, " size"]
    ) -> tuple[Int[np.ndarray, "size interpolated"], Float[np.ndarray, "size interpolated"], int]:
        """Coarse columns and weights of each unknown, component by component."""
        size, dim = coordinates.shape
        width = _NUM_INTERPOLATED.get(dim, 50)
        columns, weights = np.zeros((size, width), dtype=np.int32), np.zeros((size, width))
        offset = 0
        for kind in np.unique(component):
            own = np.flatnonzero(component == kind)
            coarse = coordinates[own][spread_centres(coordinates[own], max(width, len(own) // self.coarse_ratio))]
            coarse_index = NeighbourIndex(coarse)
            distance, index = coarse_index.nearest(coordinates[own], width)
            num = index.shape[1]
            spacing = np.median(coarse_index.nearest(coarse, 2)[0][:, -1])
            lengthscale = _COARSE_LENGTHSCALE * spacing
            columns[own, :num] = offset + index
            (weights[own, :num],) = map_chunks(_interpolate, lengthscale, (coarse[index], distance), _CHUNK_ROWS)
            offset += len(coarse)
        return columns, weights, offset


def _spacing(points: Float[np.ndarray, "points dim"]) -> float:
    """The distance between neighbours among points that fill a box, or what is one on a circle or a plane in space."""
    extents = np.sqrt(12 / len(points)) * np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    # Cells are nearly cubes: a direction in which one is far thinner is that of a curvature, not a dimension.
    extents = extents[extents > 0.1 * extents[0]]
    return float((np.prod(extents) / len(points)) ** (1 / len(extents))) if len(extents) else 0.0


@jax.jit
def _interpolate(
    lengthscale: Float[Array, ""], near: Float[Array, "chunk coarse dim"], distance: Float[Array, "chunk coarse"]
) -> tuple[Array]:
    """The weights of coarse points in the mean of a Gaussian process given their values."""

    def one(row: tuple[Array, Array]) -> Array:
        near, distance = row
        gaps = jnp.sum((near[:, None] - near[None]) ** 2, axis=-1)
        gram = jnp.exp(-gaps / (2 * lengthscale**2)) + 1e-10 * jnp.eye(len(near))
        return cholesky_solve(jnp.linalg.cholesky(gram, symmetrize_input=False), jnp.exp(-(distance**2) / (2 * lengthscale**2)))

    return (jax.lax.map(one, (near, distance)),)


def _inverses(upper: sp.csr_matrix, nodes: Int[np.ndarray, "subdomains width"]) -> Float[np.ndarray, "subdomains width width"]:
    """The inverse of each subdomain's matrix, identity in padded rows, in single precision."""
    width, size = nodes.shape[1], len(upper.indptr) - 1
    chunk = max(1, _CHUNK_ENTRIES // width**2)
    out = np.empty((len(nodes), width, width), dtype=np.float32)
    for first in range(0, len(nodes), chunk):
        local = nodes[first : first + chunk]
        matrices = np.zeros((len(local), width, width))
        for matrix, row in zip(matrices, local, strict=True):
            own = row[row < size]
            block = sp.csr_matrix(sp.csr_matrix(upper[own])[:, own]).toarray()
            matrix[: len(own), : len(own)] = block + np.triu(block, 1).T
            matrix[range(len(own), width), range(len(own), width)] = 1.0
        out[first : first + chunk] = map_chunks(_inverse, None, (matrices,), max(1, chunk // (4 * num_cores())))[0]
    return out


@jax.jit
def _inverse(_: None, matrices: Float[Array, "chunk width width"]) -> tuple[Array]:
    identity = jnp.eye(matrices.shape[-1])

    def one(matrix: Array) -> Array:
        # A trace of jitter: rounding makes some subdomain matrices indefinite, and a preconditioner need not be exact.
        lower = jnp.linalg.cholesky(matrix.T + 1e-10 * identity, symmetrize_input=False)
        half = solve_triangular(jnp.where(jnp.isfinite(lower), lower, identity), identity, lower=True)
        return (half.T @ half).astype(jnp.float32)

    return (jax.lax.map(one, matrices),)


def _coarse_factor(
    upper: sp.csr_matrix, columns: np.ndarray, weights: np.ndarray, num_coarse: int
) -> Float[np.ndarray, "coarse coarse"] | None:
    r"""The Cholesky factor of $P^T H P$, its diagonal raised by as much as it takes; None where that is too much."""
    size, width = columns.shape
    p = sp.csr_matrix((weights.reshape(-1), columns.reshape(-1), np.arange(0, size * width + 1, width)), (size, num_coarse))
    strict = sp.triu(upper, 1, format="csr")
    half = (p.T @ (strict @ p)).toarray()
    coarse = half + half.T + (p.T @ (sp.diags(upper.diagonal()) @ p)).toarray()
    if not np.isfinite(coarse).all():
        return None
    for jitter in 10.0 ** np.arange(-12, 1):
        with contextlib.suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(coarse + jitter * np.trace(coarse) / num_coarse * np.eye(num_coarse))
    return None


@eqx.filter_jit
def _conjugate_gradients(
    blocks: Float[Array, "blocks width width"],
    rows: Int[Array, "blocks width"],
    preconditioner: Preconditioner,
    rhs: Float[Array, " size"],
    tolerance: Float[Array, ""],
    max_iterations: int,
) -> tuple[Array, Array, Array]:
    """Preconditioned conjugate gradients on the matrix scaled to unit diagonal: the best iterate, its residual and how many
    iterations there were."""
    scale = preconditioner.scale
    b = scale * rhs
    norm = jnp.linalg.norm(b)
    norm = jnp.where(norm > 0, norm, 1.0)

    class Carry(NamedTuple):
        x: Array
        r: Array
        p: Array
        rho: Array
        best: Array
        reached: Array
        since: Array
        iterations: Array
        definite: Array

    def go_on(c: Carry) -> Array:
        # Rounding limits what can be reached: fifty iterations without a new best are the end.
        return (c.reached > tolerance) & (c.iterations < max_iterations) & (c.since < 50) & c.definite

    def body(c: Carry) -> Carry:
        q = scale * product(blocks, rows, scale * c.p)
        curvature = c.p @ q
        # Not positive where the matrix is indefinite, by rounding or by itself: no step along p is a good one.
        definite = (curvature > 0) & jnp.isfinite(c.rho)
        alpha = jnp.where(definite, c.rho / jnp.where(definite, curvature, 1.0), 0.0)
        x, r = c.x + alpha * c.p, c.r - alpha * q
        z = preconditioner(r)
        rho = r @ z
        residual = jnp.linalg.norm(r) / norm
        better = residual < c.reached
        return Carry(
            x=x,
            r=r,
            p=z + rho / c.rho * c.p,
            rho=rho,
            best=jnp.where(better, x, c.best),
            reached=jnp.where(better, residual, c.reached),
            since=jnp.where(better, 0, c.since + 1),
            iterations=c.iterations + 1,
            definite=definite,
        )

    z = preconditioner(b)
    zero = jnp.zeros_like(b)
    count = jnp.zeros((), int)
    start = Carry(zero, b, z, b @ z, zero, jnp.linalg.norm(b) / norm, count, count, jnp.ones((), bool))
    end = jax.lax.while_loop(go_on, body, start)
    # The residual that the iteration carries along drifts from the true one in ill-conditioned systems.
    residual = b - scale * product(blocks, rows, scale * end.best)
    return scale * end.best, jnp.linalg.norm(residual) / norm, end.iterations
