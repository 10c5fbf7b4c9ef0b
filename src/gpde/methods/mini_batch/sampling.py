"""Which batches the steps of Algorithm 1 take."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

Sampler = Callable[[Array, int, int], Any]
"""A function of a key, the number of points and the batch size that returns the indices of a batch."""


def drawn_centres(num_points: int, first: int, num: int, seed: int, *, replacement: bool) -> Int[np.ndarray, " steps"]:
    """The points around which steps `first`, `first + 1`, ... take their batch: drawn anew each time, or, without
    replacement, in random permutations of all points, one after the other."""
    if replacement:
        return np.random.default_rng([seed, first]).integers(num_points, size=num)
    rounds = range(first // num_points, (first + num - 1) // num_points + 1)
    shuffled = np.concatenate([np.random.default_rng([seed, r]).permutation(num_points) for r in rounds])
    return shuffled[first - rounds[0] * num_points :][:num]


def drawn_batches(
    sampler: str | Sampler, num_points: int, size: int, first: int, num: int, seed: int
) -> Int[Array, "steps batch"]:
    """The batches of steps `first`, `first + 1`, ...: uniformly drawn points, or what the user's function says."""
    if not callable(sampler):
        rng = np.random.default_rng([seed, first])
        drawn = [rng.choice(num_points, size, replace=False, shuffle=False) for _ in range(num)]
    else:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), first), num)
        drawn = [_checked(sampler(key, num_points, size), num_points, size) for key in keys]
    return jnp.asarray(np.stack(drawn), dtype=jnp.int32)


def _checked(indices: Any, num_points: int, size: int) -> Int[np.ndarray, " batch"]:
    batch = np.asarray(indices)
    whole = batch.shape == (size,) and np.issubdtype(batch.dtype, np.integer)
    if not whole or len(np.unique(batch)) < size or batch.min() < 0 or batch.max() >= num_points:
        text = np.array2string(batch, threshold=8)
        raise ValueError(f"`sampler` must return {size} different indices from 0 to {num_points - 1}; came {text}.")
    return batch
