"""Linear operators as data: how they read, and the fewest that span given rows."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra.numpy import arrays

from gpde.equations.linear_operators import coefficient_matrix, is_point_value, operator_order, operator_text, row_space

U, U_X, U_Y = (0, (0, 0)), (0, (1, 0)), (0, (0, 1))
U_XX, U_XY, U_YY = (0, (2, 0)), (0, (1, 1)), (0, (0, 2))
COLUMNS = (U, U_X, U_Y, U_XX, U_XY, U_YY)

LAPLACIAN = ((0, (((2, 0), 1.0), ((0, 2), 1.0))),)
VALUE = ((0, (((0, 0), 1.0),)),)


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (VALUE, "u"),
        (LAPLACIAN, "Δu"),
        (((0, (((1, 0), 1.0), ((0, 2), -0.02))),), "u_t - 0.02 u_xx"),
        (((0, (((2, 0), -1.0), ((0, 2), -1.0))),), "-Δu"),
        (((0, (((2, 0), 1.0), ((0, 2), 2.0))),), "u_tt + 2 u_xx"),
        (((0, (((1, 0), 1.0),)), (1, (((0, 1), -1.0),))), "u_t - v_x"),
        (((1, (((2, 2), 3.0),)),), "3 v_ttxx"),
    ],
)
def test_an_operator_reads_as_a_person_writes_it(operator, text):
    assert operator_text(operator, ("u", "v"), ("t", "x")) == text


def test_in_one_dimension_the_second_derivative_is_not_called_a_laplacian():
    assert operator_text(((0, (((2,), 1.0),)),), ("u",), ("x",)) == "u_xx"


def test_the_order_is_that_of_the_highest_derivative():
    assert operator_order(VALUE) == 0
    assert operator_order(((0, (((0, 0), 1.0), ((3, 1), 0.5))),)) == 4


def test_only_the_value_of_one_field_is_a_point_value():
    assert is_point_value(VALUE)
    assert not is_point_value(LAPLACIAN)
    assert not is_point_value(((0, (((0, 0), 1.0),)), (1, (((0, 0), 1.0),))))


def test_rows_that_share_a_combination_of_derivatives_give_one_operator():
    rows = np.array([[5.0, 0, 0, -1, 0, -1], [0.3, 0, 0, 2, 0, 2], [1.0, 0, 0, 0, 0, 0]])
    operators, pivots = row_space(rows, COLUMNS, (1.0, 1.0), minimal=True)
    assert operators == (VALUE, LAPLACIAN)
    assert pivots == (U, U_XX)


def test_derivatives_are_kept_apart_on_request():
    operators, pivots = row_space(np.array([[0.0, 0, 0, -1, 0, -3]]), COLUMNS, (1.0, 1.0), minimal=False)
    assert [operator_text(o, ("u",), ("x", "y")) for o in operators] == ["u_xx", "u_yy"]
    assert pivots == (U_XX, U_YY)


def test_coefficients_keep_the_decimals_that_were_meant():
    # 1 - 0.98 is 0.020000000000000018 in floating point.
    (((operator,),), _) = row_space(np.array([[0.0, 1.0, 0, 0, 0, -(1 - 0.98)]]), COLUMNS, (1.0, 1.0), minimal=True)
    assert operator == (0, (((1, 0), 1.0), ((0, 2), -0.02)))


@hypothesis.given(arrays(np.int64, (3, 6), elements=st.integers(-3, 3)), arrays(np.int64, (5, 3), elements=st.integers(-3, 3)))
def test_every_row_is_a_combination_of_the_operators_with_its_pivot_entries_as_weights(basis, weights):
    rows = (weights @ basis).astype(float)
    hypothesis.assume(np.any(rows))
    operators, pivots = row_space(rows, COLUMNS, (1.0, 1.0), minimal=True)
    assert len(operators) == np.linalg.matrix_rank(rows)
    columns = [COLUMNS.index(pivot) for pivot in pivots]
    np.testing.assert_allclose(rows[:, columns] @ coefficient_matrix(operators, COLUMNS), rows, atol=1e-8 * np.abs(rows).max())
