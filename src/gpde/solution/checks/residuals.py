r"""What is left of the equations at the points of a run and between them, in units of their own terms.

With the reading $r(x, v)$, where $v_k = L_k u(x)$, the size of an equation's terms is

$$ t = |r(x, 0)| + \sum_\alpha \Big|\frac{\partial r}{\partial(\partial^\alpha u)}\Big|
       \Big(|\partial^\alpha u(x)| + \frac{U_\alpha}{\text{extent}^\alpha}\Big). $$

Every derivative is a term of its own: $u_t - u_{xx}$ as a whole is nothing but the residual. And $U$, the size of the field, is
there because $u'' = 0$ and $u = 0$ have no other term. The measure of an equation is rms $r$ / rms $t$ over points. Values come
from the predictor: latent values may satisfy equations that the function which comes out does not.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.collocation import Part
from gpde.domains.sampling import generator
from gpde.equations import Reading, Site
from gpde.equations.linear_operators import Derivative, coefficient_matrix
from gpde.functionals.functionals import Kernels
from gpde.kernels import MultiIndex
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractPredictor
from gpde.problem.problem import Problem

# Points per part: some of the run's own, and new ones, uniform or where |r(x, 0)| is largest in a pool, which finds a source
# that fell between the points. The pool is evaluated in pieces of the same size: one shape is compiled.
_NUM_OWN, _NUM_UNIFORM, _NUM_STRONG = 32, 64, 32
CHUNK = _NUM_OWN + _NUM_UNIFORM + _NUM_STRONG
_NUM_POOL = 16 * CHUNK


class Watched(NamedTuple):
    r"""A condition that is to hold exactly, with a pool of points of its part (where it is data, its own points): there
    $r(x, 0) - y$ and $\partial r/\partial v$ at $v = 0$."""

    part: Part
    is_data: bool
    pool: Site
    at_zero: Float[np.ndarray, "pool equations"]
    gradient: Float[np.ndarray, "pool equations operators"]


class Looked(NamedTuple):
    """Points of a condition to look at, the first `num_own` of them among the `num_points` of the run, with right sides."""

    sites: Site
    rhs: Float[np.ndarray, "points equations"]
    num_own: int
    num_points: int


@dataclasses.dataclass(frozen=True)
class Residuals:
    """For each part and each of its equations the relative residual, at the run's own points and between them."""

    at_points: Mapping[str, Float[np.ndarray, " equations"]]
    between_points: Mapping[str, Float[np.ndarray, " equations"]]


def exact_conditions(problem: Problem, parts: Sequence[Part], seed: int) -> list[Watched]:
    """The conditions without noise that hold at points; a mean holds at none."""
    # A stream of its own: the run's points come from the seed itself.
    fresh = int(generator(seed, "between the points").integers(2**31))
    exact = [part for part in parts if not part.noisy and part.weights is None]
    readings = tuple(part.reading for part in exact)
    data = [part.name not in problem.domain.parts for part in exact]
    # A part may have fewer points, as the end of an interval.
    pools = [
        repeated(part.sites.map(np.asarray) if own else _drawn(problem, part, fresh), _NUM_POOL)
        for part, own in zip(exact, data, strict=True)
    ]
    zeros = [np.zeros((CHUNK, len(reading.operators))) for reading in readings]
    chunks = [slice(first, first + CHUNK) for first in range(0, _NUM_POOL, CHUNK)]
    # Numbers are fetched when all chunks are on their way.
    pieces = [_linearized(readings, tuple(pool.at(chunk) for pool in pools), tuple(zeros)) for chunk in chunks]
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *pieces)
    return [
        Watched(part, own, pool, residual - (repeated(np.asarray(part.rhs), _NUM_POOL) if own else 0.0), gradient)
        for part, own, pool, (residual, gradient) in zip(exact, data, pools, joined, strict=True)
    ]


