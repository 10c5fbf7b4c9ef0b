"""Points in the unit cube: random, of low discrepancy, or in rows. A domain carries them to its parts."""

import heapq
import itertools
import math
import operator
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

SAMPLINGS = ("uniform", "sobol", "halton", "grid", "poisson")
# Points to try before a part counts as empty: one in a million of a box may be there.
_MAX_TRIED = 2**22


def unit_points(
    num: int, extent: Float[np.ndarray, " axes"], *, sampling: str, rng: np.random.Generator
) -> Float[np.ndarray, "num axes"]:
    """`num` points of the unit cube; `extent` holds the lengths its axes will have, so that a grid comes out square."""
    num_axes = len(extent)
    if num == 0 or num_axes == 0:
        return np.zeros((num, num_axes))
    match sampling:
        case "uniform":
            return rng.random((num, num_axes))
        case "sobol":
            from scipy.stats import qmc  # here: scipy.stats takes as long to import as jax

            # The head of a sequence of 2^k points: SciPy warns about any other length.
            return qmc.Sobol(num_axes, rng=rng).random_base2(math.ceil(math.log2(num)))[:num]
        case "halton":
            from scipy.stats import qmc

            return qmc.Halton(num_axes, rng=rng).random(num)
        case "grid":
            return _rows(num, extent)
        case _:
            raise ValueError(f"`sampling` is {sampling!r}; it is one of {', '.join(map(repr, SAMPLINGS))}.")


def placed(
    num: int,
    extent: Float[np.ndarray, " axes"],
    place: Callable[[Float[np.ndarray, "tried axes"]], Float[np.ndarray, "tried dim"]],
    *,
    sampling: str,
    rng: Callable[[], np.random.Generator],
) -> Float[np.ndarray, "num dim"]:
    """`num` points of the unit cube carried elsewhere; `place` rejects by rows of NaN.

    A longer sequence begins as a shorter one does, so that one which rejects nothing gives the first `num` points. Of grids the
    coarsest with enough points is taken, and what is too many left out here and there.
    """

    def kept(tried: int) -> Float[np.ndarray, "some dim"]:
        points = place(unit_points(tried, extent, sampling=sampling, rng=rng()))
        return points[~np.isnan(points).any(axis=1)]

    tried, points = num, kept(num)
    too_few = num
    while len(points) < num:
        if tried >= _MAX_TRIED and not len(points):
            raise ValueError(f"none of {tried} points tried lies")
        too_few, tried = tried, max(tried + 1, math.ceil(1.05 * tried * min(num / max(len(points), 0.1), 64.0)))
        points = kept(tried)
    if sampling != "grid" or len(points) == num:
        return points[:num]
    while tried - too_few > 1 and len(points) > num:
        middle = (tried + too_few) // 2
        fewer = kept(middle)
        tried, too_few, points = (middle, too_few, fewer) if len(fewer) >= num else (tried, middle, points)
    return points[np.linspace(0, len(points) - 1, num).round().astype(int)]


def trial(
    extent: Float[np.ndarray, " axes"],
    place: Callable[[Float[np.ndarray, "tried axes"]], Float[np.ndarray, "tried dim"]],
    log2: int = 14,
) -> Float[np.ndarray, "tried dim"]:
    """2^14 points of the unit cube carried elsewhere: shares of what is there are good to about a thousandth."""
    return place(unit_points(2**log2, extent, sampling="sobol", rng=np.random.default_rng(0)))


def acceptance(points: Float[np.ndarray, "tried dim"]) -> float:
    """The share of points that `place` has not rejected."""
    return float(np.mean(~np.isnan(points).any(axis=1)))


