r"""Batches of points: a point-major view of a collocation with fixed shapes, and covers by patches.

A collocation stores its latent vector operator by operator and part by part. A batch mixes points of several parts, so here
every point gets one row with a slot for each operator that occurs anywhere and each equation that any point has; slots a
point does not use are masked.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.collocation import Collocation, Part
from gpde.equations import Site
from gpde.equations.linear_operators import LinearOperator, point_value
from gpde.machine.arrays import on_device


class PointTable(eqx.Module):
    """All points of a collocation, one row each, part after part.

    `latent` indexes the latent vector with one dummy entry appended, to which slots without a latent value point: unused
    ones, and values of fields that no equation at the point looks at and that are carried along (`active`).
    """

    collocation: Collocation
    operators: tuple[LinearOperator, ...] = eqx.field(static=True)
    points: Float[Array, "points dim"]
    normals: Float[Array, "points dim"] | None
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
        return _gathered(latent, self.latent)

    def scatter(self, values: Float[Array, "points operators"]) -> Float[Array, " size"]:
        """The latent vector of values by point."""
        return _scattered(values, self.latent, self.collocation.functionals.size)

    # What follows is for one point: `index` is its row, `values` its slots.

    def residual(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, " equations"]:
        r"""$f_i(z_i) - y_i$; zero in slots without an equation."""
        branches = [self._branch(part, self.num_equations) for part in self._parts]
        raw = _chosen(self.part[index], [branch(self._site(part, index), values) for part, branch in branches])
        return jnp.where(self.has_equation[index], raw - self.rhs[index], 0.0)

    def gradient(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, "equations operators"]:
        r"""$\nabla f_i(z_i)$; zero rows in slots without an equation."""
        return jax.jacfwd(self.residual, argnums=1)(index, values)

    def eliminate(self, index: Int[Array, ""], values: Float[Array, " operators"]) -> Float[Array, " operators"]:
        """The values with the functionals the point's equations can be solved for replaced, so that they hold."""
        branches = [self._elimination(part) for part in self._parts]
        options = [branch(self._site(part, index), values, self.rhs[index]) for part, branch in branches]
        return _chosen(self.part[index], options)

    def _site(self, part: Part, index: Int[Array, ""]) -> Site:
        """What the equations of a part are told of a point."""
        normals = self.normals if part.reading.takes_normal else None
        return Site(self.points[index], None if normals is None else normals[index])

    @property
    def _parts(self) -> tuple[tuple[Part, tuple[int, ...]], ...]:
        """Each part with the slots its operators occupy."""
        slots = {operator: k for k, operator in enumerate(self.operators)}
        return tuple((p, tuple(slots[o] for o in p.reading.operators)) for p in self.collocation.parts)

    @staticmethod
    def _branch(located, width):
        part, slots = located

        def branch(site: Site, values: Array) -> Array:
            out = part.reading.residual(site, jnp.stack([values[s] for s in slots]))
            return jnp.pad(out, (0, width - out.shape[0]))

        return part, branch

    @staticmethod
    def _elimination(located):
        part, slots = located
        reading = part.reading

        def branch(site: Site, values: Array, rhs: Array) -> Array:
            if reading.eliminated is None or part.noisy:
                return values
            # Entry by entry: a few static slots need no gather and no scatter.
            own = [values[s] for s in slots]
            without = [jnp.zeros_like(v) if k in reading.eliminated else v for k, v in enumerate(own)]
            gap = rhs[: len(reading.equations)] - reading.residual(site, jnp.stack(without))
            inverse = np.linalg.inv(np.asarray(reading.elimination_matrix))
            for k, row in zip(reading.eliminated, inverse, strict=True):
                for e, c in enumerate(row):
                    without[k] = without[k] + float(c) * gap[e]
            new = dict(zip(slots, without, strict=True))
            return jnp.stack([new.get(s, values[s]) for s in range(values.shape[0])])

        return part, branch


def _chosen(index: Int[Array, ""], options: list[Array]) -> Array:
    """One of several arrays. All are computed, which is what `lax.switch` comes to over many points."""
    out = options[0]
    for k, option in enumerate(options[1:], start=1):
        out = jnp.where(index == k, option, out)
    return out


@jax.jit
def _gathered(latent: Float[Array, " size"], index: Int[Array, "points operators"]) -> Float[Array, "points operators"]:
    return jnp.append(latent, 0.0)[index]


@functools.partial(jax.jit, static_argnames="size")
def _scattered(
    values: Float[Array, "points operators"], index: Int[Array, "points operators"], size: int
) -> Float[Array, " _"]:
    return jnp.zeros(size + 1).at[index].set(values)[:size]


@eqx.filter_jit
def all_residuals(table: PointTable, values: Float[Array, "points operators"]) -> Float[Array, "points equations"]:
    r"""$f(z) - y$ at every point."""
    return jax.vmap(table.residual)(jnp.arange(table.num_points), values)


def table_operators(collocation: Collocation, *, carry_values: bool = False) -> tuple[LinearOperator, ...]:
    """The operators that a point has slots for; with `carry_values` the value of every field is one, and these come first."""
    operators = collocation.functionals.operators
    carried = field_values(collocation) if carry_values else ()
    return (*carried, *(operator for operator in operators if operator not in carried))


def field_values(collocation: Collocation) -> tuple[LinearOperator, ...]:
    """The value of each field, as operators."""
    dim = collocation.functionals.points[0].shape[1]
    return tuple(point_value(field, dim) for field in range(collocation.num_fields))


def point_table(collocation: Collocation, *, carry_values: bool = False) -> PointTable:
    """The point-major view of a collocation; with `carry_values` every point has a slot for the value of every field."""
    operators = table_operators(collocation, carry_values=carry_values)
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
        has_equation[rows, : part.num_equations] = part.weights is None  # a mean holds at no point alone
        first += part.num_points
    active = latent < collocation.functionals.size
    if carry_values:
        active[:, [slots[value] for value in field_values(collocation)]] = True
    return PointTable(
        collocation=collocation,
        operators=operators,
        points=on_device(np.concatenate([p.points for p in collocation.parts])),
        normals=_normals(collocation),
        part=on_device(np.repeat(np.arange(len(collocation.parts)), [p.num_points for p in collocation.parts])),
        latent=on_device(latent),
        active=on_device(active),
        rhs=on_device(rhs),
        noise_variance=on_device(noise),
        has_equation=on_device(has_equation),
    )


def _normals(collocation: Collocation) -> Float[Array, "points dim"] | None:
    """The normals of those points that have one, zero elsewhere; None where no equation asks for them."""
    normals = [p.sites.normal for p in collocation.parts]
    if all(normal is None for normal in normals):
        return None
    known = [np.zeros(p.points.shape) if n is None else np.asarray(n) for p, n in zip(collocation.parts, normals, strict=True)]
    return on_device(np.concatenate(known))
