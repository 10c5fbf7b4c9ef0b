"""What learning a kernel costs: its time against that of a solve with the kernel it found, and errors before and after."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.gallery import get
from gpde.kernels import Gaussian
from gpde.learning.learned import Learned
from gpde.solution._solve import solve
from gpde.solution.errors import Predictions, error_points, errors

# Problems, points inside and on the boundary, and lengthscales to start from.
CASES = [("elliptic", 900, 300, (0.6, 0.05)), ("burgers", 2000, 400, (0.2,))]
QUICK = [("elliptic", 60, 20, (0.6,))]


def main(quick: bool = False) -> None:
    """Prints the table. Programs are compiled by a first run that is not counted."""
    columns = ("problem", "start", "learned", "learning, s", "solve, s", "ratio", "L2 from the start", "L2 learned")
    table = Table(*columns, title="learning")
    for name, num_interior, num_boundary, starts in QUICK if quick else CASES:
        problem = get(name).build()
        arguments: dict[str, Any] = {"num_interior": num_interior, "num_boundary": num_boundary}
        for lengthscale in starts:
            start = Gaussian(lengthscale)
            solve(problem, Learned(start), **arguments)
            before, learned = solve(problem, start, **arguments), solve(problem, Learned(start), **arguments)
            assert learned.learning is not None
            again = solve(problem, learned.learning.kernel, **arguments)
            kernel = learned.learning.kernels[0]
            l2 = [errors(Predictions(s), error_points(problem))["l2"] for s in (before, learned)]
            seconds = learned.learning.seconds, again.seconds.run
            found = ", ".join(f"{each:.3g}" for each in np.asarray(kernel.lengthscales(problem.domain.dim)))
            table.add_row(
                name, f"{lengthscale:g}", found, *(f"{s:.2f}" for s in seconds), f"{seconds[0] / seconds[1]:.1f}",
                *(f"{each:.1e}" for each in l2),
            )  # fmt: skip
    Console().print(table)
