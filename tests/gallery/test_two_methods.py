"""One statement, two methods: their answers agree as closely as each says of itself that it is right."""

import numpy as np
import pytest

import gpde
from gpde.gallery import GALLERY, get

# Few points, so that there are errors to compare.
SIZES = {
    "poisson": (200, 80),
    "elliptic-disk": (150, 60),
    "bratu": (24, 2),
    "elliptic": (400, 120),
    "burgers": (800, 200),
    "helmholtz": (400, 120),
    "wave": (400, 120),
    "monge-ampere": (200, 80),
    "eikonal-hole": (300, 150),
    "heat-l-shape": (400, 300),
}
FAST = ("poisson",)


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in SIZES])
def test_two_methods_agree_within_what_they_say_of_their_errors(name):
    problem = get(name).build()
    sizes = dict(zip(("num_interior", "num_boundary"), SIZES[name], strict=True))
    solutions = [gpde.solve(problem, method=method, **sizes) for method in (gpde.FullBatch(), gpde.Consensus())]
    assert all(solution.result.successful for solution in solutions)
    points = problem.domain.test_points((12,) * problem.domain.dim)
    one, other = (solution(points) for solution in solutions)
    apart = np.sqrt(np.mean((one - other) ** 2))
    # An estimate is right within a factor of five.
    assert apart < 5 * sum(solution.error_estimate() for solution in solutions)


def test_every_entry_names_methods_that_there_are():
    names = {method.name for method in (gpde.FullBatch, gpde.Consensus, gpde.MiniBatch)}
    for entry in GALLERY.values():
        assert entry.methods[0] == "full-batch"
        assert set(entry.methods) <= names
        assert entry.accuracy in (1e-3, 1e-4, None)
