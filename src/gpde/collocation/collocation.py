r"""A problem on points: functionals, residuals, right sides and the layout of the latent vector.

The latent vector $z$ holds $[\phi, u]$ operator by operator. The values $(L_k u)(x_i)$ that a condition needs lie at
`starts[k] + i`: slices, which fuse with the arithmetic around them where gathers do not.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.equations import Reading, Site, read
from gpde.equations.linear_operators import LinearOperator
from gpde.functionals.block_gram import BlockGram, Layout, add_diagonal, join_upper
from gpde.functionals.combinations import combined, total
from gpde.functionals.functionals import Functionals, measure
from gpde.machine.arrays import on_device
from gpde.problem.problem import Condition, PointsByPart, Problem


class Part(eqx.Module):
    """One condition on its points: at each of them or, with `weights`, on average over all."""

    name: str = eqx.field(static=True)
    reading: Reading = eqx.field(static=True)
    sites: Site
    starts: tuple[int, ...] = eqx.field(static=True)
    rhs: Float[Array, "points equations"]
    noise_variance: Float[Array, "points equations"]
    noisy: bool = eqx.field(static=True)
    weights: Float[Array, " points"] | None = None

    @property
    def points(self) -> Float[Array, "points dim"]:
        return self.sites.x

    @property
    def num_points(self) -> int:
        return self.points.shape[0]

    @property
    def num_equations(self) -> int:
        return len(self.reading.equations)

    @property
    def num_rows(self) -> int:
        """How often each equation holds: at every point, or once on average."""
        return self.num_points if self.weights is None else 1

    def row_values(self, table: Float[Array, "points equations"]) -> Float[Array, "rows equations"]:
        """What is given point by point, as often as the equations hold."""
        return table if self.weights is None else (self.weights @ table)[None]

    def row_table(self, coefficients: Float[Array, "points equations operators"]) -> "Table":
        """The rows with these coefficients at the points."""
        if self.weights is None:
            return Table(self.starts, coefficients)
        return Table(self.starts, self.weights[:, None, None] * coefficients, summed=True)

    @property
    def indices(self) -> Int[np.ndarray, "points operators"]:
        """Where its values lie in the latent vector."""
        return np.add.outer(np.arange(self.num_points), np.array(self.starts))

    def values(self, latent: Float[Array, " size"]) -> Float[Array, "points operators"]:
        """The latent values its equations look at."""
        return jnp.stack([latent[start : start + self.num_points] for start in self.starts], axis=1)

    def residual(self, values: Float[Array, "points operators"]) -> Float[Array, "points equations"]:
        r"""$f_i(z_i) - y_i$."""
        return jax.vmap(self.reading.residual)(self.sites, values) - self.rhs

    def gradient(self, values: Float[Array, "points operators"]) -> Float[Array, "points equations operators"]:
        r"""$a_i = \nabla f_i(z_i)$."""
        return jax.vmap(jax.jacfwd(self.reading.residual, argnums=1))(self.sites, values)

    def eliminated_values(self, values: Float[Array, "points operators"]) -> Float[Array, "points operators"]:
        r"""The values with those functionals that the equations can be solved for replaced: $f_i(z_i) = y_i$ holds."""
        chosen = jnp.asarray(self.reading.eliminated)
        matrix = jnp.asarray(self.reading.elimination_matrix)
        without = values.at[:, chosen].set(0.0)
        solved = jnp.linalg.solve(matrix, -self.residual(without).T).T
        return without.at[:, chosen].set(solved)


class RowTerms(NamedTuple):
    """One equation on the points of its part: for each operator, where its values lie and their coefficients; and whether the
    points make one row together."""

    terms: list[tuple[slice, Float[Array, " _"]]]
    summed: bool

    @property
    def size(self) -> int:
        return 1 if self.summed else len(self.terms[0][1])

    def collected(self, by_point: Float[Array, "points ..."]) -> Float[Array, "rows ..."]:
        """The rows of what is given point by point along the first axis."""
        return by_point.sum(axis=0, keepdims=True) if self.summed else by_point


class Table(eqx.Module):
    r"""The rows of $\Psi$ for one part: at each point and for each equation, coefficients $a$ on the point's latent values.
    With `summed` the points make one row together."""

    starts: tuple[int, ...] = eqx.field(static=True)
    coefficients: Float[Array, "points equations operators"]
    summed: bool = eqx.field(static=True, default=False)

    @property
    def num_points(self) -> int:
        return self.coefficients.shape[0]

    @property
    def terms(self) -> list[RowTerms]:
        places = [slice(start, start + self.num_points) for start in self.starts]
        return [
            RowTerms([(place, self.coefficients[:, e, k]) for k, place in enumerate(places)], self.summed)
            for e in range(self.coefficients.shape[1])
        ]


class Rows(eqx.Module):
    r"""The linearised equations $\Psi$, one sparse row per equation and point, in the order of every vector over equations."""

    tables: tuple[Table, ...]
    num_latent: int = eqx.field(static=True)

    @property
    def layout(self) -> Layout:
        return tuple((table.starts, table.num_points) for table in self.tables)

    def times(self, matrix: Float[Array, "size columns"]) -> Float[Array, "equations columns"]:
        r"""$\Psi A$."""
        return jnp.concatenate(
            [rows.collected(total(a[:, None] * matrix[place] for place, a in rows.terms)) for rows in self._terms]
        )

    def transpose_times(self, vector: Float[Array, " equations"]) -> Float[Array, " size"]:
        r"""$\Psi^T c$."""
        out = jnp.zeros(self.num_latent)
        offset = 0
        for rows in self._terms:
            for place, a in rows.terms:
                out = out.at[place].add(a * vector[offset : offset + rows.size])
            offset += rows.size
        return out

    def conditioned(
        self, matrix: Float[Array, "size size"] | BlockGram, noise: Float[Array, " equations"]
    ) -> Float[Array, "equations equations"]:
        r"""$\Psi K \Psi^T + \Lambda$ in one pass over $K$, with zeros below the blocks on its diagonal.

        A factorisation reads the upper triangle alone (`cholesky.factor`); so must everything else.
        """
        equations = []
        start = 0
        for rows in self._terms:
            equations.append((start, rows, noise[start : start + rows.size]))
            start += rows.size
        blocks, block = {}, _blocks_of(matrix)
        for (i, left, own), (j, right, _) in itertools.combinations_with_replacement(equations, 2):
            if (by_point := combined(block, left.terms, right.terms)) is not None:
                covariances = right.collected(left.collected(by_point).T).T
                blocks[i, j] = add_diagonal(covariances, own) if i == j else covariances
        return join_upper(blocks)

    def conditioned_diagonal(self, matrix: Float[Array, "size size"] | BlockGram) -> Float[Array, " equations"]:
        r"""$\mathrm{diag}\,\Psi K \Psi^T$, from the entries at each point alone; of a row that sums, from all of its points."""
        block = _blocks_of(matrix)
        return jnp.concatenate(
            [
                total(
                    jnp.reshape(a @ found @ b, (1,)) if rows.summed else a * jnp.diagonal(found) * b
                    for place, a in rows.terms
                    for other, b in rows.terms
                    if (found := block(place, other)) is not None
                )
                for rows in self._terms
            ]
        )

    @property
    def _terms(self) -> list[RowTerms]:
        """Equation by equation, in the order of every vector over equations."""
        return [terms for table in self.tables for terms in table.terms]


class Linearization(eqx.Module):
    r"""The equations at $z$: $\Psi z' = b$ with rows $a_i = \nabla f_i(z_i)$, $b_i = y_i - f_i(z_i) + a_i \cdot z_i$."""

    rows: Rows
    rhs: Float[Array, " equations"]


