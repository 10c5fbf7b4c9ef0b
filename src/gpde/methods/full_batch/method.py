r"""The full GP of Chen, Hosseini, Owhadi and Stuart (2021): all points at once, by damped Gauss-Newton.

Minimise $\|u\|^2$ subject to the equations. Each step linearises them as $\Psi z = b$ and conditions the prior on that
(`linalg/cholesky.py`); the three forms of the constraints differ only in the prior covariance $K$, the noise $\Lambda$, and in
what the line search compares (`steps.py`).
"""

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.arguments import named_constructor
from gpde.functionals.block_gram import BlockGram, num_entries
from gpde.linalg.escalation import NUGGET_GROWTH, nugget_levels
from gpde.linalg.line_search import next_move
from gpde.machine.arrays import on_device
from gpde.methods.base import AbstractMethod, Info, Setup, check_count, check_positive, round_down
from gpde.methods.full_batch.ladder import Ladder
from gpde.methods.full_batch.natural import Natural
from gpde.methods.full_batch.spread import Spread, counting, distances
from gpde.methods.full_batch.steps import (
    FORMS,
    Form,
    Verdict,
    eliminated,
    gauss_newton,
    latent_of,
    prior_matrices,
    rows_and_noise,
)
from gpde.methods.representer import Representer
from gpde.methods.start import linear_start
from gpde.outcomes import Outcome

# Steps below this, relative to the solution, may be all rounding: covariances of smooth kernels are that ill-conditioned.
_ROUNDING_MOVE = 1e-4
# The share of exact equations that a nugget leaves unmet, squared: 4e-7 or less in the gallery, 1e-5 in a dent.
_DENT = 2e-6


@dataclasses.dataclass
class Work:
    r"""The Gram matrix $\Theta$, the diagonal of the nugget, and a memo: the factor of $K = \Theta + \eta R = U^TU$ that
    elimination takes, for the last nugget.

    LAPACK made $U^T$ by columns, which by rows is $U$. Below its diagonal LAPACK leaves other numbers, which nobody may read.
    Other memos: the state in which the run started, to which the ladder of nuggets returns; where equations count from the data
    outwards (`spread.py`), their order and the state in which the last share of them settled; a state at rest where equations
    are met worse than a nugget leaves them, which may be a dent.
    """

    setup: Setup
    gram: BlockGram
    scale: Float[Array, " size"]
    factored: "tuple[float, Float[Array, 'size size']] | None" = None
    start: "State | None" = None
    order: Float[np.ndarray, " equations"] | None = None
    settled: "State | None" = None
    dent: "State | None" = None
    given: bool = False


class State(NamedTuple):
    r"""Latent values $z$, weights $w$ with $u = \kappa(\cdot,\phi)w$, the smallest nugget that factors, the objective and the
    last move; where the run stands on the ladder of nuggets (`ladder.py`), which equations count (`spread.py`), which share of
    them is left unmet, and how steps are measured (`natural.py`)."""

    latent: Float[Array, " size"]
    weights: Float[Array, " size"]
    nugget: float
    objective: float
    move: float
    ladder: Ladder = Ladder()
    spread: Spread = Spread()
    unmet: float = math.inf
    natural: Natural = Natural()

    @property
    def at_large(self) -> bool:
        """Whether the next step is an ordinary one, with all equations and the nugget that was asked for."""
        return self.ladder.level == 0.0 and not self.spread.spreading and not self.natural.going


