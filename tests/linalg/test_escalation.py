"""Nuggets that are raised: by ten, as often as allowed, and only where it is needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpde.linalg.escalation import nugget_levels, raised_until_good, until_good


def test_the_nugget_grows_tenfold_a_stated_number_of_times():
    np.testing.assert_allclose(nugget_levels(1e-12, 3), [1e-12, 1e-11, 1e-10, 1e-9], rtol=1e-12)
    assert list(nugget_levels(1e-12, 0)) == [1e-12]


@pytest.mark.parametrize(("needed", "start", "expected"), [(3, -1, 3), (0, -1, 0), (9, -1, 5), (2, 3, 3), (2, 1, 2)])
def test_a_program_takes_the_first_good_level_above_the_last_or_the_largest_allowed(needed, start, expected):
    @jax.jit
    def found(needed, start):
        return until_good(lambda level: 10.0 * level, lambda value: value >= 10.0 * needed, (10.0 * start, start), 5)

    value, level = found(jnp.asarray(needed), jnp.asarray(start))
    assert (float(value), int(level)) == (10.0 * expected, expected)


def test_only_the_rows_of_a_table_that_failed_are_computed_again():
    needed, computed = np.array([1e-9, 1e-7, 1e-2]), []

    def compute(nuggets, rows):
        computed.append(np.arange(3)[rows].tolist())
        return np.log10(nuggets).round(), nuggets >= 0.99 * needed[rows]

    (levels, good), nuggets = raised_until_good(compute, np.full(3, 1e-9), 3)
    assert computed == [[0, 1, 2], [1, 2], [1, 2], [2]]
    assert levels.tolist() == [-9, -7, -6]
    assert good.tolist() == [True, True, False]
    np.testing.assert_allclose(nuggets, [1e-9, 1e-7, 1e-6])
