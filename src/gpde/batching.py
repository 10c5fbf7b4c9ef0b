r"""Batches of points: a point-major view of a collocation with fixed shapes, and covers by patches.

A collocation stores its latent vector operator by operator and part by part. A batch mixes points of several parts, so here
every point gets one row with a slot for each operator that occurs anywhere and each equation that any point has; slots a
point does not use are masked. Padding and masks live here and in `gram.py` only.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation import Collocation, Part
from gpde.linear_operators import LinearOperator, point_value
from gpde.neighbours import NeighbourIndex


class PointTable(eqx.Module):
    """All points of a collocation, one row each, part after part.

    `latent` indexes the latent vector with one dummy entry appended, to which slots without a latent value point: unused
    ones, and values of fields that no equation at the point looks at and that are carried along (`active`).
    """

    collocation: Collocation
    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: Float[Array, "points dim"]
    part: Int[Array, " points"]
    latent: Int[Array, "points operators"]
    active: Bool[Array, "points operators"]
    rhs: Float[Array, "points equations"]
    noise_variance: Float[Array, "points equations"]
    has_equation: Bool[Array, "points equations"]

    @property
    def num_points(self) -> int:
        return self.points.shape[0]

    @property
    def num_operators(self) -> int:
        return self.latent.shape[1]

    @property
    def num_equations(self) -> int:
        return self.rhs.shape[1]

    def gather(self, latent: Float[Array, " size"]) -> Float[Array, "points operators"]:
        """Latent values by point; unused slots are zero."""
        return jnp.append(latent, 0.0)[self.latent]

    def scatter(self, values: Float[Array, "points operators"]) -> Float[Array, " size"]:
        """The latent vector of values by point."""
        size = self.collocation.functionals.size
        return jnp.zeros(size + 1).at[self.latent].set(values)[:size]

    # What follows is for one point: `index` is its row, `values` its slots.

    def residual(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, " equations"]:
        r"""$f_i(z_i) - y_i$; zero in slots without an equation."""
        branches = [self._branch(part, lambda p, x, v: p.reading.residual(x, v), self.num_equations) for part in self._parts]
        raw = _chosen(self.part[index], [branch(self.points[index], values) for branch in branches])
        return jnp.where(self.has_equation[index], raw - self.rhs[index], 0.0)

    def gradient(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, "equations operators"]:
        r"""$\nabla f_i(z_i)$; zero rows in slots without an equation."""
        return jax.jacfwd(self.residual, argnums=1)(index, values)

    def eliminate(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, " operators"]:
        """The values with the functionals the point's equations can be solved for replaced, so that they hold."""
        branches = [self._elimination(part) for part in self._parts]
        return _chosen(self.part[index], [branch(self.points[index], values, self.rhs[index]) for branch in branches])

    @property
    def _parts(self) -> tuple[tuple[Part, tuple[int, ...]], ...]:
        """Each part with the slots its operators occupy."""
        slots = {operator: k for k, operator in enumerate(self.operators)}
        return tuple((p, tuple(slots[o] for o in p.reading.operators)) for p in self.collocation.parts)

    @staticmethod
    def _branch(located, function, width):
        part, slots = located

        def branch(x: Array, values: Array) -> Array:
            out = function(part, x, jnp.stack([values[s] for s in slots]))
            return jnp.pad(out, (0, width - out.shape[0]))

        return branch

    @staticmethod
    def _elimination(located):
        part, slots = located
        reading = part.reading

        def branch(x: Array, values: Array, rhs: Array) -> Array:
            if reading.eliminated is None or part.noisy:
                return values
            # Entry by entry: a few static slots need no gather and no scatter.
            own = [values[s] for s in slots]
            without = [jnp.zeros_like(v) if k in reading.eliminated else v for k, v in enumerate(own)]
            gap = rhs[: len(reading.equations)] - reading.residual(x, jnp.stack(without))
            inverse = np.linalg.inv(np.asarray(reading.elimination_matrix))
            for k, row in zip(reading.eliminated, inverse, strict=True):
                for e, c in enumerate(row):
                    without[k] = without[k] + float(c) * gap[e]
            new = dict(zip(slots, without, strict=True))
            return jnp.stack([new.get(s, values[s]) for s in range(values.shape[0])])

        return branch


