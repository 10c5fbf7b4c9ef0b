"""The search for a kernel: a coarse scan, stochastic gradients on a few patches at a time, a last look at larger batches."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from gpde.learning.likelihood import Patches, scores
from gpde.learning.shape import Shape
from gpde.machine.threads import threads_for

# The scan multiplies all lengthscales by these, then each coordinate's.
_COMMON = np.log(2.0) * np.arange(-4, 5)
_SINGLE = np.log(2.0) * np.array([-2.0, -1.0, 1.0, 2.0])
_NUM_SWEEPS = 3
# And each field but the first by these, which may be millions of times larger or smaller than it: coarse ones, then finer.
_FIELDS = np.log(10.0) * np.array([[-4.0, -2.0, 2.0, 4.0], [-2.0, -1.0, 1.0, 2.0], [-0.5, -0.25, 0.25, 0.5]])
# Half the distance of the two kernels that a gradient compares: far above what rounding does to a likelihood.
_DIFFERENCE = 0.02
# Of the last look: a factor on lengthscales, which part of it is too little to ask about, and how much worse than the best a
# kernel may be to tell of its surroundings.
POLISH, _NEAR, _CLIFF = np.log(1.4), 0.2, 3.0
_SHORTER = np.array([1 / 4, 1 / 16, 1 / 64])
# And a factor on amplitudes, and how often.
_AMPLITUDE, _AMPLITUDE_TRIES = np.log(3.0), 4
# Scores that differ by less say the same of a kernel: its neighbours by the factor above differ by a tenth or more.
_SAME = 0.05


class Tried(NamedTuple):
    """A kernel that the search looked at: in which stage, its numbers, its negative log likelihood per equation and the
    amplitude that goes with it."""

    stage: str
    theta: Float[np.ndarray, " parameters"]
    score: float
    amplitude: float = 1.0


def best_of(tried: Sequence[Tried]) -> Tried:
    """The likeliest."""
    return min(tried, key=lambda t: t.score)


# How far from that of a rough solution the size of a field may be.
_FIELD_RANGE = np.log(30.0)
# In units of the domain: where learning starts by default, and how far lengthscales may grow.
_START, _LONGEST = 0.2, 3.0


class Limits(NamedTuple):
    """Between which lengthscales are looked for, as logarithms, for all parameters."""

    lower: Float[np.ndarray, " parameters"]
    upper: Float[np.ndarray, " parameters"]

    @staticmethod
    def of(shape: Shape, extent: Float[np.ndarray, " dim"], num_points: int) -> "Limits":
        """Lengthscales from a quarter of the distance of points to three times the domain; amplitudes as they come."""
        num = shape.num_lengthscales
        theta, extents = shape.theta, np.log(np.tile(extent, num // len(extent)))
        lower, upper = theta - np.log(1e6), theta + np.log(1e6)
        lower[:num] = extents + np.log(0.25 * num_points ** (-1 / len(extent)))
        upper[:num] = extents + np.log(_LONGEST)
        return Limits(lower, upper)

    def with_fields_of(self, shape: Shape, sizes: Float[np.ndarray, " fields"]) -> "Limits":
        """Amplitudes of fields, in units of the first, not far from how a rough solution has them: where equations have zero on
        their right sides, the likelihood of each would prefer to have its field vanish."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for scale, size in zip(shape.field_scales, sizes[1:], strict=True):
            if size > 0 and sizes[0] > 0:
                lower[scale > 0] = np.log(size / sizes[0]) - _FIELD_RANGE
                upper[scale > 0] = np.log(size / sizes[0]) + _FIELD_RANGE
        return Limits(lower, upper)

    def clip(self, theta: Float[np.ndarray, "*several parameters"]) -> Float[np.ndarray, "*several parameters"]:
        return np.clip(theta, self.lower, self.upper)


def scan(shape: Shape, theta: Float[np.ndarray, " parameters"], patches: Patches, nugget: float, limits: Limits) -> list[Tried]:
    """All lengthscales longer or shorter by powers of two, in the proportions they have and in those of the domain; from the
    best of those single ones, a few times.

    From far away there are two hills: with lengthscales much too long all is explained as the noise that the nugget is.
    """
    num = shape.num_lengthscales
    every = np.zeros(len(theta))
    every[:num] = 1.0
    even = theta.copy()
    even[:num] = limits.upper[:num] + np.log(_START / _LONGEST)
    starts = np.concatenate([start + _COMMON[:, None] * every for start in (theta, even)])
    tried = _evaluate("scan", shape, limits.clip(starts), patches, nugget)
    scales = shape.field_scales
    for factors in _FIELDS if len(scales) else ():
        for scale in scales:
            best = best_of(tried)
            tried += _evaluate("scan", shape, limits.clip(best.theta + factors[:, None] * scale), patches, nugget)
    if num > 1:
        steps = np.concatenate([step * np.eye(len(theta))[:num] for step in _SINGLE])
        for _ in range(_NUM_SWEEPS):
            best, known = best_of(tried), len(tried)
            tried += _evaluate("scan", shape, limits.clip(best.theta + steps), patches, nugget)
            if min(t.score for t in tried[known:]) >= best.score:
                break
    return tried


