"""Covers of the points by patches of neighbours, and partitions of them into cells."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from gpde.collocation.neighbours import NeighbourIndex


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
    num_near: int

    def owned(self) -> Int[np.ndarray, "patches owned"]:
        """For each patch the positions among its members of the points it owns, padded with -1."""
        patches, slots = np.nonzero(self.owner[self.members] == np.arange(len(self.members))[:, None])
        counts = np.bincount(patches, minlength=len(self.members))
        table = np.full((len(self.members), max(1, counts.max())), -1, dtype=np.int32)
        rank = np.arange(len(patches)) - np.repeat(np.cumsum(counts) - counts, counts)
        table[patches, rank] = slots
        return table

    def text(self) -> str:
        size = self.members.shape[1]
        far = "" if size == self.num_near else f", {size - self.num_near} of them farther out"
        return (
            f"{len(self.members)} patches of {size} points{far}; each point lies in {self.coverage.min()} to "
            f"{self.coverage.max()} patches ({self.coverage.mean():.1f} on average)"
        )


def cover(
    coordinates: Float[np.ndarray, "points dim"],
    patch_size: int,
    num_patches: int,
    known: Bool[np.ndarray, " points"] | None = None,
    known_share: float = 0.25,
    far: Sequence[Int[np.ndarray, " _"]] = (),
) -> Cover:
    """A cover by patches of the `patch_size` points nearest to well-spread centres, and of as many others from each of the
    subsets `far`, the nearest of those too.

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
    for subset in far:
        members = _reaching(coordinates, coordinates[centres], members, subset, patch_size)
    coverage = np.bincount(members.reshape(-1), minlength=num_points)
    # Each point is owned by the patch, among those that hold it, whose centre is nearest.
    flat = members.reshape(-1)
    patch = np.repeat(np.arange(len(centres)), members.shape[1])
    distance = np.sum((coordinates[flat] - coordinates[centres][patch]) ** 2, axis=1)
    order = np.lexsort((patch, distance, flat))
    first = np.searchsorted(flat[order], np.arange(num_points))
    return Cover(centres, members, patch[order][first].astype(np.int32), coverage, patch_size)


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


def _reaching(
    coordinates: Float[np.ndarray, "points dim"],
    centres: Float[np.ndarray, "centres dim"],
    members: Int[np.ndarray, "centres size"],
    subset: Int[np.ndarray, " some"],
    num: int,
) -> Int[np.ndarray, "centres larger"]:
    """The members of each patch and the `num` points of a subset that are nearest to its centre and no members yet; fewer
    where the subset has not so many for every patch."""
    _, nearest = NeighbourIndex(coordinates[subset]).nearest(centres, members.shape[1] + num)
    candidates, row = subset[nearest], len(coordinates) * np.arange(len(centres), dtype=np.int64)[:, None]
    fresh = ~np.isin(candidates + row, members + row)
    num = min(num, int(fresh.sum(axis=1).min()))
    first = np.argsort(~fresh, axis=1, kind="stable")[:, :num]
    return np.concatenate([members, np.take_along_axis(candidates, first, axis=1).astype(members.dtype)], axis=1)
