r"""Proximal weights that raise themselves.

With a weight $\gamma$ the iterates first travel and then scatter, by an amount that falls as $\gamma$ grows. While they travel
the changes over two sweeps have the same direction; when they scatter, $z^{k+1} - z^k$ and $z^k - z^{k-1}$ share $z^k$ with
opposite signs and their product is negative: Pflug's sign that a stochastic iteration has come to rest (Non-asymptotic
confidence bounds for stochastic approximation algorithms with constant step size, 1990). Then the weight is raised; and where
changes keep their direction and have stopped falling all the same, for what no batch sees drifts with every sweep. A sweep is
one step around each point.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gpde.collocation.neighbours import NeighbourIndex
from gpde.collocation.point_table import PointTable
from gpde.machine.arrays import on_device
from gpde.methods.mini_batch.factor_cache import FactorCache
from gpde.methods.mini_batch.proximal import Anchors, ProximalProblem
from gpde.methods.mini_batch.rungs import Rung, refined
from gpde.methods.mini_batch.schedules import Raising

# A coarse set of points is left when the weight would be raised so often, and after so many sweeps at the latest.
_RAISES_ON_COARSE = 1
_SWEEPS_ON_COARSE = 20
# In units of λ and the prior, where nothing is known of the values that a run starts from. It hardly matters.
_FIRST_WEIGHT = 1e4
# In units of λ and the prior: beyond it a weight on the rim is lost in rounding.
_LARGEST_ON_RIM = 1e16
# Changes that do not fall to this share within so many sweeps have stopped falling.
_FALLING, _WINDOW = 0.8, 3
# A sweep that moves so many times what the one before moved goes astray.
_ASTRAY = 10.0


class Begun(eqx.Module):
    """Where sweeps begin: the fields, and at which points values have been found."""

    values: Float[Array, "points fields"]
    found: Bool[Array, " points"]


class Phase(eqx.Module):
    """Where a run is: how many finer sets of points there are, its weight and that of rims in units of it, the sweeps done in
    all and on this set, the steps of this one, how often the weight was raised on this set, how far the last sweeps with it
    moved, at which points values have been found, where sweeps on this set began, the fields when this one did, and the change
    over the one before it (None on a new set)."""

    finer: int
    weight: float
    ratio: float
    num_sweeps: int
    num_sweeps_here: int
    num_steps: int
    num_raises: int
    moves: tuple[float, ...]
    found: Bool[Array, " points"]
    begun: Begun
    values: Float[Array, "points fields"]
    change: Float[Array, "points fields"] | None

    def again(self, begun: Begun, num_sweeps: int, **changed: Any) -> "Phase":
        """The same phase with sweeps that begin anew."""
        return dataclasses.replace(
            self, num_sweeps=num_sweeps, num_sweeps_here=0, num_steps=0, num_raises=0, moves=(), found=begun.found, begun=begun,
            values=begun.values, change=None, **changed,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Course:
    """The way of a run whose weights raise themselves: which batches a sweep takes, and what comes after it. `depth` is how far
    points are from those whose values are known."""

    problem: ProximalProblem
    coordinates: Float[np.ndarray, "points coordinates"]
    batches: Int[np.ndarray, "batches batch"]
    depth: Float[np.ndarray, " points"] | None
    rungs: tuple[Rung, ...]
    cache: FactorCache | None
    raising: Raising
    tolerance: float
    replacement: bool
    nugget: float
    max_escalations: int

    def begin(self, values: Float[Array, "points operators"], num_seen: int = 0, known: float = 0.0) -> Phase:
        """The first sweep: from values that come from so many points it is over the coarsest set with twice as many, or over
        all points; from none on the coarsest set. What is known of these values is a weight, in units of the prior. A batch
        of all points has nothing to hold on to."""
        alone = self.rungs[-1].rows.num == 1
        first = max(_FIRST_WEIGHT, known) if self.raising.first is None else self.raising.first
        weight = 0.0 if alone else first * float(self.problem.regularization)
        metric, fields = self.problem.metric, self._fields(values)
        ratio = float(metric.ratio) if isinstance(metric, Anchors) else 1.0
        found = on_device(np.full(len(values), num_seen > 0))
        finer = sum(len(rung.points) >= 2 * num_seen for rung in self.rungs[:-1])
        return Phase(finer, weight, ratio, 0, 0, 0, 0, (), found, Begun(fields, found), fields, None)

    def rung(self, phase: Phase) -> Rung:
        return self.rungs[-1 - phase.finer]

    def rows(self, phase: Phase, seed: int) -> Int[np.ndarray, " steps"]:
        """The batches left of a sweep, rows of the table: it takes each of its set's once, or as many drawn independently. The
        first sweep of all goes from the points whose values are known to those farthest from them."""
        rng, (first, num) = np.random.default_rng([seed, phase.num_sweeps]), self.rung(phase).rows
        if phase.num_sweeps == 0 and self.depth is not None and not self.replacement:
            return first + np.argsort(self.depth[self.rung(phase).points][:num], kind="stable")[phase.num_steps :]
        return first + (rng.integers(num, size=num) if self.replacement else rng.permutation(num))[phase.num_steps :]

    def after(
        self, phase: Phase, values: Float[Array, "points operators"], found: Bool[Array, " points"], num_steps: int
    ) -> tuple[Phase, Float[Array, "points operators"], dict[str, Any] | None, bool]:
        """The phase after so many steps more, and its values; where that ended a sweep, what it did, and whether it was the
        last."""
        num_steps += phase.num_steps
        if num_steps < self.rung(phase).rows.num:
            return dataclasses.replace(phase, num_steps=num_steps, found=found), values, None, False
        change, moved, before, travelling = self._change(phase, values)
        moves = (*phase.moves[-_WINDOW:], moved)
        travelling &= not (len(moves) > _WINDOW and moved > _FALLING * moves[0])
        told = {"weight": phase.weight, "num_points": len(self.rung(phase).points), "change": moved}
        if not moved <= _ASTRAY * before and (back := self.back(phase, values)) is not None:
            return *back, told, False
        largest = _LARGEST_ON_RIM * float(self.problem.regularization) / phase.ratio
        done = moved <= self.tolerance or (not travelling and phase.weight >= largest)
        if phase.finer:
            done |= not travelling and phase.num_raises >= _RAISES_ON_COARSE
            done |= phase.num_sweeps_here + 1 >= _SWEEPS_ON_COARSE
        if done and phase.finer:
            values = self._on_finer(phase, values)
            known = np.array(found)
            known[self.rungs[-phase.finer].points] = True
            begun = Begun(self._fields(values), on_device(known))
            return phase.again(begun, phase.num_sweeps + 1, finer=phase.finer - 1), values, told, False
        raised = not travelling and not done
        if raised or not np.asarray(phase.found)[self.rung(phase).points].all():
            change = None  # a sweep from nothing, or at another weight, has no direction that the next could go on in
        after = dataclasses.replace(
            phase,
            weight=min(phase.weight * self.raising.factor, largest) if raised else phase.weight,
            num_sweeps=phase.num_sweeps + 1,
            num_sweeps_here=phase.num_sweeps_here + 1,
            num_steps=0,
            num_raises=phase.num_raises + raised,
            moves=() if raised else moves,
            found=found,
            values=self._fields(values),
            change=change,
        )
        return after, values, told, done

    def back(
        self, phase: Phase, values: Float[Array, "points operators"]
    ) -> tuple[Phase, Float[Array, "points operators"]] | None:
        """The phase and the values with which sweeps on this set of points began, for a run that went astray: once more, with
        one weight for all of a batch. None where that is the case already: a step with one weight moves no two iterates apart,
        and there is nothing else to try."""
        if phase.ratio == 1:
            return None
        begun = phase.begun
        known = np.array(values)
        known[~np.isfinite(known)] = 0.0
        known[:, : begun.values.shape[1]] = begun.values
        values = eqx.filter_jit(self.problem.retract)(on_device(np.arange(len(known))), on_device(known))
        return phase.again(begun, phase.num_sweeps + 1, ratio=1.0), values

    def _change(
        self, phase: Phase, values: Float[Array, "points operators"]
    ) -> tuple[Float[Array, "points fields"], float, float, bool]:
        """The change over a sweep, its root mean square relative to the size of each field and that of the one before, and
        whether it went on with that."""
        own, fields = on_device(self.rung(phase).points), self._fields(values)
        change, moved, before, along = _compared(own, fields, phase.values, phase.change)
        return change, float(moved), float(before), along is None or float(along) > 0

    def on_finest(self, phase: Phase, values: Float[Array, "points operators"]) -> Float[Array, "points operators"]:
        """Values at all points, predicted from those of the set of points that a run is on."""
        while phase.finer:
            values = self._on_finer(phase, values)
            phase = dataclasses.replace(phase, finer=phase.finer - 1)
        return values

    def _on_finer(self, phase: Phase, values: Float[Array, "points operators"]) -> Float[Array, "points operators"]:
        coarse, fine = self.rung(phase), self.rungs[-phase.finer]
        factors = None if self.cache is None else self.cache.at(phase.weight, coarse.rows)
        return refined(
            self.problem, self.coordinates, self.batches, coarse, fine, factors, values, phase.weight, self.nugget,
            self.max_escalations,
        )  # fmt: skip

    def _fields(self, values: Float[Array, "points operators"]) -> Float[Array, "points fields"]:
        """The values of the fields: the first of a point's latent values."""
        return values[:, : self.problem.table.collocation.num_fields]