def weights_of_means(
    points: Float[np.ndarray, "points dim"], many: Float[np.ndarray, "many dim"]
) -> Float[np.ndarray, " points"]:
    """The weights nearest to equal ones with which polynomials have the means over `points` that they have over `many`."""
    low, span = many.min(axis=0), np.maximum(np.ptp(many, axis=0), np.finfo(float).tiny)
    degree, dim = 0, points.shape[1]
    while degree < 6 and math.comb(degree + 1 + dim, dim) <= len(points) // 6:
        degree += 1
    orders = [order for order in itertools.product(range(degree + 1), repeat=dim) if sum(order) <= degree]

    def polynomials(x: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points orders"]:
        along = np.polynomial.legendre.legvander(2 * (x - low) / span - 1, degree)  # (points, dim, degree + 1)
        return np.stack([np.prod([along[:, axis, n] for axis, n in enumerate(order)], axis=0) for order in orders], axis=1)

    equal, basis = np.full(len(points), 1 / len(points)), polynomials(points)
    return equal + np.linalg.lstsq(basis.T, polynomials(many).mean(axis=0) - equal @ basis, rcond=1e-10)[0]


def first_of_each(points: Float[np.ndarray, "many dim"]) -> np.ndarray:
    """The indices of the points, in order, without those that repeat an earlier one."""
    return np.sort(np.unique(points, axis=0, return_index=True)[1])


def spread(points: Float[np.ndarray, "many dim"], num: int, periods: Float[np.ndarray, " dim"]) -> np.ndarray:
    """The indices of `num` of the points, in order, none close to another: of the closest two one goes, again and again.

    Coordinates close to circles where `periods` are finite: points on either side of a seam are close.
    """
    many = len(points)
    if num >= many:
        return np.arange(many)
    circle = np.isfinite(periods)
    around = np.where(circle, np.mod(points, np.where(circle, periods, 1.0)), points)
    around = np.where(circle & (around >= periods), 0.0, around)  # the remainder of -1e-20 is rounded to the period
    tree = KDTree(around, boxsize=np.where(circle, periods, 0.0))
    # Neighbours enough that a point rarely outlives all of its own.
    num_near = min(many, 24)
    distance, near = (np.reshape(a, (many, num_near))[:, 1:].tolist() for a in tree.query(around, k=num_near))
    heap = [(row[0], i, 0) for i, row in enumerate(distance)]
    heapq.heapify(heap)
    alive, left = np.ones(many, dtype=bool), many
    while left > num and heap:
        _, i, k = heapq.heappop(heap)
        if alive[near[i][k]]:
            alive[i] = False
            left -= 1
        elif k + 1 < num_near - 1:
            heapq.heappush(heap, (distance[i][k + 1], i, k + 1))
    return np.flatnonzero(alive)[:num]


def gauss_points(
    num: int, extent: Float[np.ndarray, " axes"]
) -> tuple[Float[np.ndarray, "points axes"], Float[np.ndarray, " points"]]:
    """Gauss-Legendre points of the unit cube, about `num` of them and more along longer axes, with weights of sum one."""
    spacing = (np.prod(extent) / num) ** (1 / len(extent))
    rules = [np.polynomial.legendre.leggauss(max(2, round(float(length / spacing)))) for length in extent]
    nodes = np.meshgrid(*[(x + 1) / 2 for x, _ in rules], indexing="ij")
    weights = np.meshgrid(*[w / 2 for _, w in rules], indexing="ij")
    return np.stack([axis.reshape(-1) for axis in nodes], axis=1), np.prod(weights, axis=0).reshape(-1)


def _rows(num: int, extent: Float[np.ndarray, " axes"]) -> Float[np.ndarray, "num axes"]:
    """Exactly `num` cell centres: a tensor grid if `num` factors well, else rows whose lengths differ by one."""
    num_rows = _num_rows(num, extent)
    lengths = split(num, np.ones(num_rows))
    centres = np.repeat((np.arange(num_rows) + 0.5) / num_rows, lengths)[:, None]
    if len(extent) == 1:
        return centres
    return np.hstack([centres, np.concatenate([_rows(length, extent[1:]) for length in lengths])])


def _num_rows(num: int, extent: Float[np.ndarray, " axes"]) -> int:
    if len(extent) == 1:
        return num
    spacing = (np.prod(extent) / num) ** (1 / len(extent))
    ideal = min(max(extent[0] / spacing, 1.0), float(num))
    # A divisor of `num` keeps the rows equal: worth cells that are up to a third longer than wide.
    near = [n for n in range(math.ceil(ideal / 1.3), math.floor(ideal * 1.3) + 1) if num % n == 0]
    return min(near, key=lambda n: abs(math.log(n / ideal)), default=round(ideal))


def split(num: int, measures: Sequence[float | int] | Float[np.ndarray, " parts"], *, least: int = 0) -> list[int]:
    """`num` shared out in proportion to `measures`: largest remainders first, ties to the earlier part.

    No part gets fewer than `least` while there are that many for each.
    """
    weights = np.asarray(measures, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ValueError(f"`split`: `measures` are finite, not negative and not all zero; got {measures}.")
    first = np.full(len(weights), least if count(num, "split") >= least * len(weights) else 0)
    quotas = np.maximum(num * (weights / weights.sum()) - first, 0.0)
    quotas *= (num - first.sum()) / max(quotas.sum(), np.finfo(float).tiny)
    # Quotas that should be whole or should tie are so only up to rounding.
    shares = np.floor(quotas + 1e-9)
    remainders = np.round(quotas - shares, 9)
    shares[np.argsort(-remainders, kind="stable")[: int(num - first.sum() - shares.sum())]] += 1
    return [int(share) for share in shares + first]


def between(
    lower: Float[np.ndarray, " axes"], upper: Float[np.ndarray, " axes"], unit: Float[np.ndarray, "points axes"]
) -> Float[np.ndarray, "points axes"]:
    """`lower + (upper - lower) * unit`, strictly between the two even where rounding would touch them."""
    return np.clip(lower + (upper - lower) * unit, np.nextafter(lower, upper), np.nextafter(upper, lower))


def generator(seed: int, part: str) -> np.random.Generator:
    """A stream of its own for each seed and part, the same on every machine (`hash` of a string is not)."""
    return np.random.default_rng([count(seed, "sample", "seed"), zlib.crc32(part.encode())])


def count(num: object, call: str, argument: str = "num") -> int:
    """`num` as an int, or an error that names the argument."""
    try:
        value = -1 if isinstance(num, bool) else operator.index(num)  # pyright: ignore[reportArgumentType]
    except TypeError:
        value = -1
    if value < 0:
        raise ValueError(f"`{call}`: `{argument}` is a whole number, zero or more; got {num!r}.")
    return value
