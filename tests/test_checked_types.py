"""The types of gpde are checked while the tests run, in functions within functions too (`conftest.py`)."""

import jax.numpy as jnp
import jaxtyping
import pytest
from beartype import beartype
from jaxtyping import Array, Float, TypeCheckError

from gpde.functionals.functionals import Functionals


def shifted_by(number):
    @jaxtyping.jaxtyped(typechecker=beartype)
    def shifted(x: Float[Array, " points"], y: Float[Array, " points"], *, shorter=False) -> Float[Array, " points"]:
        return (x + y + number)[int(shorter) :]

    return shifted


def test_a_function_of_gpde_refuses_an_argument_of_another_type():
    with pytest.raises(TypeCheckError, match="Functionals"):
        Functionals(points=3, operators="u")  # pyright: ignore


def test_each_function_within_a_function_is_checked_and_is_itself():
    x = jnp.zeros(3)
    for number in (1.0, 2.0):
        shifted = shifted_by(number)
        assert jnp.array_equal(shifted(x, y=x), x + number)
        with pytest.raises(TypeCheckError, match="parameter 'y'"):
            shifted(x, jnp.zeros(4))
        with pytest.raises(TypeCheckError, match="return value"):
            shifted(x, x, shorter=True)


def test_a_class_within_a_function_is_that_of_this_call():
    def wrapped(value):
        class Own:
            held = value

        @jaxtyping.jaxtyped(typechecker=beartype)
        def held(own: Own):
            return own.held

        return held(Own())

    assert (wrapped(1), wrapped(2)) == (1, 2)