class Collocation(eqx.Module):
    """A problem on points."""

    functionals: Functionals
    parts: tuple[Part, ...]
    num_fields: int = eqx.field(static=True)

    @property
    def num_points(self) -> int:
        return sum(p.num_points for p in self.parts)

    @property
    def num_equations(self) -> int:
        return sum(p.num_rows * p.num_equations for p in self.parts)

    @property
    def layout(self) -> Layout:
        return tuple((group[0].starts, sum(p.num_points for p in group)) for group in self._groups)

    @property
    def _groups(self) -> list[list[Part]]:
        """Parts that follow one another and have one equation with the same operators: in every vector they are as one.

        Many small sets of data, or a condition stated side by side, are then no more work than one.
        """
        places = enumerate(self.parts)
        runs = itertools.groupby(places, lambda p: p[1].reading.operators if _joins(p[1]) else p[0])
        return [[part for _, part in run] for _, run in runs]

    @property
    def order(self) -> int:
        return max(p.reading.order for p in self.parts)

    @property
    def linear(self) -> bool:
        """Whether one Gauss-Newton step solves it."""
        return all(kind.linear for p in self.parts for kind in p.reading.kinds)

    @property
    def linear_equations(self) -> Bool[np.ndarray, " equations"]:
        """Which equations have coefficients that do not depend on the latent values."""
        return np.concatenate([np.repeat([kind.linear for kind in p.reading.kinds], p.num_rows) for p in self.parts])

    @property
    def can_eliminate(self) -> bool:
        return all(p.reading.eliminated is not None for p in self.parts if not p.noisy)

    @property
    def noise_variance(self) -> Float[Array, " equations"]:
        return _flat([p.row_values(p.noise_variance) for p in self.parts])

    @property
    def noisy(self) -> Bool[np.ndarray, " equations"]:
        """Which equations are noisy observations: never eliminated, always weighted by their variance."""
        return np.concatenate([np.full(p.num_rows * p.num_equations, p.noisy) for p in self.parts])

    def residual(self, latent: Float[Array, " size"]) -> Float[Array, " equations"]:
        r"""$f(z) - y$, part by part, equation by equation, point by point."""
        return _flat([p.row_values(p.residual(p.values(latent))) for p in self.parts])

    def linearize(self, latent: Float[Array, " size"]) -> Linearization:
        tables, moved = [], []
        for group in self._groups:
            coefficients = []
            for part in group:
                values = part.values(latent)
                coefficients.append(a := part.gradient(values))
                moved.append(part.row_values(jnp.einsum("ped,pd->pe", a, values) - part.residual(values)))
            tables.append(group[0].row_table(jnp.concatenate(coefficients)))
        return Linearization(Rows(tuple(tables), self.functionals.size), _flat(moved))

    def eliminate(self, latent: Float[Array, " size"]) -> Float[Array, " size"]:
        """The nearest latent vector of the form elimination works with: the equations hold exactly."""
        for part in self.parts:
            if not part.noisy:
                latent = latent.at[part.indices].set(part.eliminated_values(part.values(latent)))
        return latent

    def measure(self, fields: Sequence[Callable[[Array], Any]]) -> Float[Array, " size"]:
        r"""$[\phi, u]$ of given functions."""
        return measure(self.functionals, fields)


