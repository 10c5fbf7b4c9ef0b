r"""Figure 1: $-\Delta u + u^3 = f$ with latent values $u, \Delta u$ (paper, Sec. 4.1)."""

import dataclasses

from gpde.gallery import get
from gpde.paper.base import Reproduction, Watch
from gpde.paper.single_run import cases, compare


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's, where no other source is named. Kernel and nugget are those of the gallery, which are the paper's too."""

    num_interior: int = 900
    num_boundary: int = 300
    batch_size: int = 64
    num_steps: int = 40_000
    max_inner_steps: int = 30
    weights: tuple[float, ...] = tuple(10.0**k for k in range(0, 13, 2))  # γ/λ; the paper has γ = 1 and a small λ


FULL = Settings()
QUICK = Settings(num_interior=400, num_boundary=120, num_steps=4_000, weights=(1.0, 1e4, 1e8))


def run(settings: Settings, seed: int, watch: Watch) -> Reproduction:
    """The paper's metric at several weights, anchored batches, and the full GP on the same points."""
    # The fewest functionals are the paper's.
    tried = cases(settings.batch_size, settings.num_steps, settings.max_inner_steps, ("minimal",), settings.weights)
    return compare(get("elliptic").build(), tried, settings.num_interior, settings.num_boundary, seed, watch)