def residuals(
    problem: Problem, conditions: Sequence[Watched], kernels: Kernels, predictor: AbstractPredictor
) -> Residuals | None:
    """How well a solution meets the conditions; None if it is not finite there."""
    dim, num_fields, extent = problem.domain.dim, len(problem.unknowns), problem.domain.extent
    sampled = [_sampled(condition) for condition in conditions]
    readings = tuple(condition.part.reading for condition in conditions)
    names = [condition.part.name for condition in conditions]
    # Where pieces need not fit together, each may satisfy the equations and all of them be wrong.
    whole = predictor.continuous or "interior" not in names
    steps = None if whole else _Steps.of(problem, kernels, sampled[names.index("interior")])
    columns = _columns(readings, dim, num_fields, along_axes=steps is not None)
    points = np.concatenate([s.sites.x for s in sampled] + ([] if steps is None else [steps.ends]))
    derivatives = predictor.raw_values([((field, ((alpha, 1.0),)),) for field, alpha in columns], points)
    if not np.isfinite(derivatives).all():
        return None
    tables = np.split(derivatives[: len(sampled) * CHUNK], len(sampled))
    matrices = [coefficient_matrix(reading.operators, columns) for reading in readings]
    where = [s.sites for s in sampled]
    values = [table @ matrix.T for table, matrix in zip(tables, matrices, strict=True)]
    at_zero = residuals_and_gradients(readings, where, [np.zeros_like(v) for v in values])
    found = residuals_and_gradients(readings, where, values)
    sizes = _sizes(derivatives, columns, extent, num_fields)
    at_points, between_points = {}, {}
    for index, (condition, s) in enumerate(zip(conditions, sampled, strict=True)):
        residual, gradient = found[index][0] - s.rhs, np.abs(found[index][1] @ matrices[index])
        source = np.abs(at_zero[index][0] - s.rhs)
        terms = np.where(np.isfinite(source), source, 0.0)
        terms += np.einsum("ped,pd->pe", gradient, np.abs(tables[index]) + sizes[None])
        name, own = condition.part.name, s.num_own
        at_points[name] = _relative(residual[:own], terms[:own])
        if condition.is_data:
            continue
        if steps is not None and name == "interior":
            gaps = steps.gaps(tables[index][own:], derivatives[-len(steps.ends) :], columns)
            residual[own:] = np.hypot(residual[own:], np.einsum("ped,pd->pe", gradient[own:], gaps))
        between_points[name] = _relative(residual[own:], terms[own:])
    return Residuals(at_points, between_points)


class _Steps(NamedTuple):
    r"""Short steps $h$ along one axis each, from points to others that another piece of the solution may describe.

    One smooth function has $u_h - u = \tfrac h2 (u' + u'_h) - \tfrac{h^2}{12} (u''_h - u'') + O(h^5)$ with $u_h = u(x + h)$; a
    gap $J$ beyond that is an error of about $J / h^k$ in a derivative of order $k$.
    """

    axis: Int[np.ndarray, " points"]
    length: Float[np.ndarray, " points"]
    ends: Float[np.ndarray, "points dim"]

    @classmethod
    def of(cls, problem: Problem, kernels: Kernels, sampled: Looked) -> "_Steps":
        """As long as points lie apart, but well below the lengthscale."""
        dim, start = problem.domain.dim, sampled.sites.x[sampled.num_own :]
        spacing = problem.domain.extent * sampled.num_points ** (-1 / dim)
        lengthscale = np.min([np.asarray(kernel.lengthscales(dim)) for kernel in kernels], axis=0)
        axis = np.arange(len(start)) % dim
        length = np.minimum(spacing, 0.25 * lengthscale)[axis]
        direction = np.eye(dim)[axis]
        length = np.where(problem.domain.contains(start + length[:, None] * direction), length, -length)
        return cls(axis, length, start + length[:, None] * direction)

    def gaps(
        self,
        start: Float[np.ndarray, "points derivatives"],
        end: Float[np.ndarray, "points derivatives"],
        columns: Sequence[Derivative],
    ) -> Float[np.ndarray, "points derivatives"]:
        """What the gaps amount to in every derivative."""
        rows, h, dim = np.arange(len(self.axis)), self.length, self.ends.shape[1]
        out = np.zeros_like(start)
        for field in {field for field, _ in columns}:
            place = [[columns.index((field, _along(axis, k, dim))) for axis in range(dim)] for k in range(3)]
            (u, u1, u2), (v, v1, v2) = ([t[rows, np.array(p)[self.axis]] for p in place] for t in (start, end))
            gap = np.abs(v - u - h / 2 * (u1 + v1) + h**2 / 12 * (v2 - u2))
            for column, (other, alpha) in enumerate(columns):
                order = np.array(alpha)[self.axis]
                if other == field:
                    out[:, column] = np.where(order > 0, gap / np.abs(h) ** order, 0.0)
        return out


