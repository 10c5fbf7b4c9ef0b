"""Figures, drawn from solutions that are formulas: no solve is needed to look at one."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gpde.domains import Box, Divided, SpaceTime
from gpde.operators import laplacian
from gpde.outcomes import Outcome, Result
from gpde.problem.problem import Defaults, Observations, Problem
from gpde.problem.unknowns import Unknown
from gpde.solution.errors import grid_shape, reference_values
from gpde.solution.plotting import plot_solution


@dataclasses.dataclass
class Formula:
    """What a figure needs of a solution."""

    problem: Any
    value: Callable[[np.ndarray], np.ndarray]
    points: dict[str, np.ndarray]
    history: list[dict[str, float]]
    domain: Any
    fields: tuple[str, ...]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def result(self) -> Result:
        return Result(Outcome.CONVERGED, 2, "full-batch", 1e-10)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.value(x)

    def std(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(self.value(x), 0.1)


HISTORY = [{"residual": 1.0, "step": 0.5}, {"residual": 1e-3, "step": 1e-4}]


def formula(domain: Any, value: Callable[..., Any], fields: tuple[str, ...] = ("u",), **options: Any) -> Formula:
    equations = {"interior": [lambda *a, i=i: laplacian(a[i])(a[-1]) for i in range(len(fields))]}
    problem = Problem(domain=domain, equations=equations, fields=fields, **options)
    return Formula(problem, value, {"interior": domain.sample("interior", 20)}, HISTORY, domain, fields)


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def square(**options: Any) -> Formula:
    """A solution that is 0.001 too high everywhere but at the left side, where it is 0.002 too high."""

    def value(x: np.ndarray) -> np.ndarray:
        return x[:, 0] * x[:, 1] + np.where(x[:, 0] == 0, 2e-3, 1e-3)

    return formula(Box((0.0, 0.0), (1.0, 1.0)), value, reference=lambda x: x[0] * x[1], **options)


def test_a_figure_in_the_plane_has_truth_solution_error_points_and_history():
    figure = plot_solution(square(), grid=(11, 11))
    assert [title.split()[0] for title in titles(figure)] == ["truth", "solution", "error:", "20", "history"]
    # 11 of 121 grid points have the larger error.
    rms = np.sqrt((110 * 1e-6 + 11 * 4e-6) / 121)
    assert "2.0e-03" in titles(figure)[2]
    assert f"{rms:.1e}" in titles(figure)[2]


def test_truth_and_solution_share_their_colours():
    truth, solution = [axes.collections[0] for axes in plot_solution(square(), grid=(9, 9)).axes[:2]]
    assert truth.get_clim() == solution.get_clim() == pytest.approx((0.0, 1.001))


def test_without_a_reference_there_is_neither_truth_nor_error():
    drawn = formula(Box((0.0, 0.0), (1.0, 1.0)), lambda x: x[:, 0])
    assert [t.split()[0] for t in titles(plot_solution(drawn, grid=(5, 5)))] == ["solution", "20", "history"]


def test_the_standard_deviation_is_a_panel_when_asked_for():
    assert "standard deviation of u" in titles(plot_solution(square(), grid=(5, 5), std=True))


def test_axes_are_named_after_the_coordinates():
    drawn = formula(SpaceTime((-1.0, 1.0), 0.0, 2.0), lambda x: x[:, 0])
    axes = plot_solution(drawn, grid=(5, 5)).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("t", "x")
    assert axes.get_xlim() == (0.0, 2.0)


def test_every_field_has_a_row():
    drawn = formula(
        Box((0.0, 0.0), (1.0, 1.0)),
        lambda x: np.stack([x[:, 0], 5 * x[:, 1]], axis=1),
        fields=("u", "v_2_3"),  # a name that mathematical typesetting would choke on
        reference=lambda x: (x[0], 5 * x[1]),
    )
    figure = plot_solution(drawn, grid=(5, 5))
    assert [t for t in titles(figure) if t.startswith("solution")] == ["solution u", "solution v_2_3"]
    figure.canvas.draw()


def test_an_exact_solution_and_a_constant_one_can_be_drawn():
    exact = formula(Box((0.0, 0.0), (1.0, 1.0)), lambda x: 0.0 * x[:, 0], reference=lambda x: 0.0 * x[0])
    figure = plot_solution(exact, grid=(5, 5))
    figure.canvas.draw()
    fields = [collection.get_array() for axes in figure.axes for collection in axes.collections]
    assert all(np.isfinite(field).all() for field in fields if field is not None)


def test_in_space_the_plane_through_the_middle_is_drawn():
    seen = []

    def value(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x[:, 0]

    figure = plot_solution(formula(Box((0.0, 0.0, 0.0, 2.0), (1.0, 1.0, 1.0, 4.0)), value), grid=(4, 4))
    assert np.unique(seen[0][:, 2:], axis=0).tolist() == [[0.5, 3.0]]
    assert titles(figure)[0].endswith("at x2 = 0.5, x3 = 3")


def test_a_plane_in_time_is_drawn_at_the_end():
    figure = plot_solution(formula(SpaceTime(Box((0.0, 0.0), (1.0, 2.0)), 0.0, 3.0), lambda x: x[:, 0]), grid=(4, 4))
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x", "y")
    assert titles(figure)[0].endswith("at t = 3")
    assert np.all(np.asarray(figure.axes[0].collections[0].get_array()) == 3.0)


def test_the_picture_of_a_field_ends_where_the_field_does():
    domain = Divided(Box((0.0, 0.0), (2.0, 1.0)), Box((0.0, 0.0), (0.7, 1.0)))
    fields = {"u": Unknown(on="inside"), "v": Unknown(on="outside")}
    equations = {"inside": lambda u, v, x: laplacian(u)(x), "outside": lambda u, v, x: laplacian(v)(x)}
    problem = Problem(domain, equations, fields=fields, reference=lambda x: (x[0], x[0]))

    def value(x: np.ndarray) -> np.ndarray:
        return np.stack([np.where(x[:, 0] <= 0.7 + 1e-6, x[:, 0], np.nan), np.where(x[:, 0] >= 0.7 - 1e-6, x[:, 0], np.nan)], 1)

    drawn = Formula(problem, value, {"inside": domain.sample("inside", 20)}, HISTORY, domain, problem.fields)
    figure = plot_solution(drawn, grid=(9, 5))
    truth = [a.collections[0] for a in figure.axes if a.get_title(loc="left").startswith("truth")]
    assert [image.get_clim() for image in truth] == [pytest.approx((0.0, 0.7)), pytest.approx((0.7, 2.0))]
    ends = [np.array([path.vertices for path in image.get_paths()])[..., 0] for image in truth]
    assert [(x.min(), x.max()) for x in ends] == [pytest.approx((0.0, 0.7)), pytest.approx((0.7, 2.0))]


def line() -> Formula:
    data = Observations(np.array([[0.25], [0.75]]), np.array([1.0, 2.0]), noise=0.1)
    return formula(Box(0.0, 1.0), lambda x: x[:, 0], observations=data, reference=lambda x: x[0])


def test_a_line_has_a_band_of_two_standard_deviations_and_the_measurements():
    main = plot_solution(line(), grid=(11,)).axes[0]
    band = np.asarray(main.collections[0].get_paths()[0].vertices)
    assert band[:, 1].min() == pytest.approx(-0.2)
    assert band[:, 1].max() == pytest.approx(1.2)
    legend: Any = main.get_legend()
    assert {text.get_text() for text in legend.get_texts()} >= {"± 2 std", "truth", "solution", "data"}


def test_the_history_counts_steps_even_if_an_entry_stands_for_many():
    drawn = dataclasses.replace(square(), history=[{"loss": 1.0, "num_steps": 100}, {"loss": 0.1, "num_steps": 50}])
    lines = plot_solution(drawn, grid=(5, 5)).axes
    history = next(axes for axes in lines if axes.get_title(loc="left").startswith("history"))
    assert np.array_equal(history.lines[0].get_xdata(), [100, 150])


def test_sweeps_are_drawn_in_the_place_of_the_loss():
    sweeps = [{"num_points": 40, "change": 1e-2, "weight": 1.0}, {"num_points": 80, "change": 1e-4, "weight": 30.0}]
    drawn = dataclasses.replace(square(), history=[{"loss": 1.0, "num_steps": 100, "sweeps": sweeps}])
    history = next(a for a in plot_solution(drawn, grid=(5, 5)).axes if a.get_title(loc="left").startswith("history"))
    (line,) = history.lines
    assert line.get_label() == "change over a sweep"
    assert np.array_equal(line.get_xdata(), [40, 120])


def test_the_objective_is_drawn_beside_the_history_on_a_scale_of_its_own():
    history = [{"residual": 1.0, "step": 0.5, "objective": 1e9}, {"residual": 1e-3, "step": 1e-4, "objective": 1e4}]
    panels = plot_solution(dataclasses.replace(square(), history=history), grid=(5, 5)).axes
    left = next(axes for axes in panels if axes.get_title(loc="left").startswith("history"))
    right = next(axes for axes in panels if axes.get_ylabel() == "objective")
    assert np.array_equal(right.lines[0].get_ydata(), [1e9, 1e4])
    assert right.get_yscale() == "log"
    legend: Any = left.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["residual", "step", "objective"]
    without = plot_solution(square(), grid=(5, 5)).axes
    assert not any(axes.get_ylabel() == "objective" for axes in without)


def test_a_figure_is_written_and_leaves_no_state_behind(tmp_path):
    from matplotlib import pyplot, rcParams

    before = dict(rcParams)
    plot_solution(square(), tmp_path / "u.png", grid=(5, 5))
    assert (tmp_path / "u.png").read_bytes().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []
    assert dict(rcParams) == before


def test_a_solution_without_its_problem_is_drawn_without_truth_and_error():
    for drawn, panels in ((square(), ["solution", "20", "history"]), (line(), ["solution", "history"])):
        figure = plot_solution(dataclasses.replace(drawn, problem=None), grid=(5,) * drawn.domain.dim)
        assert [title.split()[0] for title in titles(figure)] == panels


def test_reference_values_have_a_column_for_each_field():
    problem = formula(Box(0.0, 1.0), np.sin, ("u", "v"), reference=lambda x: (x[0], jnp.sin(x[0]))).problem
    points = np.linspace(0, 1, 5)[:, None]
    values: Any = reference_values(problem, points)
    assert np.allclose(values, np.hstack([points, np.sin(points)]), rtol=1e-15)


@pytest.mark.parametrize(("dim", "shape"), [(1, (400,)), (2, (60, 60)), (3, (16, 16, 16)), (6, (4,) * 6)])
def test_a_test_grid_stays_affordable_in_every_dimension(dim, shape):
    assert grid_shape(dim) == shape


def test_a_problem_may_say_its_test_grid():
    assert grid_shape(2, square(defaults=Defaults(grid=(3, 4))).problem) == (3, 4)