def descend(
    shape: Shape,
    theta: Float[np.ndarray, " parameters"],
    patches: Patches,
    nugget: float,
    limits: Limits,
    *,
    num_steps: int,
    batch_size: int,
    seed: int,
) -> list[Tried]:
    """Adam on the likelihood of a few patches at a time, drawn anew for each step.

    A derivative is a central difference: it needs no other program than the likelihood itself, which the scan has compiled.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(0.15, num_steps, alpha=0.1))
    state = optimizer.init(jnp.asarray(theta))
    generator = np.random.default_rng(seed)
    eye, tried = np.eye(len(theta)), []
    for _ in range(num_steps):
        rows = generator.permutation(len(patches))[:batch_size]
        around = np.concatenate([theta + _DIFFERENCE * eye, theta - _DIFFERENCE * eye])
        found = np.array([t.score for t in _evaluate("gradient", shape, around, patches[rows], nugget)])
        with np.errstate(invalid="ignore"):  # infinite on both sides
            slope = (found[: len(theta)] - found[len(theta) :]) / (2 * _DIFFERENCE)
        # Where one side has no likelihood the way leads to the other; where neither has, nothing is known.
        slope = np.where(np.isnan(slope), 0.0, np.clip(slope, -1e3, 1e3))
        update, state = optimizer.update(jnp.asarray(slope), state)
        theta = limits.clip(np.asarray(optax.apply_updates(jnp.asarray(theta), update)))
        tried.append(
            Tried("gradient", theta, float(np.mean(found[np.isfinite(found)])) if np.isfinite(found).any() else np.inf)
        )
    return tried


def polish(
    shape: Shape,
    starts: Sequence[Float[np.ndarray, " parameters"]],
    batch: Patches,
    nugget: float,
    limits: Limits,
    max_tries: int,
    before: float | None = None,
    *,
    shorter: bool = False,
    earlier: Sequence[Tried] = (),
) -> list[Tried]:
    """From the best of several starts: the lengthscale of each coordinate, all of them, and one against the others, by the same
    factor as long as that helps; and where a parabola through what was tried is least, as soon as there is one.

    Patches that see one end of the domain may take a solution for flat: with `shorter` the first start is asked about much
    shorter lengthscales too. Where the score is what it was `before`, with another linearisation, nothing else is tried. What
    was tried `earlier` on fewer points tells how scores bend.
    """
    num = shape.num_lengthscales
    every = np.zeros(len(starts[0]))
    every[:num] = 1.0
    more = [starts[0] + factor * every for factor in np.log(_SHORTER)] if shorter else []
    tried = _evaluate("all points", shape, _distinct(limits.clip(np.stack([*starts, *more]))), batch, nugget)
    best = best_of(tried)
    if before is not None and abs(best.score - before) < _SAME:
        return tried
    for axis in shape.amplitude_axes:
        tried += _along(axis, best_of(tried), shape, batch, nugget, limits)
    best, bend = best_of(tried), _bend(earlier, num)
    directions, failed, max_tries = _directions(len(every), num), 0, max_tries + len(tried)
    while len(tried) < max_tries and failed < len(directions):
        least, gain = _least(tried, num, bend)
        if gain < _SAME:
            break
        guess = None if least is None or _known(tried, limits.clip(least), _NEAR * POLISH) else least
        new = limits.clip(best.theta + POLISH * directions[failed] if guess is None else guess)
        if _known(tried, new):
            failed += 1
            continue
        tried += _evaluate("all points", shape, new[None], batch, nugget)
        if tried[-1].score < best.score:
            best = tried[-1]
            if guess is None:  # what helped goes on to be tried first, and its opposite last
                ahead = directions.pop(failed)
                directions = [ahead, *[d for d in directions if not np.array_equal(d, -ahead)], -ahead]
            failed = 0
        elif guess is None:
            failed += 1
    return tried


def shorter_alone(shape: Shape, theta: Float[np.ndarray, " parameters"]) -> list[Float[np.ndarray, " parameters"]]:
    """Lengthscales much shorter along one coordinate: a layer is thin along one of them. With all of them that short there may
    be another hill, where no point has to do with another."""
    num = shape.num_lengthscales
    along = np.zeros((shape.dim, len(theta)))
    along[:, :num] = np.tile(np.eye(shape.dim), num // shape.dim)
    return [theta + factor * axis for factor in np.log(_SHORTER[:2]) for axis in along] if shape.dim > 1 else []


def _along(
    axis: Float[np.ndarray, " parameters"], start: Tried, shape: Shape, batch: Patches, nugget: float, limits: Limits
) -> list[Tried]:
    """A field larger as long as that helps, else smaller: patches, which see one end of the domain, may mistake it."""
    tried: list[Tried] = []
    for step in (_AMPLITUDE * axis, -_AMPLITUDE * axis):
        best = start
        while len(tried) < _AMPLITUDE_TRIES:
            new = limits.clip(best.theta + step)
            if np.array_equal(new, best.theta):
                break
            tried += _evaluate("all points", shape, new[None], batch, nugget)
            if tried[-1].score >= best.score:
                break
            best = tried[-1]
        if best is not start:
            break
    return tried


def _known(tried: Sequence[Tried], theta: Float[np.ndarray, " parameters"], within: float = 1e-8) -> bool:
    """Whether this was tried, or something so near."""
    return any(np.max(np.abs(theta - t.theta)) <= within for t in tried)


def _least(
    tried: Sequence[Tried], num: int, bend: Float[np.ndarray, "num num"] | None
) -> tuple[Float[np.ndarray, " parameters"] | None, float]:
    """Where a parabola through what was tried near the best is least, two steps away at most, and how much less than the best
    it is there; None where there is no such parabola."""
    best, away, worse = _around(tried, num)
    own = _bend(tried, num)
    bend = bend if own is None else own
    if bend is None or not np.any(away):
        return None, np.inf
    # Where one direction alone was tried, it is least along that one.
    _, sizes, axes = np.linalg.svd(away, full_matrices=False)
    axes = axes[sizes > 1e-6 * sizes[0]]
    along, bend = away @ axes.T, axes @ bend @ axes.T
    slope = np.linalg.lstsq(along, worse - 0.5 * np.einsum("ti,ij,tj->t", along, bend, along), rcond=None)[0]
    move = np.zeros(len(best.theta))
    move[:num] = np.clip(-np.linalg.solve(bend, slope) @ axes, -2 * POLISH, 2 * POLISH)
    found = axes @ move[:num]
    return best.theta + move, -(slope @ found + 0.5 * found @ bend @ found)


def _bend(tried: Sequence[Tried], num: int) -> Float[np.ndarray, "num num"] | None:
    """The second derivatives of scores near the best; None where too few are known for that, or it is no valley."""
    if not tried:
        return None
    _, away, worse = _around(tried, num)
    i, j = np.triu_indices(num)
    terms = np.concatenate([away, np.where(i == j, 0.5, 1.0) * away[:, i] * away[:, j]], axis=1)
    if np.linalg.matrix_rank(terms) < terms.shape[1]:
        return None
    bend = np.zeros((num, num))
    bend[i, j] = bend[j, i] = np.linalg.lstsq(terms, worse, rcond=None)[0][num:]
    return bend if np.linalg.eigvalsh(bend)[0] > 0 else None


def _around(tried: Sequence[Tried], num: int) -> tuple[Tried, Float[np.ndarray, "near num"], Float[np.ndarray, " near"]]:
    """The best, and how far away and how much worse those near it are; at a cliff no parabola holds."""
    best = best_of(tried)
    near = [t for t in tried if np.max(np.abs(t.theta - best.theta)) < 2.5 * POLISH and t.score < best.score + _CLIFF]
    away = np.array([(t.theta - best.theta)[:num] for t in near]).reshape(-1, num)
    return best, away, np.array([t.score - best.score for t in near])


def _distinct(thetas: Float[np.ndarray, "several parameters"]) -> Float[np.ndarray, "some parameters"]:
    return np.stack([t for i, t in enumerate(thetas) if not any(np.allclose(t, other) for other in thetas[:i])])


def _directions(num_parameters: int, num: int) -> list[Float[np.ndarray, " parameters"]]:
    """Single lengthscales; all together; one longer and the others shorter, so that as many points as before see each other,
    along which a likelihood changes least. Shorter ones first: what fewer points preferred was longer."""
    single, every = np.eye(num_parameters)[:num], np.eye(num_parameters)[:num].sum(axis=0)
    if num == 1:
        return [-every, every]
    against = [(num * one - every) / (num - 1) for one in (single[:1] if num == 2 else single)]
    return [-every, every, *(-single), *single, *against, *(-a for a in against)]


def scored(shape: Shape, theta: Float[np.ndarray, " parameters"], batches: list[Patches], nugget: float) -> tuple[float, float]:
    """Score and amplitude of one kernel over several batches."""
    found = [_evaluate("gradient", shape, theta[None], patches, nugget)[0] for patches in batches]
    return float(np.mean([t.score for t in found])), float(np.sqrt(np.mean([t.amplitude**2 for t in found])))


def _evaluate(
    stage: str, shape: Shape, thetas: Float[np.ndarray, "several parameters"], patches: Patches, nugget: float
) -> list[Tried]:
    # One shape is compiled for all of a search: as many at a time as a gradient needs, or one where patches are large.
    width = 1 if stage == "all points" else 2 * thetas.shape[1]
    padded = np.concatenate([thetas, np.repeat(thetas[-1:], -len(thetas) % width, axis=0)])
    with threads_for(patches.rhs[0].size):
        found = [
            np.stack(scores(shape, jnp.asarray(padded[first : first + width]), patches, jnp.asarray(nugget)), axis=1)
            for first in range(0, len(padded), width)
        ]
    return [Tried(stage, theta, *map(float, numbers)) for theta, numbers in zip(thetas, np.concatenate(found), strict=False)]
