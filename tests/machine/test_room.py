"""Compiled programs are forgotten before the system has no room for more."""

import jax
import jax.numpy as jnp
import pytest

from gpde.machine import room


@pytest.mark.parametrize(("pieces", "forgets"), [(50, False), (70, True)])
def test_programs_are_forgotten_where_the_system_is_about_to_run_out_of_room(pieces, forgets, tmp_path, monkeypatch):
    (tmp_path / "limit").write_text("100\n")
    (tmp_path / "maps").write_text("a piece\n" * pieces)
    monkeypatch.setattr(room, "_LIMIT", tmp_path / "limit")
    monkeypatch.setattr(room, "_OWN", tmp_path / "maps")
    traced = []

    @jax.jit
    def doubled(x):
        traced.append(1)
        return 2 * x

    doubled(jnp.ones(3))
    assert room.make_room() == forgets
    assert doubled(jnp.ones(3)).tolist() == [2, 2, 2]
    assert len(traced) == 1 + forgets


def test_a_system_that_tells_no_limit_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_LIMIT", tmp_path / "nowhere")
    assert not room.make_room()
