r"""Lengthscales of their own for patches: short at a front, long where the solution is smooth.

A patch is a Gaussian process of its own, and what patches share are values: nothing asks that their priors be the same. With
$\theta_c$ the factors by which the lengthscales of patch $c$ differ from the kernel's, the misfit of its equations and values
together (`patch.misfit`) is minimised in $\theta_c$ where a step minimises it in the values: a few trials, each longer or
shorter along one coordinate or all. Trials are compared by their mean over neighbouring patches, which differ little.
"""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from gpde.collocation.cover import Cover, spread_centres
from gpde.collocation.neighbours import NeighbourIndex
from gpde.functionals.functionals import Kernels
from gpde.machine.threads import map_chunks
from gpde.methods.consensus.patch import Equations, misfit, stretched_all
from gpde.methods.consensus.system import chunk_size, value_rows

# The trials of one call: factors that begin large and become finer, and on the way a fine one.
_FIRST_FACTORS, _LATER_FACTORS = (2.0, 2.0, 1.4), (1.4,)
# Patches that are asked, and how many of them compare their trials.
_NUM_ASKED = 2500
_NUM_TOGETHER = 6
# Points within a lengthscale along every coordinate, at the least: with fewer nothing passes from patch to patch.
_LEAST_POINTS = 3.0
# Lengthscales are no longer than so many radii of a patch, which cannot tell longer ones apart, and far fewer while values are
# rough: these look smooth, and from lengthscales much too long it takes many steps back. With ten from the start
# fronts came to rest before theirs were short.
_MOST_RADII, _MOST_RADII_AT_REST = 2.5, 10.0


def learned_stretch(
    equations: Equations,
    kernels: Kernels,
    cover: Cover,
    values: Float[np.ndarray, "points fields"],
    nuggets: Float[np.ndarray, " patches"],
    stretch: Float[np.ndarray, "patches dim"],
    coordinates: Float[np.ndarray, "points coordinates"],
    later: bool,
    at_rest: bool,
) -> Float[np.ndarray, "patches dim"]:
    """The stretch of every patch after some trials, fewer of them `later`; longer lengthscales are tried `at_rest`."""
    centres, asked = coordinates[cover.centres], spread_centres(coordinates[cover.centres], _NUM_ASKED)
    members = cover.members[asked]
    radius = np.linalg.norm(coordinates[members[:, : cover.num_near]] - centres[asked, None], axis=-1).max(axis=1)
    local = values.reshape(-1)[value_rows(members, equations.num_fields)]
    index = NeighbourIndex(centres[asked])
    _, together = index.nearest(centres[asked], _NUM_TOGETHER)
    dim, logs = stretch.shape[1], np.log(stretch[asked])
    directions = np.concatenate([np.zeros((1, dim)), np.eye(dim), -np.eye(dim), np.ones((1, dim)), -np.ones((1, dim))])
    # A patch of M points reaches r lengthscales far: r / M^(1/d) is about half the distance of points in them.
    least = np.log(_LEAST_POINTS * radius * np.sqrt(np.pi) / cover.num_near ** (1 / dim))
    radii = _MOST_RADII_AT_REST if at_rest else _MOST_RADII
    most = np.log(np.maximum(radii * radius, 1.0))  # the kernel's own are what all points say
    for factor in _LATER_FACTORS if later else _FIRST_FACTORS:
        tried = []
        for direction in directions:
            candidate = _clipped(logs + np.log(factor) * direction, least, most)
            arguments = (members, local, nuggets[asked], np.exp(candidate))
            (found,) = map_chunks(_misfits, (equations, kernels), arguments, chunk_size(equations, members.shape[1]))
            tried.append(found)
        scores = np.stack(tried)
        worse = np.where(np.isfinite(scores), scores, np.nanmax(np.where(np.isfinite(scores), scores, np.nan)) + 1.0)
        best = np.argmin(worse[:, together].mean(axis=2), axis=0)
        logs = _clipped(logs + np.log(factor) * directions[best], least, most)
    logs = logs[together].mean(axis=1)
    distance, near = index.nearest(centres, min(4, len(asked)))
    spacing = np.mean(distance[:, -1])
    weight = 1.0 / (distance + (1e-3 * spacing if spacing > 0 else 1.0))  # a single patch has no spacing
    return np.exp(np.einsum("pk,pkd->pd", weight / weight.sum(axis=1, keepdims=True), logs[near]))


def _clipped(
    logs: Float[np.ndarray, "patches dim"], least: Float[np.ndarray, " patches"], most: Float[np.ndarray, " patches"]
) -> Float[np.ndarray, "patches dim"]:
    """Lengthscales whose box holds points enough, and each of which a patch can tell from longer ones."""
    logs = np.minimum(logs, most[:, None])
    return logs + np.maximum(least - logs.mean(axis=1), 0.0)[:, None]


@eqx.filter_jit
def _misfits(shared: tuple[Equations, Kernels], members: Array, values: Array, nuggets: Array, stretch: Array) -> tuple[Array]:
    equations, kernels = shared

    def one(patch: tuple[Array, ...]) -> Array:
        members, values, nugget, own = patch
        return misfit(equations, stretched_all(kernels, own), members, values, nugget)

    return (jax.lax.map(one, (members, values, nuggets, stretch)),)
