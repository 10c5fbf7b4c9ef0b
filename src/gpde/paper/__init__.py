"""The paper's experiments, by name. An experiment's own module is imported when it runs."""

import dataclasses
import difflib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpde.paper.base import Reproduction, Watch

__all__ = ["EXPERIMENTS", "Experiment", "get"]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One experiment: enough to list it without running it. `settings` are what it can be asked to change."""

    name: str
    summary: str
    settings: tuple[str, ...]

    def run(self, watch: "Watch", *, quick: bool = False, seed: int = 0, **given: Any) -> "Reproduction":
        """Runs it at the paper's size, or at a reduced one in under a minute; `given` replaces single settings of either."""
        unknown = [name for name in given if name not in self.settings]
        if unknown:
            raise ValueError(f"`{self.name}` has no setting `{unknown[0]}`; it takes {', '.join(self.settings)}.")
        module = importlib.import_module(f"gpde.paper.{self.name.replace('-', '_')}")
        return module.run(dataclasses.replace(module.QUICK if quick else module.FULL, **given), seed, watch)


_ENTRIES = (
    Experiment("elliptic", "Figure 1: the nonlinear elliptic equation, beside the full GP", ("batch_size", "num_steps")),
    Experiment("burgers", "Figure 2: Burgers' equation, beside the full GP", ("batch_size", "num_steps", "viscosity")),
    Experiment("batch-sizes", "Figure 3: loss and error for several batch sizes", ("num_steps", "viscosity", "realizations")),
    Experiment("elliptic-batch-sizes", "The same for the elliptic equation", ("num_steps", "realizations")),
    Experiment("continuation", "Burgers' equation from one viscosity to the next", ("batch_size", "num_steps")),
    Experiment("convergence", "Theorem 3.10: the gradient of the Moreau envelope", ("num_steps", "realizations")),
)
EXPERIMENTS: dict[str, Experiment] = {entry.name: entry for entry in _ENTRIES}


def get(name: str) -> Experiment:
    """The experiment of that name."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise ValueError(f"there is no experiment '{name}'.{hint} There are {', '.join(EXPERIMENTS)}.")