@jax.jit
def _compared(
    own: Int[Array, " some"],
    fields: Float[Array, "points fields"],
    old: Float[Array, "points fields"],
    earlier: Float[Array, "points fields"] | None,
) -> tuple[Float[Array, "points fields"], Float[Array, ""], Float[Array, ""] | float, Float[Array, ""] | None]:
    """The change of the fields, its root mean square at some points and that of an earlier one, and their product."""
    size = jnp.sqrt(jnp.mean(fields[own] ** 2, axis=0))
    change, unit = fields - old, jnp.where(size > 0, size, 1.0)[None]

    def moved(by: Array) -> Array:
        return jnp.sqrt(jnp.mean((by[own] / unit) ** 2))

    if earlier is None:
        return change, moved(change), np.inf, None
    return change, moved(change), moved(earlier), jnp.sum(change * earlier / unit**2)


def depth(coordinates: Float[np.ndarray, "points coordinates"], table: PointTable) -> Float[np.ndarray, " points"] | None:
    """How far points are from those whose value an equation fixes; None where there are none."""
    parts = table.collocation.parts
    known = [k for k, part in enumerate(parts) if not part.noisy and any(kind.dirichlet for kind in part.reading.kinds)]
    fixed = np.isin(np.asarray(table.part), known)
    return NeighbourIndex(coordinates[fixed]).nearest(coordinates, 1)[0][:, 0] if fixed.any() else None