def _drawn(problem: Problem, part: Part, seed: int) -> Site:
    """New points of a part."""
    return problem.sites(part.name, problem.sample_part(part.name, _NUM_POOL, seed=seed), normals=part.reading.takes_normal)


def _sampled(condition: Watched) -> Looked:
    sites, rhs = condition.part.sites.map(np.asarray), np.asarray(condition.part.rhs)
    if condition.is_data:
        return Looked(repeated(sites, CHUNK), repeated(rhs, CHUNK), CHUNK, len(rhs))
    rest = condition.at_zero[_NUM_UNIFORM:]
    strength = np.where(np.isfinite(rest), np.abs(rest), 0.0)
    strength = np.max(strength / np.maximum(strength.max(axis=0), 1e-300), axis=1)
    strong = _NUM_UNIFORM + np.argsort(-strength, kind="stable")[:_NUM_STRONG]
    new = condition.pool.at(np.concatenate([np.arange(_NUM_UNIFORM), strong]))
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves), repeated(sites, _NUM_OWN), new)
    return Looked(both, np.zeros((CHUNK, rhs.shape[1])), _NUM_OWN, len(rhs))


def repeated(rows: Any, num: int) -> Any:
    """`num` of the rows of every array, evenly, each several times where there are fewer."""
    return jax.tree.map(lambda leaf: leaf[np.linspace(0, len(leaf) - 1, num).round().astype(int)], rows)


def _columns(readings: Sequence[Reading], dim: int, num_fields: int, *, along_axes: bool) -> list[Derivative]:
    """The derivatives the equations are made of, the values of the fields first."""
    values: list[Derivative] = [(field, (0,) * dim) for field in range(num_fields)]
    others = {(field, alpha) for r in readings for operator in r.operators for field, terms in operator for alpha, _ in terms}
    if along_axes:
        others |= {(field, _along(axis, k, dim)) for field, _ in values for axis in range(dim) for k in (1, 2)}
    return values + sorted(others - set(values))


def _along(axis: int, times: int, dim: int) -> MultiIndex:
    return tuple(times * (a == axis) for a in range(dim))


def _sizes(
    derivatives: Float[np.ndarray, "points derivatives"],
    columns: Sequence[Derivative],
    extent: Float[np.ndarray, " dim"],
    num_fields: int,
) -> Float[np.ndarray, " derivatives"]:
    r"""$U_\alpha / \text{extent}^\alpha$. Where derivatives are taken a constant counts for a tenth: 300 K do not hide 1 K."""
    u = derivatives[:, :num_fields]
    size = np.abs(u).max(axis=0)
    variation = np.abs(u - u.mean(axis=0)).max(axis=0) + 0.1 * size
    return np.array([(variation if any(alpha) else size)[f] / np.prod(extent ** np.array(alpha)) for f, alpha in columns])


def _relative(
    residual: Float[np.ndarray, "points equations"], terms: Float[np.ndarray, "points equations"]
) -> Float[np.ndarray, " equations"]:
    """Root mean squares: a point where all terms vanish does no harm."""
    top, bottom = np.sqrt(np.mean(residual**2, axis=0)), np.sqrt(np.mean(terms**2, axis=0))
    relative = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return np.where(np.isfinite(top) & np.isfinite(bottom), relative, np.inf)


def residuals_and_gradients(
    readings: tuple[Reading, ...], sites: Sequence[Site], values: Sequence[np.ndarray]
) -> list[tuple[Float[np.ndarray, "points equations"], Float[np.ndarray, "points equations operators"]]]:
    r"""$r(x, v)$ and $\partial r/\partial v$ of every reading, each on `CHUNK` points."""
    found = _linearized(readings, tuple(s.map(on_device) for s in sites), tuple(map(on_device, values)))
    return [(np.asarray(residual), np.asarray(gradient)) for residual, gradient in found]


@eqx.filter_jit
def _linearized(
    readings: tuple[Reading, ...], sites: tuple[Site, ...], values: tuple[Array | np.ndarray, ...]
) -> list[tuple[Array, Array]]:
    def at(reading: Reading, site: Site, v: Array) -> tuple[Array, Array]:
        def twice(v: Array) -> tuple[Array, Array]:
            residual = reading.residual(site, v)
            return residual, residual

        gradient, residual = jax.jacfwd(twice, has_aux=True)(v)
        return residual, gradient

    return [jax.vmap(eqx.Partial(at, r))(s, v) for r, s, v in zip(readings, sites, values, strict=True)]