def _chosen(index: Int[Array, ""], options: list[Array]) -> Array:
    """One of several arrays. All are computed, which is what `lax.switch` comes to over many points."""
    out = options[0]
    for k, option in enumerate(options[1:], start=1):
        out = jnp.where(index == k, option, out)
    return out


def point_table(collocation: Collocation, *, carry_values: bool = False) -> PointTable:
    """The point-major view of a collocation; with `carry_values` every point has a slot for the value of every field."""
    operators = collocation.functionals.operators
    values = [point_value(f, collocation.functionals.points[0].shape[1]) for f in range(collocation.num_fields)]
    if carry_values:
        operators = (*operators, *(value for value in values if value not in operators))
    slots = {operator: k for k, operator in enumerate(operators)}
    num_points, num_operators = collocation.num_points, len(slots)
    num_equations = max(p.num_equations for p in collocation.parts)
    latent = np.full((num_points, num_operators), collocation.functionals.size)
    rhs, noise = np.zeros((2, num_points, num_equations))
    has_equation = np.zeros((num_points, num_equations), dtype=bool)
    first = 0
    for part in collocation.parts:
        rows = slice(first, first + part.num_points)
        latent[rows, [slots[o] for o in part.reading.operators]] = np.asarray(part.indices)
        rhs[rows, : part.num_equations] = np.asarray(part.rhs)
        noise[rows, : part.num_equations] = np.asarray(part.noise_variance)
        has_equation[rows, : part.num_equations] = True
        first += part.num_points
    active = latent < collocation.functionals.size
    if carry_values:
        active[:, [slots[value] for value in values]] = True
    return PointTable(
        collocation=collocation,
        operators=operators,
        points=jnp.concatenate([p.points for p in collocation.parts]),
        part=jnp.asarray(np.repeat(np.arange(len(collocation.parts)), [p.num_points for p in collocation.parts])),
        latent=jnp.asarray(latent),
        active=jnp.asarray(active),
        rhs=jnp.asarray(rhs),
        noise_variance=jnp.asarray(noise),
        has_equation=jnp.asarray(has_equation),
    )


def spread_centres(coordinates: Float[np.ndarray, "points dim"], num: int) -> Int[np.ndarray, " centres"]:
    """About `num` well-spread points: the one nearest to the middle of each cell of a balanced k-d partition."""
    if num >= len(coordinates):
        return np.arange(len(coordinates))
    cells = partition(coordinates, num)
    chosen = []
    for cell in cells:
        middle = coordinates[cell].mean(axis=0)
        chosen.append(cell[np.argmin(np.sum((coordinates[cell] - middle) ** 2, axis=1))])
    return np.sort(np.asarray(chosen))


def partition(coordinates: Float[np.ndarray, "points dim"], num_cells: int) -> list[Int[np.ndarray, " cell"]]:
    """Cells of nearly equal numbers of points, halving the widest coordinate each time."""
    cells = [(np.arange(len(coordinates)), num_cells)]
    done = []
    while cells:
        cell, parts = cells.pop()
        if parts <= 1 or len(cell) <= 1:
            done.append(cell)
            continue
        values = coordinates[cell]
        axis = int(np.argmax(values.max(axis=0) - values.min(axis=0)))
        first = parts // 2
        cut = len(cell) * first // parts
        order = np.argpartition(values[:, axis], cut)
        cells += [(cell[order[:cut]], first), (cell[order[cut:]], parts - first)]
    return done


