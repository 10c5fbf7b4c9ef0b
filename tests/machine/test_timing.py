"""The clock that keeps compiling and running apart."""

import time

import jax
import jax.numpy as jnp
import pytest

from gpde.machine.timing import CompileClock


def fresh_function(power):
    """A function no one has compiled yet."""

    @jax.jit
    def function(x):
        for _ in range(30):
            x = jnp.sin(x) ** power + jnp.cos(x @ x)
        return x

    return function


def test_the_first_call_compiles_and_the_second_does_not():
    function, x = fresh_function(2), jnp.eye(3)
    with CompileClock() as first:
        function(x).block_until_ready()
    with CompileClock() as second:
        function(x).block_until_ready()
    assert first.compile > 0.01
    assert second.compile == 0.0
    assert second.run == second.total


def test_compile_and_run_add_up_to_the_wall_clock():
    function, x = fresh_function(3), jnp.eye(3)
    start = time.perf_counter()
    with CompileClock() as clock:
        function(x).block_until_ready()
        time.sleep(0.2)
    elapsed = time.perf_counter() - start
    assert clock.compile + clock.run <= elapsed
    assert clock.run >= 0.2
    assert clock.compile < elapsed - 0.2


def test_an_event_swallows_those_it_contains_and_nothing_else(monkeypatch):
    now = 0.0
    monkeypatch.setattr("gpde.machine.timing.time.perf_counter", lambda: now)
    with CompileClock() as clock:
        now = 5.0
        clock.add(2.0)  # from 3 to 5
        now = 6.0
        clock.add(4.0)  # from 2 to 6: around it
        assert clock.compile == 4.0
        now = 9.0
        clock.add(1.0)  # from 8 to 9: apart
        assert clock.compile == 5.0
        now = 10.0
    assert clock.run == 5.0


def test_clocks_nest():
    function, x = fresh_function(4), jnp.eye(3)
    with CompileClock() as outer:
        with CompileClock() as inner:
            function(x).block_until_ready()
        after = outer.compile
    assert inner.compile > 0
    assert abs(after - inner.compile) < 0.1 * inner.compile + 1e-3
    assert outer.total >= inner.total


def test_a_clock_stops_when_its_block_fails():
    clock = CompileClock()
    with pytest.raises(RuntimeError), clock:
        raise RuntimeError
    assert clock.total > 0
    compiled = clock.compile
    fresh_function(5)(jnp.eye(3)).block_until_ready()
    assert clock.compile == compiled
