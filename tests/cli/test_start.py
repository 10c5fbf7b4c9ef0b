"""What a command sets before it starts: compiled programs are kept between commands, where that is possible."""

import json
import os
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from gpde.cli import start

TINY = ["poisson", "--num-interior", "20", "--num-boundary", "12", "--no-figure", "--quiet", "--json", "-"]


# Every time that JAX looks for a program and finds it there: seconds would tell as much, where nothing else runs.
COMMAND = """
import jax
from pathlib import Path

def note(event, **_):
    if event.endswith("compilation_cache/cache_hits"):
        hits = Path("hits")
        hits.write_text(hits.read_text() + "|")

jax.monitoring.register_event_listener(note)
from gpde.cli import main
main()
"""


def solve(folder, home):
    """A command of its own, with a cache folder of its own: what it printed, what it kept and how often it found that."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment["XDG_CACHE_HOME"] = str(home)
    command = [sys.executable, "-W", "error", "-c", COMMAND, "solve", *TINY]
    (folder / "hits").write_text("")
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "--output", str(folder)], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    took = time.perf_counter() - began
    programs = home / "gpde" / "programs"
    kept = {file.name: file.stat().st_mtime_ns for file in programs.iterdir()} if programs.is_dir() else {}
    with np.load(folder / "solution.npz") as file:
        arrays = {name: array for name, array in file.items() if name != "header"}
    report = json.loads(ended.stdout)
    # What is missing is writing the report, and going; `gpde bench clock` says how little that is when nothing else runs.
    assert 0.75 * took < report["seconds"]["total"] < took
    return report, arrays, kept, len((folder / "hits").read_text())


def test_the_second_command_reads_what_the_first_has_compiled_and_gives_the_same_bits(tmp_path):
    home = tmp_path / "cache"
    first, solution, kept, _ = solve(tmp_path, home)
    again, same, kept_then, num_found = solve(tmp_path, home)
    assert len(kept) > 10
    assert kept_then == kept  # nothing was compiled that had not been
    assert num_found >= len(kept)  # and every one of them was read
    assert again["errors"] == first["errors"]
    assert all(np.array_equal(solution[name], same[name]) for name in solution)


@pytest.fixture
def unset():
    """JAX as a command finds it, and afterwards as it was."""
    before = {name: value for name, value in jax.config.values.items() if "cache" in name}
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", True)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def folder_in_use():
    return jax.config.values["jax_compilation_cache_dir"] if jax.config.values["jax_enable_compilation_cache"] else None


@pytest.mark.usefixtures("unset")
def test_without_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    start.prepare_jax(cache=False)
    assert folder_in_use() is None
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("unset")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    start.prepare_jax()
    assert folder_in_use() is None


@pytest.mark.usefixtures("unset")
def test_a_folder_that_the_user_has_chosen_for_jax_is_left(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    start.prepare_jax()
    assert folder_in_use() == str(tmp_path)


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "~/.cache"),
        ("linux", {"XDG_CACHE_HOME": "/fast"}, "/fast"),
        ("darwin", {}, "~/Library/Caches"),
        ("win32", {}, "~/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local"),
    ],
)
def test_programs_are_kept_where_the_platform_keeps_such_things(platform, environment, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(start.Path, "home", lambda: tmp_path)
    assert start.programs_folder().as_posix() == f"{expected.replace('~', tmp_path.as_posix())}/gpde/programs"


def test_a_full_folder_loses_what_was_used_longest_ago(tmp_path):
    for age in range(10):
        file = tmp_path / f"{age} days old"
        file.write_bytes(bytes(100))
        then = 1e9 - 86400 * age
        os.utime(file, (then, then))
    start.trim(tmp_path, 1000)
    assert len(list(tmp_path.iterdir())) == 10
    start.trim(tmp_path, 999)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{age} days old" for age in range(4)]
