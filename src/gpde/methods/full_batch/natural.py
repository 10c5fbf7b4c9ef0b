r"""Steps that are measured by where they lead, not by what equations say: where a ladder of nuggets does not help.

The norm with the misfit of the equations falls along a Gauss-Newton step only as far as these are straight, to all the digits
that a tiny nugget asks for. Where they leave the solution nearly free to move, as the place of a layer between two phases, the
step is long and hardly any of it is taken. Deuflhard's *natural monotonicity test* compares what matters: with the rows
$\Psi$ of the step kept, the next one from $z_t = z + t\,\Delta$ would be

$$ \bar\Delta(t) = K\Psi^T(\Psi K\Psi^T + \Lambda)^{-1}\bigl(\Psi z_t - f(z_t) + y\bigr) - z_t, $$

which costs two triangular solves, and $t$ is short enough when $|\bar\Delta(t)| \le |\Delta|$, in prior standard deviations
(P. Deuflhard, *Newton Methods for Nonlinear Problems*, Springer 2004, Sec. 3.3).
"""

from typing import NamedTuple

_MOST_STEPS = 50


class Natural(NamedTuple):
    """How many such steps were taken, 0 where there was no need, and whether they have ended without a solution."""

    steps: int = 0
    failed: bool = False

    @property
    def going(self) -> bool:
        return self.steps > 0 and not self.failed

    def begun(self) -> "Natural":
        return Natural(1)

    def next(self, accepted: bool) -> "Natural":
        return Natural(self.steps + 1, failed=not accepted or self.steps >= _MOST_STEPS)

    def notes(self) -> tuple[str, ...]:
        if self.steps == 0:
            return ()
        end = ", which did not lead there" if self.failed else ""
        return (f"{self.steps - 1} steps were measured by where they lead{end}",)
