r"""Algorithm 1 of the paper: the latent values of a few points at a time.

Each step draws a batch $I_k$ of $M$ points and solves the proximal problem (2.10) on it, which by Lemma 2.5 is
finite-dimensional, (2.16): `proximal.py`. A batch is a point and its nearest, so there are only $N$ different ones, and what a
step needs of its batch is computed once for all of them: `factor_cache.py`. The loop is in `stepping.py`. By default the
proximal term holds the rim of a batch harder than its core, its weight raises itself (`raising.py`), and batches are those of
thinned sets of the points first (`rungs.py`): docs/derivations/anchored.md.
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

from gpde.arguments import named_constructor
from gpde.collocation.neighbours import Metric
from gpde.collocation.point_table import point_table, table_operators
from gpde.domains.sampling import generator
from gpde.machine.arrays import on_device
from gpde.machine.threads import one_blas_thread
from gpde.methods.base import AbstractMethod, AbstractPredictor, Info, Setup
from gpde.methods.mini_batch import footprint, metrics, schedules
from gpde.methods.mini_batch.bounds import bound_tables, bounds_on_eliminated, check_bounds, check_fixed_values
from gpde.methods.mini_batch.factor_cache import FactorCache, num_kept
from gpde.methods.mini_batch.going_on import Earlier, Resume
from gpde.methods.mini_batch.local_functions import local_weights
from gpde.methods.mini_batch.mean import batch_kernels, check_found, global_unknowns, prior_mean
from gpde.methods.mini_batch.notes import told
from gpde.methods.mini_batch.output import global_representer
from gpde.methods.mini_batch.prediction import LocalPredictor
from gpde.methods.mini_batch.proximal import ProximalProblem, operator_scale
from gpde.methods.mini_batch.raising import Course, Phase, depth
from gpde.methods.mini_batch.rungs import Rung, rungs
from gpde.methods.mini_batch.sampling import Sampler, drawn_batches, drawn_centres
from gpde.methods.mini_batch.settings import check_problem, check_settings
from gpde.methods.mini_batch.state import State, Work
from gpde.methods.mini_batch.stepping import AVERAGED_STEPS, Record, Stepped, moving_average, plan, room_for, take_steps
from gpde.methods.start import starting_latent
from gpde.outcomes import Outcome

# A run is this many compiled calls: callbacks and progress see it after each.
_NUM_CALLS = 100
# Steps at most by default, and sweeps over all points: one step around each.
_LEAST_STEPS, _SWEEPS = 40_000, 60
# The mean loss must fall by this fraction from one window of `patience` steps to the next.
_PLATEAU = 1e-3


@named_constructor
class MiniBatch(AbstractMethod):
    r"""Algorithm 1, by default with the preconditioned step of Remark 2.3.

    **Main arguments:**

    - `batch_size`: $M$, a drawn point and its nearest neighbours.
    - `num_steps`: $K$. None: 40 000, or 60 sweeps over the points where that is more; weights that raise themselves end before.
    - `proximal_weight`: $\gamma_k$, a number, a schedule (`schedules.py`), one in words such as `"geometric(1e4, 1e8)"`, or any
      function of the step. Larger means a shorter move. None: with the anchored metric and batches of nearest points it raises
      itself, `"raising(1e4)"`, in units of $\lambda$; else see `default_weight`.

    **Other arguments:**

    - `regularization`: $\lambda$. What matters is $\gamma/\lambda$.
    - `slack_weight`: $\beta$. None puts the block nugget in the place of $\lambda M/\beta$ (Remark 2.6).
    - `proximal_metric`: $Q_k$: `"anchored"`, `"gram-diagonal"`, `"identity"`, or positive numbers, one per latent value.
      Anchored holds the values of the fields alone, those of the batch's core with $\gamma$ and those of its rim with
      `rim_ratio` times that; the core is the `core_share` of the batch nearest to its centre, with another `sampler` all of it.
    - `tolerance`: weights that raise themselves end when a sweep changes the values by less, relative to their size.
    - `coarse_to_fine`: whether, with weights that raise themselves, the prior mean is the full GP on half of the points (on
      all, where data are noisy), at most 1000, and where there are many more, batches are those of thinned sets first.
    - `constraints`: `"eliminate"`, `"relax"` (the term $\tfrac1{2M}|f(z)-y|^2$), or None: eliminate where possible, else relax,
      with a prior mean up to 1e-10 of what the prior expects of an equation.
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
    takes_means: ClassVar[bool] = True
    largest_default_nugget: ClassVar[float] = 1e-12
    batch_size: int = 64
    num_steps: int | None = None
    proximal_weight: schedules.Weight | None = None
    regularization: float | int = 1.0
    slack_weight: float | int | None = None
    proximal_metric: Any = "anchored"
    core_share: float | int = 0.5
    rim_ratio: float | int = 100
    tolerance: float | int = 1e-7
    coarse_to_fine: bool = True
    constraints: str | None = None
    bounds: Mapping[str | int, tuple[float | int, float | int]] | None = None
    sampler: str | Sampler = "nearest"
    replacement: bool = False
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
        check_settings(self)

    if TYPE_CHECKING:
        max_steps: int = eqx.field(init=False)  # a type checker would take the base's declaration for an argument
    else:

        @property
        def max_steps(self) -> int:
            return _LEAST_STEPS if self.num_steps is None else self.num_steps

    def for_setup(self, setup: Setup) -> "MiniBatch":
        if self.num_steps is not None:
            return self
        return dataclasses.replace(self, num_steps=max(_LEAST_STEPS, _SWEEPS * setup.collocation.num_points))

    def check(self, setup: Setup) -> None:
        check_problem(self, setup)
        check_bounds(setup, self.bounds, table_operators(setup.collocation, carry_values=True))
        metrics.diagonal(self.proximal_metric, setup.collocation)

    def memory(self, setup: Setup) -> float:
        return footprint.bytes_held(self, setup, keeps_factors=self._keeps_factors(setup))

    def memory_advice(self, setup: Setup, available: float) -> str:
        return footprint.advice(self, setup, available)

    def _keeps_factors(self, setup: Setup) -> bool:
        """Factors of all batches are worth computing if each is used about once before the weight changes."""
        levels = 1 if self.raising() is not None else len(self.levels(setup))
        enough = self.memory_budget is not None or self.max_steps >= setup.collocation.num_points * levels
        return self.sampler == "nearest" and enough

    def raising(self) -> schedules.Raising | None:
        """The weights, if they raise themselves."""
        if self.proximal_weight is None:
            return schedules.Raising() if metrics.is_anchored(self.proximal_metric) and self.sampler == "nearest" else None
        found = schedules.schedule(self.proximal_weight)
        return found if isinstance(found, schedules.Raising) else None

    def form(self, setup: Setup) -> str:
        """How the equations are held."""
        operators = table_operators(setup.collocation, carry_values=True)
        possible = setup.collocation.can_eliminate and not bounds_on_eliminated(setup, self.bounds, operators)
        return self.constraints or ("eliminate" if possible else "relax")

    def problem(self, setup: Setup, *, carried: bool = True) -> ProximalProblem:
        """The problem each step solves on its batch. The value of every field is `carried` among the latent values of a point,
        even where no equation looks at it (as in Poisson's): batches know of each other by the values they share."""
        table = point_table(setup.collocation, carry_values=carried)
        kernels = batch_kernels(setup)
        scale = operator_scale(kernels, table)
        core = self.core_share if self.sampler == "nearest" else 1.0
        eliminate = self.form(setup) == "eliminate"
        return ProximalProblem(
            table=table,
            kernels=kernels,
            nugget_scale=scale if self.slack_weight is None else jnp.ones_like(scale),
            metric=metrics.metric(self.proximal_metric, table, scale, core, self.rim_ratio),
            bounds=bound_tables(setup, self.bounds, table, eliminate=eliminate),
            mean=on_device(np.zeros(table.latent.shape)),
            weighed=on_device(np.zeros(table.noise_variance.shape)),
            slack=on_device(np.full(table.noise_variance.shape, float(min(self.batch_size, table.num_points)))),
            regularization=on_device(float(self.regularization)),
            max_inner_steps=on_device(self.max_inner_steps),
            inner_tolerance=on_device(float(self.inner_tolerance)),
            eliminate=eliminate,
        )

    def levels(self, setup: Setup, start: Earlier = Earlier()) -> tuple[schedules.Level, ...]:
        """The proximal weights of the run, which goes on where `start` ended."""
        weight = self.raising() or self.proximal_weight
        if weight is None:
            weight = schedules.default_weight(self._visits(setup, self.max_steps), self.regularization, start.visits)
        return schedules.levels(weight, self.max_steps)

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
        table, raising = problem.table, self.raising()
        metric = Metric.of(setup.kernels, table.points.shape[1], self.scaled_neighbours)
        coordinates = metric.coordinates(np.asarray(table.points))
        sets: tuple[Rung, ...] = ()
        if self.sampler == "nearest":
            nested = self.coarse_to_fine and self.scaled_neighbours and raising is not None
            sets, found = rungs(coordinates, np.asarray(table.part), self.batch_size, nested=nested)
            batches = on_device(found)
            if self._keeps_factors(setup):
                room = num_kept(sets[-1].rows.num, batches.shape[1] * table.num_operators, self.memory_budget)
                cache = FactorCache(problem, batches, self.start_nugget(setup), self.max_escalations, room)
        course = None
        if raising is not None:
            course = Course(
                problem, coordinates, np.asarray(batches), depth(coordinates, table), sets, cache, raising, self.tolerance,
                self.replacement, self.start_nugget(setup), self.max_escalations,
            )  # fmt: skip
        return Work(setup, problem, metric, coordinates, batches, sets, cache, course)

    def init(self, work: Work, latent: Float[Array, " size"] | None, seed: int) -> State:
        setup, table = work.setup, work.problem.table
        mean = prior_mean(setup, latent) if self._takes_mean(work) else None
        check_found(setup, mean)
        if isinstance(mean, str):
            mean, work.without_mean = None, mean
        if mean is not None:
            work.take_mean(mean)
        problem, num_seen, known = work.problem, 0, 0.0
        if mean is not None:  # which the full GP has found from given values, where there are some
            given, num_seen, known = problem.mean, mean.coarse.num_points, mean.first_weight
        elif latent is not None:
            given, num_seen = table.gather(jnp.asarray(latent)), table.num_points
        else:
            given = table.gather(starting_latent(setup))
        found = np.asarray(eqx.filter_jit(problem.retract)(on_device(np.arange(table.num_points)), given))
        values = on_device(np.where(np.isfinite(found), found, given))  # an equation that is not finite here: the run will tell
        if problem.eliminate:
            check_fixed_values(setup, self.bounds, table, values)
        elif mean is not None and self.constraints is None:
            work.tighten(values)
        raised = on_device(np.zeros(table.num_points if work.batches is None else len(work.batches), dtype=int))
        phase = None if work.course is None else work.course.begin(values, num_seen, known)
        return State(values, np.zeros(0), raised, None, seed, phase=phase)

    def _takes_mean(self, work: Work) -> bool:
        """Whether the prior mean is a coarse solution: not as the paper has it, nor for a batch of all points."""
        several = work.course is not None and work.rungs[-1].rows.num > 1
        return self.coarse_to_fine and (several or bool(global_unknowns(work.setup)))

    def resume(self, work: Work, state: State) -> Resume:
        """The last iterate, and how far the run was."""
        earlier, new = state.start, state.num_steps
        done = Earlier(earlier.num_steps + new, earlier.visits + self._visits(work.setup, new))
        return Resume.of(work.problem, state.values, done, state.phase)

    def resumed(self, work: Work, earlier: Any, seed: int) -> State | str | None:
        """An earlier run of the same problem on the same points is gone on with: its latent values as they are, the batches
        that would have come next, and the proximal weights that one run with the steps of both would have from there on."""
        if not isinstance(earlier, Resume):
            return None
        difference = earlier.difference(work.problem)
        if difference is not None:
            return difference
        values, start = on_device(earlier.values), Earlier(earlier.num_steps, earlier.visits)
        phase = None
        if work.course is not None:
            known = earlier.phase is not None and earlier.phase.finer < len(work.rungs)
            phase = earlier.phase if known else work.course.begin(values, len(values))
        return self.init(work, None, seed)._replace(values=values, start=start, phase=phase)

    def step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        """A hundredth of the run: the next `num_steps / 100` steps of Algorithm 1."""
        size, first = math.ceil(self.max_steps / _NUM_CALLS), state.num_steps
        last, room = min(first + size, self.max_steps), room_for(size)
        nugget, output, phase = on_device(self.start_nugget(work.setup)), state.output, state.phase
        raised = state.raised if work.batches is not None else on_device(np.zeros(room, dtype=int))
        found = on_device(np.ones(len(state.values), dtype=bool)) if phase is None else phase.found
        progress = Stepped(state.values, found, raised, Record.empty(room))
        table, rows = self._drawn(work, state, first, size, room)
        start, weight, sweeps, converged = first, 0.0, [], False
        with one_blas_thread():
            while start < last and not converged:
                output = progress.values if start == self._output_step(state) else output
                stop, weight = self._same_weight(work, state, phase, range(start, last))
                if work.course is not None and phase is not None:
                    work.hold_rims(phase.ratio)
                    rung, here = work.course.rung(phase), work.course.rows(phase, state.seed)
                else:
                    rung, here = (work.rungs or (None,))[-1], rows[start - first :]
                factors = None  # those of the weight before are freed while their successors are made
                factors = None if work.cache is None or rung is None else work.cache.at(weight, rung.rows)
                steps, num_groups = plan(table, here[: stop - start], self.parallel_batches, room)
                progress = take_steps(
                    work.problem, factors, steps, progress, on_device(num_groups), on_device(start - first),
                    on_device(weight), nugget, self.max_escalations,
                )  # fmt: skip
                if work.course is not None and phase is not None:
                    phase, values, sweep, converged = work.course.after(phase, *progress[:2], stop - start)
                    progress = progress._replace(values=values, found=phase.found)
                    sweeps += [] if sweep is None else [sweep]
                start = stop
            values, _, raised, record = jax.block_until_ready(progress)
        if (failure := work.failure(values)) is not None:
            back = None if work.course is None or phase is None else work.course.back(phase, values)
            if back is None:
                return state, {"num_steps": 0}, failure
            phase, values = back
        losses = np.concatenate([state.losses, np.asarray(record.loss)[: start - first]])
        state = state._replace(values=values, losses=losses, output=output, phase=phase)
        if work.batches is not None:
            state = state._replace(raised=raised)
        averages = moving_average(losses[max(0, first - AVERAGED_STEPS) :])[first - start :]
        info = {
            "loss": float(averages[-1]),
            "losses": losses[first:],
            "averaged_losses": averages,
            "inner_steps": np.asarray(record.num_inner)[: start - first],
            "num_steps": start - first,
            "weight": weight,
            "sweeps": sweeps,
        }
        return state, info, self._outcome(work, state, converged=converged)

    def _same_weight(self, work: Work, state: State, phase: Phase | None, steps: range) -> tuple[int, float]:
        """Where the first of these steps that have one weight end, at the latest where the iterate is put out; its weight."""
        cuts = [steps.stop, self._output_step(state)]
        if phase is not None:
            cuts.append(steps[0] + work.rungs[-1 - phase.finer].rows.num - phase.num_steps)
            return min(cut for cut in cuts if cut > steps[0]), phase.weight
        levels = self.levels(work.setup, state.start)
        cuts += [level.first for level in levels]
        return min(cut for cut in cuts if cut > steps[0]), [level.weight for level in levels if level.first <= steps[0]][-1]

    def _drawn(
        self, work: Work, state: State, first: int, num: int, room: int
    ) -> tuple[Int[Array, "batches batch"], Int[np.ndarray, " steps"]]:
        """The batches of the next steps: a table, and a row of it for each step, if the weights do not raise themselves. A
        table of drawn batches has room for more."""
        num_points, seed = state.values.shape[0], state.seed
        first += state.start.num_steps  # the batches of an earlier run are not drawn again
        if work.batches is not None:
            return work.batches, drawn_centres(len(work.batches), first, num, seed, replacement=self.replacement)
        size = min(self.batch_size, num_points)
        drawn = drawn_batches(self.sampler, num_points, size, first, num, seed)
        return on_device(np.pad(np.asarray(drawn), ((0, room - num), (0, 0)))), np.arange(num)

    def _outcome(self, work: Work, state: State, *, converged: bool) -> Outcome | None:
        done = np.isfinite(state.losses)
        if (converged or state.num_steps >= min(_NUM_CALLS, self.max_steps)) and not done.any():
            return Outcome.NOT_POSITIVE_DEFINITE if work.problem.finite(state.values) else Outcome.NOT_FINITE
        outcome = Outcome.CONVERGED if converged else None
        if outcome is None and state.num_steps == self.max_steps:
            outcome = Outcome.NOT_AT_REST if work.course else Outcome.FINISHED  # a given weight makes no claim
        elif outcome is None and self.patience is not None and state.num_steps >= 2 * self.patience:
            windows = [slice(-2 * self.patience, -self.patience), slice(-self.patience, None)]
            if all(done[window].any() for window in windows):
                before, now = (np.mean(state.losses[window][done[window]]) for window in windows)
                outcome = Outcome.PLATEAU if now > before - _PLATEAU * abs(before) else None
        return outcome if outcome is None or work.problem.finite(state.values) else Outcome.NOT_FINITE

    def _output_step(self, state: State) -> int:
        r"""The step before which the iterate is put out, $k^*$ counted from zero; -1 where the last one is."""
        # A stream of its own: the theorem wants it independent of the batches.
        return int(generator(state.seed, "output step").integers(self.max_steps)) if self.output == "uniform" else -1

    def _reached(self, work: Work, state: State) -> Float[Array, "points operators"]:
        values = state.values if state.output is None else state.output
        return values if work.course is None or state.phase is None else work.course.on_finest(state.phase, values)

    def latent(self, work: Work, state: State) -> Float[Array, " size"]:
        return work.problem.table.scatter(self._reached(work, state))

    def predictor(self, work: Work, state: State) -> AbstractPredictor:
        setup, problem, values = work.setup, work.problem, self._reached(work, state)
        last = state.phase.weight if state.phase is not None else self.levels(setup, state.start)[-1].weight
        rho = float(last if self.final_proximal_weight is None else self.final_proximal_weight)
        nugget = self.start_nugget(setup)
        if self.prediction == "global":
            # One batch has no one to share carried values with: the collocation's own functionals will do.
            problem = self.problem(setup, carried=False)
            values = problem.table.gather(self.latent(work, state))
            return global_representer(setup, problem, values, nugget, rho, self.max_escalations)
        rows, batches = work.nearest_batches(self.batch_size)
        factors = work.cache.at(rho, rows) if work.cache is not None and rho == last else None
        weights = local_weights(problem, batches, rows.first, factors, values, rho, nugget, self.max_escalations)
        mean, average = (None, None) if work.mean is None else (work.mean.coarse.start, work.mean.of_averages(setup))
        arguments = work.metric, batches, weights, work.known_points(self.batch_size), mean, average, nugget
        return LocalPredictor.of(problem, setup.kernels, values, *arguments, self.max_escalations)

    def notes(self, work: Work, state: State) -> tuple[str, ...]:
        first = None if state.phase is not None else self.levels(work.setup, state.start)[0].weight
        return told(work, state, self.start_nugget(work.setup), first, self.rim_ratio)
