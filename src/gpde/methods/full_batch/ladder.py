r"""A ladder of nuggets: strongly nonlinear equations solved roughly first, then ever more closely.

With a nugget $\eta$ an equation may be off by about $\sqrt\eta$ of its own terms. Where $\eta$ is tiny, Gauss-Newton from afar
follows a narrow curved valley: the linearised equations must hold to all digits although the linearisation is wrong, so steps
become short and end in a dent of the objective. With $\eta = 10^{-1}$ the valley is wide, and the minimum for one level is a
start within reach of the next. The steps of easy problems are whole, and they take no ladder.
"""

from typing import NamedTuple

from gpde.linalg.line_search import is_astray

_TOP = 1e-1
# How far down one level is, and after a step that hardly moved.
_DOWN, _FAR_DOWN = 1e-2, 1e-4
# A level is left when its whole step moves less than this, relative to the solution, or after so many steps.
_SETTLED, _HARDLY = 0.1, 0.01
_MOST_STEPS = 12


class Ladder(NamedTuple):
    """The nugget of the level, 0 beside the ladder; steps taken on this level, and on the ladder in all."""

    level: float = 0.0
    steps: int = 0
    climbed: int = 0

    def is_needed(self, damping: float, far: bool) -> bool:
        """Whether a step without the ladder shows that it is needed. A ladder is taken once."""
        return self.climbed == 0 and far and is_astray(damping, self.steps + 1)

    def has_failed(self, damping: float, far: bool) -> bool:
        """Whether a step below the ladder shows that it did not lead there."""
        return self.climbed > 0 and self.level == 0.0 and far and is_astray(damping, self.steps + 1)

    def begun(self) -> "Ladder":
        return Ladder(_TOP, 0, 1)

    def climbing(self, nugget: float) -> bool:
        """Whether the level is still above the nugget that the result shall have."""
        return self.level > nugget

    def counted(self) -> "Ladder":
        return self._replace(steps=self.steps + 1)

    def next(self, damping: float, move: float, nugget: float) -> "Ladder":
        """The ladder after a step of the given damping (0 where it was not accepted) and length."""
        settled = damping == 1.0 and move < _SETTLED
        if damping > 0 and not settled and self.steps + 1 < _MOST_STEPS:
            return Ladder(self.level, self.steps + 1, self.climbed + 1)
        level = self.level * (_FAR_DOWN if settled and move < _HARDLY else _DOWN)
        return Ladder(level if level > nugget else 0.0, 0, self.climbed + 1)

    def notes(self) -> tuple[str, ...]:
        if self.climbed == 0:
            return ()
        end = "" if self.level == 0.0 else f", which it left at {self.level:.0e}"
        return (f"far from linear: {self.climbed - 1} steps went down a ladder of nuggets from {_TOP:g}{end}",)
