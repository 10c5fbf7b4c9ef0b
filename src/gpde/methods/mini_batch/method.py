r"""Algorithm 1 of the paper: the latent values of a few points at a time.

Each step draws a batch $I_k$ of $M$ points and solves the proximal problem (2.10) on it, which by Lemma 2.5 is
finite-dimensional, (2.16): `proximal.py`. A batch is a point and its nearest, so there are only $N$ different ones, and what a
step needs of its batch is computed once for all of them: `factor_cache.py`. The loop is in `stepping.py`.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpde.collocation.neighbours import Metric, NeighbourIndex
from gpde.collocation.point_table import PointTable, point_table, slot_operators
from gpde.domains.sampling import generator
from gpde.machine.threads import one_blas_thread
from gpde.methods.base import AbstractMethod, AbstractPredictor, Info, Setup, check_count, check_positive, round_down
from gpde.methods.mini_batch import schedules
from gpde.methods.mini_batch.bounds import bound_tables, bounds_on_eliminated, check_bounds, check_fixed_values
from gpde.methods.mini_batch.factor_cache import FactorCache, num_kept
from gpde.methods.mini_batch.going_on import Resume, Start
from gpde.methods.mini_batch.output import global_representer
from gpde.methods.mini_batch.prediction import LocalPredictor
from gpde.methods.mini_batch.proximal import ProximalProblem, operator_scale
from gpde.methods.mini_batch.sampling import Sampler, drawn_batches, drawn_centres
from gpde.methods.mini_batch.state import State, Work
from gpde.methods.mini_batch.stepping import AVERAGED_STEPS, Progress, Record, moving_average, plan, take_steps
from gpde.methods.start import starting_latent
from gpde.outcomes import Outcome

# A run is this many compiled calls: callbacks and progress see it after each.
_NUM_CALLS = 100
# The mean loss must fall by this fraction from one window of `patience` steps to the next.
_PLATEAU = 1e-3
_CHOICES = {
    "constraints": ("eliminate", "relax"),
    "output": ("last", "uniform"),
    "prediction": ("local", "global"),
}


class MiniBatch(AbstractMethod):
    r"""Algorithm 1, by default with the preconditioned step of Remark 2.3.

    **Main arguments:**

    - `batch_size`: $M$, a drawn point and its nearest neighbours.
    - `num_steps`: $K$.
    - `proximal_weight`: $\gamma_k$, a number, a schedule (`schedules.py`), one in words such as `"geometric(1e4, 1e8)"`, or any
      function of the step. Larger means a shorter move. None: see `default_weight`.

    **Other arguments:**

    - `regularization`: $\lambda$. What matters is $\gamma/\lambda$.
    - `slack_weight`: $\beta$. None puts the block nugget in the place of $\lambda M/\beta$ (Remark 2.6).
    - `proximal_metric`: $Q_k$: `"gram-diagonal"`, `"identity"`, or positive numbers, one per latent value.
    - `constraints`: `"eliminate"`, `"relax"` (the term $\tfrac1{2M}|f(z)-y|^2$), or None: eliminate where possible.
    - `bounds`: the set $\mathcal X$: lowest and highest values of functionals, as `{"u": (0, 1)}`, by name or index.
    - `sampler`: `"nearest"`, `"uniform"`, or a function of a key, the number of points and $M$ that returns $M$ indices.
    - `replacement`: whether centres are drawn independently, or in random permutations of all points.
    - `scaled_neighbours`: nearness in units of the kernel's lengthscales, or in plain coordinates.
    - `max_inner_steps`, `inner_tolerance`: Gauss-Newton on a batch ends when no value, in units of its prior standard
      deviation, moves by more than the tolerance.
    - `output`: the `"last"` iterate, or one before a `"uniform"`ly drawn step, as in the paper's theorem.
    - `prediction`: `"local"` (Remark 2.2) or `"global"` (2.11), with $\rho$ `final_proximal_weight` (None: the last $\gamma$).
    - `patience`: ends the run when the mean loss of this many steps is no lower than that of as many before; None: never.
    - `memory_budget`: megabytes for factors kept between steps. None: a quarter of what is free, if steps enough use them.
    - `parallel_batches`: how many disjoint batches may be stepped together; the result is that of stepping one by one.
    - `max_escalations`: how often the nugget of a failing batch is raised tenfold before the batch is skipped.
    """

    name: ClassVar[str] = "mini-batch"
    batch_size: int = 64
    num_steps: int = 40_000
    proximal_weight: schedules.Weight | None = None
    regularization: float | int = 1.0
    slack_weight: float | int | None = None
    proximal_metric: Any = "gram-diagonal"
    constraints: str | None = None
    bounds: Mapping[str | int, tuple[float | int, float | int]] | None = None
    sampler: str | Sampler = "nearest"
    replacement: bool = True
    scaled_neighbours: bool = True
    max_inner_steps: int = 30
    inner_tolerance: float | int = 1e-5
    output: str = "last"
    prediction: str = "local"
    final_proximal_weight: float | int | None = None
    patience: int | None = None
    memory_budget: float | int | None = None
    parallel_batches: int = 1
    max_escalations: int = 5

    def __check_init__(self) -> None:
        for name in ("batch_size", "num_steps", "max_inner_steps", "parallel_batches"):
            check_count("MiniBatch", name, getattr(self, name), 1)
        check_count("MiniBatch", "max_escalations", self.max_escalations)
        for name in ("regularization", "inner_tolerance"):
            check_positive("MiniBatch", name, getattr(self, name))
        for name in ("slack_weight", "final_proximal_weight"):
            if getattr(self, name) is not None:
                check_positive("MiniBatch", name, getattr(self, name))
        if self.patience is not None:
            check_count("MiniBatch", "patience", self.patience, 1)
        if self.memory_budget is not None and not self.memory_budget >= 0:
            raise ValueError(f"`MiniBatch`: `memory_budget` is in megabytes, 0 or more; came {self.memory_budget!r}.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in (*choices, *([None] if name == "constraints" else [])):
                raise ValueError(f"`MiniBatch`: `{name}` must be one of {choices}; came {getattr(self, name)!r}.")
        if self.sampler not in ("nearest", "uniform") and not callable(self.sampler):
            raise ValueError(f"`MiniBatch`: `sampler` must be 'nearest', 'uniform' or a function; came {self.sampler!r}.")
        if isinstance(self.proximal_metric, str) and self.proximal_metric not in ("gram-diagonal", "identity"):
            raise ValueError(
                "`MiniBatch`: `proximal_metric` must be 'gram-diagonal', 'identity' or positive numbers, one per latent value; "
                f"came {self.proximal_metric!r}."
            )
        if self.proximal_weight is not None:
            schedules.levels(self.proximal_weight, self.num_steps)

    if TYPE_CHECKING:
        max_steps: int = eqx.field(init=False)  # a type checker would take the base's declaration for an argument
    else:

        @property
        def max_steps(self) -> int:
            return self.num_steps

    def check(self, setup: Setup) -> None:
        if setup.scalars:
            raise ValueError(
                f"`MiniBatch`: the scalar {', '.join(setup.scalars)} is one number for all points, which small batches learn "
                "slowly or not at all. Take `method=gpde.FullBatch()` or `gpde.Consensus()`."
            )
        collocation, operators = setup.collocation, slot_operators(setup.collocation, carry_values=True)
        if self.constraints == "eliminate" and not collocation.can_eliminate:
            stuck = [p.name for p in collocation.parts if not p.noisy and p.reading.eliminated is None]
            raise ValueError(
                f'`constraints="eliminate"`: the equation on {stuck} is not affine with a constant coefficient in any of '
                'its functionals, so it cannot be solved for one. Use `constraints="relax"`.'
            )
        if self.constraints == "eliminate" and (taken := bounds_on_eliminated(setup, self.bounds, operators)):
            raise ValueError(
                f"`bounds`: {taken} is what the equations are solved for, so it cannot be bounded as well. "
                'Use `constraints="relax"`.'
            )
        check_bounds(setup, self.bounds, operators)
        self._metric(setup)

    def memory(self, setup: Setup) -> float:
        """The factors kept between steps, twice while they are made, the table of batches while neighbours are looked for, and
        a few tables over the points; a global prediction holds six matrices of all functionals."""
        num_points = setup.collocation.num_points
        num_operators = len(slot_operators(setup.collocation, carry_values=True))
        size = min(self.batch_size, num_points) * num_operators
        rest = num_points * (24 * min(self.batch_size, num_points) + 8 * 20 * num_operators)
        kept = 4 * 8 * size**2 * num_kept(num_points, size, self.memory_budget) if self._keeps_factors(setup) else 0
        whole = 6 * 8 * (num_points * len(setup.collocation.functionals.operators)) ** 2 if self.prediction == "global" else 0
        return float(rest + max(kept, whole))

    def memory_advice(self, setup: Setup, available: float) -> str:
        num_points, needed = setup.collocation.num_points, self.memory(setup)
        if self.prediction == "global":
            most = round_down(num_points * math.sqrt(available / needed))
            return f'`prediction="local"` takes far less; the global one fits up to about {most} points here.'
        if self.memory_budget and dataclasses.replace(self, memory_budget=0).memory(setup) <= available:
            return (
                f"A `memory_budget` of {available / 3 / 2**20:.0f} megabytes fits: twice that is held while factors are made."
            )
        return (
            f"It fits up to about {round_down(num_points * available / needed)} points here, more with a smaller `batch_size`."
        )

    def _keeps_factors(self, setup: Setup) -> bool:
        """Factors of all batches are worth computing if each is used about once before the weight changes."""
        enough = self.memory_budget is not None or self.num_steps >= setup.collocation.num_points * len(self.levels(setup))
        return self.sampler == "nearest" and enough

    def form(self, setup: Setup) -> str:
        """How the equations are held."""
        if self.constraints is not None:
            return self.constraints
        operators = slot_operators(setup.collocation, carry_values=True)
        possible = setup.collocation.can_eliminate and not bounds_on_eliminated(setup, self.bounds, operators)
        return "eliminate" if possible else "relax"

    def problem(self, setup: Setup, table: PointTable | None = None) -> ProximalProblem:
        """The problem each step solves on its batch."""
        table = _table(setup) if table is None else table
        metric = self._metric(setup)
        if metric is not None:
            metric = jnp.where(table.latent < len(metric), table.gather(metric), 1.0)
        scale = operator_scale(setup.kernels, table)
        eliminate = self.form(setup) == "eliminate"
        return ProximalProblem(
            table=table,
            kernels=setup.kernels,
            nugget_scale=scale if self.slack_weight is None else jnp.ones_like(scale),
            metric=metric,
            bounds=bound_tables(setup, self.bounds, table, eliminate=eliminate),
            regularization=jnp.asarray(float(self.regularization)),
            max_inner_steps=jnp.asarray(self.max_inner_steps),
            inner_tolerance=jnp.asarray(float(self.inner_tolerance)),
            eliminate=eliminate,
        )

    def levels(self, setup: Setup, start: Start = Start()) -> tuple[schedules.Level, ...]:
        """The proximal weights of the run, which goes on where `start` ended."""
        weight = self.proximal_weight
        if weight is None:
            visits = self._visits(setup, self.num_steps)
            weight = schedules.default_weight(visits, self.regularization, start.visits)
        return schedules.levels(weight, self.num_steps)

    def _visits(self, setup: Setup, num_steps: int) -> float:
        """How often each point is in a batch, on average."""
        num_points = setup.collocation.num_points
        return num_steps * min(self.batch_size, num_points) / num_points

    def start_nugget(self, setup: Setup) -> float:
        r"""$\eta$, or $\lambda M / \beta$ where there is a slack weight."""
        size = min(self.batch_size, setup.collocation.num_points)
        return setup.nugget if self.slack_weight is None else self.regularization * size / self.slack_weight

    def prepare(self, setup: Setup) -> Work:
        problem, batches, cache = self.problem(setup), None, None
        if self.sampler == "nearest":
            coordinates = self._neighbour_metric(setup).coordinates(np.asarray(problem.table.points))
            batches = jnp.asarray(NeighbourIndex(coordinates).nearest(coordinates, self.batch_size)[1])
            if self._keeps_factors(setup):
                cache = FactorCache(problem, batches, self.start_nugget(setup), self.max_escalations, self.memory_budget)
        return Work(setup, problem, batches, cache)

    def init(self, work: Work, latent: Float[Array, " size"] | None, seed: int) -> State:
        setup, problem, table = work.setup, work.problem, work.problem.table
        given = table.gather(starting_latent(setup) if latent is None else jnp.asarray(latent))
        values = eqx.filter_jit(problem.retract)(jnp.arange(table.num_points), given)
        values = jnp.where(jnp.isfinite(values), values, given)  # an equation that is not finite here: the run will tell
        if problem.eliminate:
            check_fixed_values(setup, self.bounds, table, values)
        raised = jnp.zeros(table.num_points, dtype=int)
        return State(values, np.zeros(0), raised, None, seed)

    def resume(self, work: Work, state: State) -> Resume:
        """The last iterate, and how far the run was."""
        num_steps, visits = state.start
        done = Start(num_steps + state.num_steps, visits + self._visits(work.setup, state.num_steps))
        return Resume.of(work.problem, state.values, done)

    def resumed(self, work: Work, earlier: Any, seed: int) -> State | str | None:
        """An earlier run of the same problem on the same points is gone on with: its latent values as they are, the batches
        that would have come next, and the proximal weights that one run with the steps of both would have from there on."""
        if not isinstance(earlier, Resume):
            return None
        difference = earlier.difference(work.problem)
        if difference is not None:
            return difference
        start = Start(earlier.num_steps, earlier.visits)
        return self.init(work, None, seed)._replace(values=jnp.asarray(earlier.values), start=start)

    def step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        """A hundredth of the run: the next `num_steps / 100` steps of Algorithm 1."""
        setup = work.setup
        size = math.ceil(self.num_steps / _NUM_CALLS)
        first = state.num_steps
        last = min(first + size, self.num_steps)
        table, rows = self._drawn(work, state, first, size)
        levels, output_step = self.levels(setup, state.start), self._output_step(state)
        nugget, output = jnp.asarray(self.start_nugget(setup)), state.output
        raised = state.raised if work.batches is not None else jnp.zeros(size, dtype=int)
        progress = Progress(state.values, raised, Record(jnp.zeros(size), jnp.zeros(size, dtype=int)))
        # A call is cut where the weight changes and where the iterate is put out.
        cuts = {first, last, *(c for c in (output_step, *(level.first for level in levels)) if first < c < last)}
        with one_blas_thread():
            for start, stop in zip(sorted(cuts)[:-1], sorted(cuts)[1:], strict=True):
                output = progress.values if start == output_step else output
                weight = [level.weight for level in levels if level.first <= start][-1]
                factors = None if work.cache is None else work.cache.at(weight)
                steps, num_groups = plan(table, rows[start - first : stop - first], self.parallel_batches, size)
                progress = take_steps(
                    work.problem, factors, steps, progress, jnp.asarray(num_groups), jnp.asarray(start - first),
                    jnp.asarray(weight), nugget, self.max_escalations,
                )  # fmt: skip
            values, raised, record = jax.block_until_ready(progress)
        if not np.isfinite(values).all():
            return state, {"num_steps": 0}, Outcome.NOT_FINITE
        losses = np.concatenate([state.losses, np.asarray(record.loss)[: last - first]])
        state = state._replace(values=values, losses=losses, output=output)
        if work.batches is not None:
            state = state._replace(raised=raised)
        averages = moving_average(losses[max(0, first - AVERAGED_STEPS) :])[first - last :]
        info = {
            "loss": float(averages[-1]),
            "losses": losses[first:],
            "averaged_losses": averages,
            "inner_steps": np.asarray(record.num_inner)[: last - first],
            "num_steps": last - first,
        }
        return state, info, self._outcome(work, state)

    def _outcome(self, work: Work, state: State) -> Outcome | None:
        done = np.isfinite(state.losses)
        if state.num_steps >= min(_NUM_CALLS, self.num_steps) and not done.any():
            return Outcome.NOT_POSITIVE_DEFINITE if _finite_equations(work, state) else Outcome.NOT_FINITE
        outcome = None
        if state.num_steps == self.num_steps:
            outcome = Outcome.FINISHED
        elif self.patience is not None and state.num_steps >= 2 * self.patience:
            windows = [slice(-2 * self.patience, -self.patience), slice(-self.patience, None)]
            if all(done[window].any() for window in windows):
                before, now = (np.mean(state.losses[window][done[window]]) for window in windows)
                outcome = Outcome.PLATEAU if now > before - _PLATEAU * abs(before) else None
        return outcome if outcome is None or _finite_equations(work, state) else Outcome.NOT_FINITE

    def _drawn(
        self, work: Work, state: State, first: int, num: int
    ) -> tuple[Int[Array, "batches batch"], Int[np.ndarray, " steps"]]:
        """The batches of the next steps: a table, and a row of it for each step."""
        num_points, seed = state.values.shape[0], state.seed
        first += state.start.num_steps  # the batches of an earlier run are not drawn again
        if work.batches is not None:
            return work.batches, drawn_centres(num_points, first, num, seed, replacement=self.replacement)
        size = min(self.batch_size, num_points)
        return drawn_batches(self.sampler, num_points, size, first, num, seed), np.arange(num)

    def _output_step(self, state: State) -> int:
        r"""The step before which the iterate is put out, $k^*$ counted from zero; -1 where the last one is."""
        # A stream of its own: the theorem wants it independent of the batches.
        return int(generator(state.seed, "output step").integers(self.num_steps)) if self.output == "uniform" else -1

    def _reached(self, state: State) -> Float[Array, "points operators"]:
        return state.values if state.output is None else state.output

    def latent(self, work: Work, state: State) -> Float[Array, " size"]:
        return work.problem.table.scatter(self._reached(state))

    def predictor(self, work: Work, state: State) -> AbstractPredictor:
        setup = work.setup
        rho = self.levels(setup, state.start)[-1].weight if self.final_proximal_weight is None else self.final_proximal_weight
        nugget, values = self.start_nugget(setup), self._reached(state)
        if self.prediction == "global":
            # One batch has no one to share carried values with: the collocation's own functionals will do.
            problem = self.problem(setup, point_table(setup.collocation))
            values = problem.table.gather(self.latent(work, state))
            return global_representer(setup, problem, values, nugget, float(rho), self.max_escalations)
        size = min(self.batch_size, setup.collocation.num_points)
        metric = self._neighbour_metric(setup)
        return LocalPredictor.around(work.problem, values, metric, nugget, float(rho), size, self.max_escalations)

    def notes(self, work: Work, state: State) -> tuple[str, ...]:
        setup, notes = work.setup, []
        if state.start.num_steps:
            weight = self.levels(setup, state.start)[0].weight
            notes.append(f"went on after {state.start.num_steps} earlier steps, from the proximal weight {weight:.1e}")
        raised = np.asarray(state.raised)
        if raised.any():
            largest = self.start_nugget(setup) * 10.0 ** raised.max()
            notes.append(f"the nugget was raised on {np.sum(raised > 0)} of {len(raised)} batches, to at most {largest:.1e}")
        skipped = int(np.sum(np.isnan(state.losses)))
        if skipped:
            notes.append(f"{skipped} of {state.num_steps} steps were skipped: their batch failed with every nugget tried")
        return tuple(notes)

    def _neighbour_metric(self, setup: Setup) -> Metric:
        return Metric.of(setup.kernels, len(setup.collocation.parts[0].points[0]), self.scaled_neighbours)

    def _metric(self, setup: Setup) -> Float[Array, " size"] | None:
        r"""The diagonal of $Q$, one number per latent value; None: that of the Gram matrix."""
        size = setup.collocation.functionals.size
        if isinstance(self.proximal_metric, str) and self.proximal_metric == "gram-diagonal":
            return None
        metric = np.ones(size) if isinstance(self.proximal_metric, str) else np.asarray(self.proximal_metric, dtype=float)
        if metric.shape != (size,) or not (np.isfinite(metric) & (metric > 0)).all():
            raise ValueError(
                f"`proximal_metric`: {size} positive numbers are needed, one per latent value; came shape {metric.shape}."
            )
        return jnp.asarray(metric)


def _table(setup: Setup) -> PointTable:
    """The points with the value of every field among their latent values, even where no equation looks at it (as in
    Poisson's): batches know of each other by the values they share."""
    return point_table(setup.collocation, carry_values=True)


def _finite_equations(work: Work, state: State) -> bool:
    """Whether the equations are numbers at the values reached: batches where they are not have been skipped."""
    problem, points = work.problem, jnp.arange(state.values.shape[0])
    unit = jnp.ones(state.values.T.shape)
    psi, residual = eqx.filter_jit(problem.linearized)(points, eqx.filter_jit(problem.retract)(points, state.values), unit)
    return bool(jnp.all(jnp.isfinite(psi)) & jnp.all(jnp.isfinite(residual)))
