r"""Consensus: the mini-batch objective minimised exactly, over all patches at once.

Algorithm 1 samples $F(z) = E_I[\min_u \varphi(u, z; I)]$: each batch has its own local $u$, all batches share $z$. Here the
batches are a cover by patches $c$ that share the values $w_i = u(x_i)$. With the equations linearised, a patch's minimum is
$(w_c - m_c)^T S_c^{-1} (w_c - m_c)$ (`patch.py`), so one Gauss-Newton step is one sparse positive definite system

$$ H \,\Delta w = -\sum_c R_c^T S_c^{-1} (w_c - m_c), \qquad H = \sum_c R_c^T S_c^{-1} R_c , $$

over the values that no Dirichlet condition fixes. Then each point takes its operators' values from the patch that owns it and
the equations are linearised anew. Nothing is sampled, so there is no statistical error.
"""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.arguments import named_constructor
from gpde.collocation.cover import Cover, cover
from gpde.collocation.neighbours import Metric
from gpde.collocation.point_table import PointTable, point_table
from gpde.collocation.thinning import nested_subsets
from gpde.equations.linear_operators import point_value
from gpde.linalg import AbstractLinearSolver, Direct, Schwarz, Solved
from gpde.linalg.dissection import factor_entries
from gpde.linalg.line_search import is_astray, next_move
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractMethod, AbstractPredictor, Info, Setup, check_count, check_positive, round_down
from gpde.methods.coarse import Coarse, coarse_start
from gpde.methods.consensus.linearization import fixed_values, linearized, shortened, starting_values, value_slots
from gpde.methods.consensus.means import check_means, means_at
from gpde.methods.consensus.patch import Equations
from gpde.methods.consensus.prediction import BlendedPatches
from gpde.methods.consensus.reach import default_num_patches, num_levels, num_members
from gpde.methods.consensus.stretch import learned_stretch
from gpde.methods.consensus.system import LARGEST_FACTOR, OpenValues, localize_patches, on_means, reduce_patches, value_rows
from gpde.methods.start import Start, linear_start
from gpde.outcomes import Outcome

LINEAR_SOLVERS = ("direct", "schwarz")
# Steps below this, relative to the solution, may be all rounding.
_ROUNDING_MOVE = 1e-4
# A residual that grows by less than this factor stays level.
_LEVEL = 1.1
# Steps above the first are rough: patches learn their lengthscales, boldly in the first few, and not after many, where points
# are too few for that. At rest they do so three times, and five if what they learn moves values by more than the second.
_ROUGH_MOVE, _SETTLED_MOVE, _FIRST_STEPS, _ROUGH_STEPS = 1e-2, 3e-4, 3, 24
_ROUNDS, _MOST_ROUNDS = 3, 5
# With other lengthscales than before the residual of a step that leads on may be larger by this factor.
_TURN = 10.0
# Points from which on a coarse solve costs less than the steps it saves.
_NESTED_FROM = 3000


@dataclasses.dataclass
class Work:
    """The points by row, where they lie in the metric of nearness, which values Dirichlet conditions fix, the cover, the values
    left open, the linear solver, what it kept of the last matrix, whether patches have lengthscales of their own, and the
    coarse solution from which the run started."""

    setup: Setup
    table: PointTable
    metric: Metric
    coordinates: Float[np.ndarray, "points coordinates"]
    fixed: Bool[np.ndarray, "points fields"]
    cover: Cover
    open_values: OpenValues
    solver: AbstractLinearSolver
    kept: Any
    local: bool = False
    coarse: Coarse | None = None


class State(NamedTuple):
    """The values at the points, field by field, the operators' values by point, and each patch's nugget, lengthscales (as
    factors on the kernel's) and function; how far the last step went, how many there were since the start; how often patches
    at rest learned their lengthscales anew, whether they do so next, and how far that moved the values last."""

    values: Float[np.ndarray, "points fields"]
    latent_table: Float[Array, "points operators"]
    nuggets: Float[np.ndarray, " patches"]
    stretch: Float[np.ndarray, "patches dim"]
    weights: Float[np.ndarray, "patches members slots"] | None
    move: float
    linear_residual: float
    num_steps: int = 0
    rounds: int = 0
    resting: bool = False
    turned: float = math.inf