class Cover(eqx.Module):
    """Patches of neighbouring points that together hold every point at least twice, each point owned by one of them."""

    centres: Int[np.ndarray, " patches"]
    members: Int[np.ndarray, "patches members"]
    owner: Int[np.ndarray, " points"]
    coverage: Int[np.ndarray, " points"]

    def owned(self) -> Int[np.ndarray, "patches owned"]:
        """For each patch the positions among its members of the points it owns, padded with -1."""
        patches, slots = np.nonzero(self.owner[self.members] == np.arange(len(self.members))[:, None])
        counts = np.bincount(patches, minlength=len(self.members))
        table = np.full((len(self.members), max(1, counts.max())), -1, dtype=np.int32)
        rank = np.arange(len(patches)) - np.repeat(np.cumsum(counts) - counts, counts)
        table[patches, rank] = slots
        return table

    def text(self) -> str:
        return (
            f"{len(self.members)} patches of {self.members.shape[1]} points; each point lies in {self.coverage.min()} to "
            f"{self.coverage.max()} patches ({self.coverage.mean():.1f} on average)"
        )


def cover(
    coordinates: Float[np.ndarray, "points dim"],
    patch_size: int,
    num_patches: int,
    known: Bool[np.ndarray, " points"] | None = None,
    known_share: float = 0.25,
) -> Cover:
    """A cover by patches of the `patch_size` points nearest to well-spread centres.

    At most `known_share` of a patch are points whose values are `known`, where others can take their place: boundaries are
    often sampled densely, and in a corner half the nearest points are on them, with few equations left to tell what u does.
    Points that fewer than two patches hold (in gaps, near corners) become centres themselves, so at least two hold every
    point unless a single patch holds all.
    """
    num_points = len(coordinates)
    patch_size = min(patch_size, num_points)
    centres = np.array([0]) if patch_size == num_points else spread_centres(coordinates, num_patches)
    needed = 1 if patch_size == num_points else 2
    while True:
        members = _patches(coordinates, coordinates[centres], patch_size, known, known_share)
        coverage = np.bincount(members.reshape(-1), minlength=num_points)
        missing = np.flatnonzero(coverage < needed)
        if len(missing) == 0:
            break
        # A few at a time, well spread: one new patch covers many missing points.
        keep = missing[spread_centres(coordinates[missing], max(1, len(missing) // max(1, patch_size // 4)))]
        # A centre that only its own patch holds asks for the patch of its nearest neighbour that is no centre yet.
        near = _patches(coordinates, coordinates[keep], patch_size, known, known_share)
        fresh = ~np.isin(near, centres)
        added = near[np.arange(len(keep)), np.argmax(fresh, axis=1)][fresh.any(axis=1)]
        if len(added) == 0:
            break
        centres = np.union1d(centres, added)
    # Each point is owned by the patch, among those that hold it, whose centre is nearest.
    flat = members.reshape(-1)
    patch = np.repeat(np.arange(len(centres)), patch_size)
    distance = np.sum((coordinates[flat] - coordinates[centres][patch]) ** 2, axis=1)
    order = np.lexsort((patch, distance, flat))
    first = np.searchsorted(flat[order], np.arange(num_points))
    return Cover(centres, members, patch[order][first].astype(np.int32), coverage)


def _patches(
    coordinates: Float[np.ndarray, "points dim"],
    centres: Float[np.ndarray, "centres dim"],
    size: int,
    known: Bool[np.ndarray, " points"] | None,
    known_share: float,
) -> Int[np.ndarray, "centres size"]:
    """The nearest points of each centre, nearest first; where too many of them are known, the nearest of each kind."""
    _, members = NeighbourIndex(coordinates).nearest(centres, size)
    most = max(1, int(known_share * size))
    if known is None or np.sum(known) <= most or np.sum(~known) < size - most:
        return members
    crowded = np.flatnonzero(np.sum(known[members], axis=1) > most)
    if len(crowded):
        kinds = [(np.flatnonzero(~known), size - most), (np.flatnonzero(known), most)]
        nearest = [own[NeighbourIndex(coordinates[own]).nearest(centres[crowded], num)[1]] for own, num in kinds]
        joined = np.concatenate(nearest, axis=1)
        distance = np.linalg.norm(coordinates[joined] - centres[crowded, None], axis=-1)
        members[crowded] = np.take_along_axis(joined, np.argsort(distance, axis=1, kind="stable"), axis=1)
    return members