@named_constructor
class FullBatch(AbstractMethod):
    """All points in one batch.

    **Arguments:**

    - `constraints`: `"eliminate"`, `"relax"`, `"linearize"`, or None: `"linearize"`, the cheapest, whose result differs
      from elimination by what the nugget does.
    - `regularization`: λ of `"relax"`; None takes the nugget. Smaller holds the equations more strictly.
    - `max_steps`, `tolerance`: Gauss-Newton ends when the next step, shrinking as the last one did, would move no latent value,
      in units of its prior standard deviation, by more than `tolerance` times the largest.
    - `max_escalations`: how often the nugget may be raised tenfold when a Cholesky factorisation fails.
    - `max_halvings`: how far the line search shortens a step.
    """

    name: ClassVar[str] = "full-batch"
    takes_means: ClassVar[bool] = True
    constraints: str | None = None
    regularization: float | None = None
    max_steps: int = 150
    tolerance: float = 1e-6
    max_escalations: int = 5
    max_halvings: int = 20

    def __check_init__(self) -> None:
        if self.constraints is not None and self.constraints not in FORMS:
            raise ValueError(f"`FullBatch`: `constraints` must be one of {FORMS} or None; came {self.constraints!r}.")
        if self.regularization is not None:
            check_positive("FullBatch", "regularization", self.regularization)
            if self.constraints != "relax":
                raise ValueError(
                    '`FullBatch`: `regularization` is the weight of `constraints="relax"`; `constraints` is '
                    f'{self.constraints!r}. Give `constraints="relax"`, or leave `regularization` out.'
                )
        check_positive("FullBatch", "tolerance", self.tolerance)
        check_count("FullBatch", "max_steps", self.max_steps, least=1)
        check_count("FullBatch", "max_escalations", self.max_escalations)
        check_count("FullBatch", "max_halvings", self.max_halvings)

    @property
    def form(self) -> str:
        return self.constraints or "linearize"

    @property
    def _of_a_step(self) -> Form:
        return Form(self.form, self.regularization, self.max_halvings)

    def check(self, setup: Setup) -> None:
        if self.form == "eliminate" and not setup.collocation.can_eliminate:
            stuck = [p.name for p in setup.collocation.parts if not p.noisy and p.reading.eliminated is None]
            raise ValueError(
                f'`constraints="eliminate"`: the equation on {stuck} is not affine with a constant coefficient in any of '
                'its functionals, so it cannot be solved for one. Use `constraints="linearize"` or "relax".'
            )

    def memory(self, setup: Setup) -> float:
        """The blocks of the Gram matrix, the matrix that a step factors and its blocks before they are joined; elimination
        keeps a factor of the whole Gram matrix too."""
        collocation = setup.collocation
        entries = num_entries(collocation.functionals, collocation.layout) + 2 * collocation.num_equations**2
        return 8.0 * (entries + (collocation.functionals.size**2 if self.form == "eliminate" else 0))

    def memory_advice(self, setup: Setup, available: float) -> str:
        most = setup.collocation.num_points * math.sqrt(available / self.memory(setup))
        form = ' `constraints="linearize"` takes less.' if self.form == "eliminate" else ""
        return (
            f"The full GP fits up to about {round_down(most)} points here.{form} For more take `method=gpde.Consensus()` "
            "(--method consensus), whose memory grows linearly."
        )

    def prepare(self, setup: Setup) -> Work:
        return Work(setup, *prior_matrices(setup.kernels, setup.collocation.functionals, setup.collocation.layout))

    def init(self, work: Work, latent: Float[Array, " size"] | None, seed: int) -> State:
        del seed  # nothing is random here
        weights, work.given = on_device(np.zeros(work.setup.collocation.functionals.size)), latent is not None
        if latent is None and (start := linear_start(work.setup)) is not None:
            weights = start.on_all(len(weights))
            latent = latent_of(work.gram, weights)
        values = weights if latent is None else jnp.asarray(latent)
        work.start = State(values, weights, work.setup.nugget, math.inf, math.inf)
        return work.start

    def step(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        new, info, outcome = self._advanced(work, state)
        if outcome is Outcome.CONVERGED and work.dent is None and self._may_be_a_dent(work, new):
            assert work.start is not None
            work.dent = new
            return work.start._replace(nugget=new.nugget, ladder=new.ladder.begun()), info, None
        if outcome is not None and work.dent is not None and self._reached(work, new) is work.dent:
            return work.dent, info, Outcome.CONVERGED
        return new, info, outcome

    def _reached(self, work: Work, state: State) -> State:
        """The state, or where the run rested before it looked for something better, if it has found nothing yet."""
        dent = work.dent
        return state if dent is None or state.unmet < 0.5 * dent.unmet else dent

    def _may_be_a_dent(self, work: Work, rest: State) -> bool:
        """Whether a run that came to rest on its own may have done so in a dent of the objective, so that the ladder might
        lead elsewhere: not from where the user let it start."""
        from_afar = work.start is not None and not work.given and not work.setup.collocation.linear
        return from_afar and self.form == "linearize" and rest.ladder.climbed == 0 and _DENT < rest.unmet < math.inf

    def _advanced(self, work: Work, state: State) -> tuple[State, Info, Outcome | None]:
        setup, ladder = work.setup, state.ladder
        found = self._attempt(work, state)
        if isinstance(found, Outcome):
            if found is not Outcome.NOT_POSITIVE_DEFINITE:
                return state, {}, found
            return state._replace(nugget=setup.nugget * NUGGET_GROWTH**self.max_escalations), {}, found
        reached, verdict = found
        move = verdict.move
        info = {
            "objective": verdict.objective,
            "residual": verdict.residual,
            "step": move,
            "damping": verdict.damping,
            "nugget": max(ladder.level, reached.nugget),
        }
        hard = not setup.collocation.linear and ladder.is_needed(verdict.damping, move >= _ROUNDING_MOVE)
        if hard and work.start is not None:
            return work.start._replace(nugget=reached.nugget, ladder=ladder.begun()), info, None
        if state.spread.spreading:
            return *self._spread(work, state, reached, verdict, info), None
        if state.natural.going:
            return self._naturally(state, reached, verdict, info)
        astray = ladder.has_failed(verdict.damping, move >= _ROUNDING_MOVE) or state.natural.failed
        if astray and self.form == "linearize" and state.natural.steps == 0 and work.start is not None:
            again = work.start._replace(nugget=reached.nugget, ladder=ladder.counted(), natural=state.natural.begun())
            return again, info, None
        if astray and self._can_spread(work, state):
            assert work.start is not None
            work.settled = work.start._replace(
                nugget=reached.nugget, ladder=ladder.counted(), spread=state.spread.begun(), natural=state.natural
            )
            return work.settled, info, None
        if not verdict.usable:
            return state, info, Outcome.NOT_FINITE
        if ladder.climbing(reached.nugget):
            kept = reached if verdict.accepted else state
            new = kept._replace(
                nugget=reached.nugget, objective=verdict.objective, ladder=ladder.next(verdict.damping, move, reached.nugget)
            )
            return new._replace(move=math.inf), info, None
        if not verdict.accepted:
            # At the limit of rounding no step can lower the objective any more: that is convergence.
            return state, info, Outcome.CONVERGED if move < _ROUNDING_MOVE else Outcome.STALLED
        new = reached._replace(
            objective=verdict.objective,
            move=move if verdict.damping == 1.0 else math.inf,
            ladder=ladder.counted(),
            unmet=verdict.unmet,
        )
        # Near the limit of rounding the step stays above any tolerance, but neither it nor the objective falls any more.
        still = state.objective - new.objective <= 1e-9 * abs(new.objective) and move > 0.5 * state.move
        settled = move < _ROUNDING_MOVE and still
        # A linear problem is solved by one whole step.
        done = min(move, next_move(move, state.move)) <= self.tolerance or (setup.collocation.linear and info["damping"] == 1.0)
        return new, info, Outcome.CONVERGED if done or settled else None

    def _naturally(self, state: State, reached: State, verdict: "Verdict", info: Info) -> tuple[State, Info, Outcome | None]:
        """The state after a step that was measured by where it leads."""
        natural = state.natural.next(bool(verdict.accepted and verdict.usable))
        if natural.failed:
            return state._replace(natural=natural), info, None
        move = verdict.move if verdict.damping == 1.0 else math.inf
        new = reached._replace(objective=verdict.objective, move=move, unmet=verdict.unmet, natural=natural)
        done = min(move, next_move(move, state.move)) <= self.tolerance or (move < _ROUNDING_MOVE and move > 0.5 * state.move)
        # Equations that are not met as closely as a nugget allows have no solution here.
        return new, info, Outcome.CONVERGED if done and verdict.unmet < _DENT else None

    def _can_spread(self, work: Work, state: State) -> bool:
        """Whether equations may begin to count from the data outwards: once, and where there is an order of them."""
        if state.spread.spent > 0 or self.form != "linearize" or work.start is None or work.dent is not None:
            return False
        work.order = distances(work.setup.collocation, work.setup.kernels)
        return work.order is not None

    def _spread(self, work: Work, state: State, reached: State, verdict: "Verdict", info: Info) -> tuple[State, Info]:
        """The state after a step in which a share of the equations counted, and the step with that share."""
        spread, accepted = state.spread, bool(verdict.accepted and verdict.usable)
        info = {**info, "share": spread.share}
        if accepted and spread.has_settled(verdict.damping, verdict.move):
            work.settled = reached._replace(objective=math.inf, move=math.inf, spread=spread.farther())
            return work.settled, info
        if not spread.has_failed(accepted):
            return reached._replace(objective=verdict.objective, move=math.inf, spread=spread.counted()), info
        assert work.settled is not None
        again = work.settled._replace(nugget=reached.nugget, objective=math.inf, move=math.inf)
        return again._replace(spread=spread.less_far()), info

    def _attempt(self, work: Work, state: State) -> "tuple[State, Verdict] | Outcome":
        """Where a step leads with the first nugget that admits its factorisations, and what can be said of it."""
        setup, upper = work.setup, None
        # A start that the user gave has no norm to compare with: its first step is taken whole.
        whole = on_device(
            math.isinf(state.objective) and np.any(np.asarray(state.latent)) and not np.any(np.asarray(state.weights))
        )
        already = round(math.log(state.nugget / setup.nugget, NUGGET_GROWTH))
        for smallest in nugget_levels(state.nugget, self.max_escalations - already):
            trial, nugget = state._replace(nugget=smallest), max(smallest, state.ladder.level)
            if self.form == "eliminate":
                if work.factored is None or work.factored[0] != nugget or math.isinf(state.objective):
                    found = eliminated(setup.collocation, work.gram, nugget * work.scale, state.latent)
                    latent, weights, upper, objective, good = found
                    if not good:
                        continue
                    work.factored = nugget, upper
                    trial = trial._replace(latent=latent, weights=weights, objective=float(objective))
                upper = work.factored[1]
            arrays = trial.latent, trial.weights, work.gram, work.scale, upper, on_device(trial.objective)
            count = counting(work.order, state.spread.share) if state.spread.spreading and work.order is not None else None
            latent, weights, verdict = gauss_newton(
                self._of_a_step, setup.collocation, arrays, on_device(nugget), whole, count, state.natural.going
            )
            verdict = Verdict(*np.asarray(verdict).tolist())
            if not verdict.finite:
                return Outcome.NOT_FINITE  # which no nugget can help
            if verdict.factored:
                return trial._replace(latent=latent, weights=weights), verdict
        return Outcome.NOT_POSITIVE_DEFINITE

    def latent(self, work: Work, state: State) -> Float[Array, " size"]:
        return self._reached(work, state).latent

    def nugget(self, work: Work, state: State) -> float:
        return state.nugget

    def notes(self, work: Work, state: State) -> tuple[str, ...]:
        return (*super().notes(work, state), *state.ladder.notes(), *state.natural.notes(), *state.spread.notes())

    def predictor(self, work: Work, state: State) -> Representer:
        setup, state = work.setup, self._reached(work, state)
        found = rows_and_noise(self._of_a_step, setup.collocation, state.latent, work.gram, work.scale, on_device(state.nugget))
        return Representer(setup.kernels, setup.collocation.functionals, state.weights, *found)