@named_constructor
class Consensus(AbstractMethod):
    """All patches at once.

    **Arguments:**

    - `batch_size`: points per patch. Larger is closer to the full GP and costs its cube. Where points are dense against the
      lengthscale and the equations of high order, half of them are the nearest and as many again lie farther out (`reach.py`).
    - `num_patches`: None takes every point as a centre for small problems and fewer, relative to their number, for large ones.
    - `max_steps`, `tolerance`: Gauss-Newton ends when the next step, shrinking as the last one did, would move no value by more
      than `tolerance` times the largest.
    - `linear_solver`: `"direct"`, `"schwarz"`, a solver object, or None: direct while its factor is small.
    - `linear_tolerance`: relative residual asked of the linear solver; each step corrects what the last one left.
    - `scaled_neighbours`: whether nearness is measured in units of the kernel's lengthscales.
    - `known_share`: of a patch, at most this share are points whose values a Dirichlet condition gives; the nearest others
      take their place. 1 takes the nearest points whatever they are.
    - `max_escalations`: how often a patch's nugget may be raised tenfold.
    - `max_halvings`: how far the line search on the equations' residual shortens a step.
    - `local_lengthscales`: whether every patch learns lengthscales of its own (`stretch.py`), as a front in a smooth field
      asks for; None: where the kernel is learned.
    """

    name: ClassVar[str] = "consensus"
    takes_means: ClassVar[bool] = True
    largest_default_nugget: ClassVar[float] = 1e-12
    batch_size: int = 64
    num_patches: int | None = None
    max_steps: int = 100
    tolerance: float = 1e-6
    linear_solver: str | AbstractLinearSolver | None = None
    linear_tolerance: float = 1e-8
    scaled_neighbours: bool = True
    known_share: float = 0.25
    max_escalations: int = 5
    max_halvings: int = 20
    local_lengthscales: bool | None = None

    def __check_init__(self) -> None:
        check_count("Consensus", "batch_size", self.batch_size, least=2)
        check_count("Consensus", "max_steps", self.max_steps, least=1)
        check_count("Consensus", "max_escalations", self.max_escalations)
        check_count("Consensus", "max_halvings", self.max_halvings)
        check_positive("Consensus", "tolerance", self.tolerance)
        check_positive("Consensus", "known_share", self.known_share)
        check_positive("Consensus", "linear_tolerance", self.linear_tolerance)
        if self.num_patches is not None:
            check_count("Consensus", "num_patches", self.num_patches, least=1)
        if isinstance(self.linear_solver, str) and self.linear_solver not in LINEAR_SOLVERS:
            raise ValueError(
                f"`Consensus`: `linear_solver` must be one of {LINEAR_SOLVERS} or a solver object; came {self.linear_solver!r}."
            )

    def check(self, setup: Setup) -> None:
        check_means(setup)

    def memory(self, setup: Setup) -> float:
        """The patches' precisions, twice while they are joined, and what the linear solver makes of them."""
        num_points, fields = setup.collocation.num_points, setup.collocation.num_fields
        size, dim = num_points * fields, setup.collocation.parts[0].points.shape[1]
        reach = num_levels(setup.collocation, setup.kernels, self.batch_size)
        width = min(num_members(self.batch_size, reach), num_points) * fields
        num_patches = 1 if self.batch_size >= num_points else self.num_patches or default_num_patches(num_points)
        entries = num_patches * width**2
        slots = len(setup.collocation.functionals.operators) + fields
        # The patches' weights before and after a step and between the two; a dozen tables over the points.
        rest = 8.0 * (4 * num_patches * width * slots + 12 * num_points * slots)
        factor = factor_entries(size, width, dim)
        direct, schwarz = 8 * (entries + 2 * max(entries, factor)), Schwarz().memory(entries, size, dim)
        match self.linear_solver:
            case None if factor <= LARGEST_FACTOR / 2:
                return rest + direct
            case None:  # either of them; beyond the largest factor, surely the second
                return rest + (schwarz if factor > 2 * LARGEST_FACTOR else max(direct, schwarz))
            case "schwarz":
                return rest + schwarz
            case Schwarz():
                return rest + self.linear_solver.memory(entries, size, dim)
        return rest + direct

    def memory_advice(self, setup: Setup, available: float) -> str:
        num_points, needed = setup.collocation.num_points, self.memory(setup)
        sizes = [size for size in (48, 32, 24, 16) if size < self.batch_size]
        smaller = [dataclasses.replace(self, batch_size=size) for size in sizes]
        fitting = next((method.batch_size for method in smaller if method.memory(setup) <= available), None)
        # At most linear: memory grows a little faster than the number of points.
        advice = f"It fits up to about {round_down(num_points * available / needed)} points here"
        if fitting is not None:
            advice += f", or with `batch_size={fitting}` (--batch-size {fitting}), less accurate"
        return f"{advice}. Fewer patches (`num_patches`, --num-patches) take less too, in proportion."

    def prepare(self, setup: Setup) -> Work:
        table = point_table(setup.collocation)
        metric = Metric.of(setup.kernels, table.points.shape[1], self.scaled_neighbours)
        coordinates = metric.coordinates(np.asarray(table.points))
        fixed = fixed_values(table, setup.kernels)
        num_patches = self.num_patches or default_num_patches(table.num_points)
        levels = num_levels(setup.collocation, setup.kernels, self.batch_size)
        far = nested_subsets(coordinates, levels, table.points.shape[1])
        near = self.batch_size if levels == 0 else self.batch_size // 2
        patches = cover(coordinates, near, num_patches, np.all(fixed, axis=1), self.known_share, far)
        open_values = OpenValues.of(patches.members, fixed)
        local = setup.learned if self.local_lengthscales is None else self.local_lengthscales
        solver, kept = self.linear_solver, None
        if solver is None:
            solver, kept = open_values.solver(coordinates)
        elif isinstance(solver, str):
            solver = Direct() if solver == "direct" else Schwarz()
        return Work(setup, table, metric, coordinates, fixed, patches, open_values, solver, kept, local)

    def init(self, work: Work, latent: Float[Array, " size"] | None, seed: int) -> State:
        del seed  # nothing is random here
        setup = work.setup
        if latent is not None:
            return self._begun(work, work.table.gather(jnp.asarray(latent)))
        if setup.collocation.num_points >= _NESTED_FROM and not setup.collocation.linear:
            work.coarse = coarse_start(setup)
        start = linear_start(setup) if work.coarse is None else work.coarse.start
        if start is None:
            return self._begun(work, on_device(np.zeros((work.table.num_points, work.table.num_operators))))
        return self._begun_from(work, start)

    def _begun(self, work: Work, latent_table: Float[Array, "points operators"]) -> State:
        """The state before the first step from these values of the operators."""
        values = starting_values(work.table, latent_table, work.setup.kernels)
        stretch = np.ones((len(work.cover.members), work.table.points.shape[1]))
        return State(values, latent_table, np.full(len(stretch), work.setup.nugget), stretch, None, math.inf, 0.0)

    def _begun_from(self, work: Work, start: Start) -> State:
        """The state before the first step from a function, which has values where no equation looks at them too."""
        table, kernels, num_fields = work.table, work.setup.kernels, work.table.collocation.num_fields
        fields = [point_value(field, table.points.shape[1]) for field in range(num_fields)]
        found = start.table(kernels, (*table.operators, *fields), np.asarray(table.points))
        given = on_device(np.where(table.active, found[:, : table.num_operators], 0.0))
        state = self._begun(work, given)
        return state._replace(values=np.where(work.fixed, state.values, found[:, table.num_operators :]))

    def step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        new, info, outcome = self._step(work, state)
        steps = state.num_steps + 1
        failed = outcome in (Outcome.STALLED, Outcome.NOT_FINITE, Outcome.NOT_POSITIVE_DEFINITE)
        astray = failed or (outcome is None and info["step"] > _ROUGH_MOVE and is_astray(info["damping"], steps))
        if astray and work.coarse is None and not state.resting and not work.setup.collocation.linear:
            work.coarse = coarse_start(work.setup)
            if work.coarse is not None:
                return self._begun_from(work, work.coarse.start), info, None
        short = outcome in (None, Outcome.STALLED) and info["step"] < _ROUGH_MOVE and not state.resting
        turned = info.get("step", math.inf) if state.resting else state.turned
        near = outcome is Outcome.CONVERGED or short
        if near and work.local and state.rounds < (_MOST_ROUNDS if turned > _SETTLED_MOVE else _ROUNDS):
            # Near rest with lengthscales that were learned on the way: those of the solution itself are better.
            again = new._replace(num_steps=steps, rounds=state.rounds + 1, resting=True, move=math.inf, turned=turned)
            return again, info, None
        if failed:  # what was reached before has a function
            new, outcome = state, Outcome.CONVERGED if state.resting else outcome
        return new._replace(num_steps=steps, rounds=state.rounds, turned=turned), info, outcome

    def _step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        """A step from here, whatever it comes to."""
        kernels, open_values, solver = work.setup.kernels, work.open_values, work.solver
        equations, unit = linearized(work.table, state.latent_table, kernels)
        if not (np.isfinite(equations.coefficients).all() and np.isfinite(equations.rhs).all()):
            return state, {}, Outcome.NOT_FINITE  # which no nugget can help
        # The first step starts from nothing that satisfies the boundary conditions, and one from rest with other lengthscales
        # from what other functions left of the equations: these are taken whole.
        slack = math.inf if state.num_steps == 0 or state.resting else 1.0
        rough = 0 < state.num_steps <= _ROUGH_STEPS and state.move > _ROUGH_MOVE
        if work.local and (rough or state.resting):
            later = state.num_steps > _FIRST_STEPS and not state.resting
            arguments = (state.values, state.nuggets, state.stretch, work.coordinates, later, state.resting)
            state = state._replace(stretch=learned_stretch(equations, kernels, work.cover, *arguments), weights=None)
            slack = max(slack, _TURN)
        patches, nuggets = reduce_patches(
            equations, kernels, work.cover.members, state.values, state.nuggets, state.stretch, self.max_escalations
        )
        if not patches.good.all():
            return state, {}, Outcome.NOT_POSITIVE_DEFINITE
        solved = Solved(np.zeros(0), 0.0, 0)
        if open_values.size > 0:
            matrix = open_values.matrix(patches.precision)
            prepared = solver.compute(matrix, *open_values.located(work.coordinates), work.kept)
            solved = solver.solve(matrix, prepared, open_values.summed(patches.pull), self.linear_tolerance)
            if len((means := means_at(work.table, state.values)).residual):
                inverse = lambda row: solver.solve(matrix, prepared, row, self.linear_tolerance).solution  # noqa: E731
                carried = on_means(open_values, means.gradient, inverse)
                solved = solved._replace(solution=carried(solved.solution, -means.residual))
            work.kept = solver.keep(prepared)
            del prepared
        values = state.values + open_values.spread(solved.solution)
        info: Info = {
            "linear_residual": solved.residual,
            "linear_iterations": solved.num_iterations,
            "linear_solver": solver.name,
            "nugget": float(nuggets.max()),
        }
        if not np.isfinite(values).all():
            # The patches are finite: what they add up to is not definite in double precision.
            return state, info, Outcome.NOT_POSITIVE_DEFINITE
        weights, reached, nuggets, good = self._localize(work, equations, values, nuggets, state.stretch)
        if not good:
            return state, info, Outcome.NOT_POSITIVE_DEFINITE
        new, info, outcome = self._damped(work, state, values, reached, nuggets, weights, unit, slack, info)
        if state.weights is None and info["damping"] < 1.0 and new is not state:
            # A part of the way from a start that had no function: it gets the one with its values and what its equations say.
            said = jnp.einsum("ped,pd->pe", equations.coefficients, state.latent_table)
            start = eqx.tree_at(lambda e: e.rhs, equations, said)
            old, _, _, good = self._localize(work, start, state.values, nuggets, state.stretch)
            if not good:
                return state, info, Outcome.NOT_POSITIVE_DEFINITE
            new = new._replace(weights=old + info["damping"] * (weights - old))
        return new, info, outcome

    def _damped(
        self,
        work: Work,
        state: State,
        values: np.ndarray,
        latent_table: Array,
        nuggets: np.ndarray,
        weights: np.ndarray,
        unit: Array,
        slack: float,
        info: Info,
    ) -> tuple[State, Info, Outcome | None]:
        """The step, shortened until the equations' residual is no larger than `slack` times what it was."""
        damped, whole = shortened(work.table, state.latent_table, latent_table, unit, on_device(slack), self.max_halvings)
        t, accepted = float(damped.damping), bool(damped.accepted)
        largest = np.abs(values).max()
        move = float(np.abs(values - state.values).max() / (largest if largest > 0 else 1.0))
        info |= {"objective": float(damped.objective), "step": move, "damping": t}
        if not accepted and not np.isfinite(whole):
            return state, info, Outcome.NOT_FINITE
        if not accepted and move > _ROUNDING_MOVE and not (move < 0.5 * state.move and whole <= _LEVEL * damped.objective):
            return state, info, Outcome.STALLED
        if not accepted:
            # At the limit of what nuggets and rounding leave of the residual no step can lower it: the whole one is as good as
            # any, and steps that halve from one to the next come to rest by themselves.
            t = info["damping"] = 1.0
        new = State(
            values=state.values + t * (values - state.values),
            latent_table=(1 - t) * state.latent_table + t * latent_table,
            nuggets=nuggets,
            stretch=state.stretch,
            weights=weights if state.weights is None else (1 - t) * state.weights + t * weights,
            move=move if t == 1.0 else math.inf,
            linear_residual=info["linear_residual"],
        )
        linear = work.setup.collocation.linear and t == 1.0
        near = move if t < 1.0 else next_move(move, state.move)
        done = linear or (not accepted and move <= _ROUNDING_MOVE) or near <= self.tolerance
        return new, info, Outcome.CONVERGED if done else None

    def _localize(
        self, work: Work, equations: Equations, values: np.ndarray, nuggets: np.ndarray, stretch: np.ndarray
    ) -> tuple[np.ndarray, Array, np.ndarray, bool]:
        """Each patch's function, the operators' values at each point from the patch that owns it, the nuggets that took, and
        whether all of that is finite."""
        table, kernels = work.table, work.setup.kernels
        members, owned = work.cover.members, work.cover.owned()
        local = values.reshape(-1)[value_rows(members, table.collocation.num_fields)]
        arguments = (members, local, nuggets, stretch, owned)
        (weights, at_owned, good), nuggets = localize_patches(equations, kernels, *arguments, self.max_escalations)
        operators = np.zeros((table.num_points, table.num_operators))
        patch, slot = np.nonzero(owned >= 0)
        operators[members[patch, owned[patch, slot]]] = at_owned[patch, slot]
        for slot, field in value_slots(equations.operators, table.points.shape[1], equations.num_fields):
            operators[:, slot] = values[:, field]  # shared by all patches, and exact where a Dirichlet condition fixes them
        return weights, on_device(np.where(table.active, operators, 0.0)), nuggets, bool(good.all())

    def latent(self, work: Work, state: State) -> Float[Array, " size"]:
        return work.table.scatter(state.latent_table)

    def nugget(self, work: Work, state: State) -> float:
        return float(state.nuggets.max())

    def notes(self, work: Work, state: State) -> tuple[str, ...]:
        raised = int(np.sum(state.nuggets > work.setup.nugget))
        text = (work.cover.text(),)
        if work.coarse is not None:
            text += (work.coarse.note(),)
        if state.linear_residual > 10 * self.linear_tolerance:
            text += (f"the last linear system was solved to a relative residual of {state.linear_residual:.0e} only",)
        if raised:
            text += (f"{raised} patches took a larger nugget, up to {state.nuggets.max():.1e}",)
        return text

    def predictor(self, work: Work, state: State) -> AbstractPredictor:
        table, kernels, solver = work.table, work.setup.kernels, work.solver
        equations, _ = linearized(table, state.latent_table, kernels)
        if self.linear_solver == "schwarz":
            # Samples need full accuracy in what varies most, where an iteration is least accurate.
            solver, _ = work.open_values.solver(work.coordinates)
        none = np.zeros((*work.cover.members.shape, table.num_operators + table.collocation.num_fields))
        return BlendedPatches(
            kernels=kernels,
            equations=equations,
            metric=work.metric,
            centres=on_device(np.asarray(table.points)[work.cover.centres]),
            members=on_device(work.cover.members),
            weights=on_device(none if state.weights is None else state.weights),
            nuggets=on_device(state.nuggets),
            stretch=on_device(state.stretch),
            fixed=on_device(work.fixed),
            linear_solver=solver,
            means=jnp.asarray(means_at(table, state.values).gradient),
        )