def collocate(problem: Problem, points: PointsByPart, functionals: str = "minimal") -> Collocation:
    """The problem on these points. `functionals="derivatives"` keeps every derivative apart, as the paper does."""
    if functionals not in ("minimal", "derivatives"):
        raise ValueError(f"`functionals` must be 'minimal' or 'derivatives', not {functionals!r}.")
    conditions = problem.conditions if functionals == "minimal" else problem.derivative_conditions
    conditions = [part for condition in conditions for part in _split(condition)]
    located = [_located(condition, points, problem, functionals) for condition in conditions]
    operators: dict[LinearOperator, list[int]] = {}
    for index, (condition, _) in enumerate(located):
        for operator in condition.reading.operators:
            operators.setdefault(operator, []).append(index)
    # The latent vector: for each operator the points of every condition that uses it.
    offset = 0
    start: dict[tuple[LinearOperator, int], int] = {}
    groups = []
    for operator, users in operators.items():
        for index in users:
            start[operator, index] = offset
            offset += located[index][1].num_points
        groups.append(on_device(np.concatenate([located[index][1].x for index in users])))
    parts = []
    for index, (condition, sites) in enumerate(located):
        shape = (sites.num_points, len(condition.reading.equations))
        data = condition.observations
        rhs = np.zeros(shape) if data is None else np.broadcast_to(data.values[:, None], shape)
        noise = np.zeros(shape) if data is None else np.broadcast_to(np.asarray(data.noise)[:, None] ** 2, shape)
        parts.append(
            Part(
                name=condition.part,
                reading=condition.reading,
                sites=sites.map(on_device),
                starts=tuple(start[o, index] for o in condition.reading.operators),
                rhs=on_device(rhs),
                noise_variance=on_device(noise),
                noisy=bool(np.any(noise > 0)),
                weights=None if condition.weights is None else jnp.asarray(condition.weights),
            )
        )
    return Collocation(Functionals(tuple(operators), tuple(groups)), tuple(parts), len(problem.unknowns))


def _blocks_of(matrix: Float[Array, "size size"] | BlockGram) -> Callable[[slice, slice], Array | None]:
    """The covariances of one operator on a part with another on a part, by where their values lie; None where they are zero."""
    if isinstance(matrix, BlockGram):
        return lambda rows, columns: matrix.between(rows.start, columns.start)
    return lambda rows, columns: matrix[rows, columns]


def _joins(part: Part) -> bool:
    """Whether a part can be as one with others that look at the same operators."""
    return part.num_equations == 1 and part.weights is None


def _split(condition: Condition) -> list[Condition]:
    """A condition, with exact and noisy data apart."""
    if condition.observations is None or len(pieces := condition.observations.split()) == 1:
        return [condition]
    named = zip(("exact", "noisy"), pieces, strict=True)
    return [dataclasses.replace(condition, part=f"{condition.part}, {kind}", observations=data) for kind, data in named]


def _located(condition: Condition, points: PointsByPart, problem: Problem, functionals: str) -> tuple[Condition, Site]:
    """The condition and where it holds. It is read again with the actual sites as probes where those need an operator that the
    first probes did not show (a coefficient that vanished at all of them)."""
    reading, data = condition.reading, condition.observations
    if data is None:
        sites = problem.sites(condition.part, points[condition.part], normals=reading.takes_normal)
    else:
        sites = Site(data.points)
    if reading.covers(sites):
        return condition, sites
    again = read(
        reading.equations, problem.unknowns, sites,
        units=reading.units, functionals=functionals, num_probes=sites.num_points,
    )  # fmt: skip
    return dataclasses.replace(condition, reading=again if condition.weights is None else again.averaged()), sites


def _flat(tables: Sequence[Float[Array, "_ _"]]) -> Float[Array, " equations"]:
    """Part by part, equation by equation, point by point: the order of every vector over equations."""
    return jnp.concatenate([table.T.reshape(-1) for table in tables])
