"""Solutions in files: what is read is what was written, bit by bit, and nothing else is ever run."""

import json
from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from gpde import io
from gpde.domains import Box
from gpde.kernels import FunctionKernel, Gaussian, Matern
from gpde.methods import FullBatch
from gpde.problem import Problem
from gpde.problems import get
from gpde.solution import Solution, load
from gpde.solve import solve


@pytest.fixture(scope="module")
def solution() -> Solution:
    kernel = Matern(7 / 2, (0.5, 0.6), amplitude=2.0)
    return solve(get("elliptic").build(), kernel, num_interior=40, num_boundary=20, nugget=1e-8, seed=2)


@pytest.fixture
def path(solution: Solution, tmp_path: Any) -> Any:
    solution.save(str(tmp_path / "u.npz"))
    return tmp_path / "u.npz"


def same(a: Any, b: Any) -> bool:
    """Equal in type, structure and every bit of every number."""
    if isinstance(a, jax.Array | np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b or a != a)


def there_and_back(tree: Any) -> Any:
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(io.encode(tree, arrays), allow_nan=False)
    return io.decode(json.loads(text), arrays)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(trees)
def test_a_tree_comes_back_as_it_was(tree):
    assert same(there_and_back(tree), tree)


@given(st.lists(st.floats(), max_size=5))
def test_arrays_keep_their_bits_and_their_kind(numbers):
    assert same(there_and_back(np.array(numbers)), np.array(numbers))
    assert same(there_and_back(jnp.array(numbers)), jnp.array(numbers))


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.2),
        Gaussian((0.2, 0.3), amplitude=3.0, period={1: 2.0}),
        Matern(7 / 2, 0.1) * Gaussian(1.0) + Matern(11 / 2, (1.0, 2.0)),
    ],
    ids=repr,
)
def test_a_kernel_comes_back_as_it_was(kernel):
    assert bool(eqx.tree_equal(there_and_back(kernel), kernel))


def test_a_loaded_solution_is_the_same_function_bit_by_bit(solution, path):
    points = np.random.default_rng(0).random((33, 2))
    loaded = load(path)
    assert same(loaded(points), solution(points))
    assert same(loaded.std(points), solution.std(points))
    assert same(loaded.latent, solution.latent)


def test_a_loaded_solution_knows_how_it_was_found(solution, path):
    loaded = load(path)
    assert loaded.problem is None
    assert (loaded.fields, loaded.dim) == (("u",), 2)
    assert loaded.result == solution.result
    assert loaded.seconds == solution.seconds
    assert loaded.history == solution.history
    assert dict(loaded.settings) == dict(solution.settings)
    assert same(dict(loaded.points), dict(solution.points))
    assert bool(eqx.tree_equal(loaded.kernels, solution.kernels))


def test_the_residual_of_a_loaded_solution_needs_the_problem(solution, path):
    points = solution.points["interior"][:3]
    with pytest.raises(ValueError, match="problem="):
        load(path).residual(points)
    assert same(load(path, problem=solution.problem).residual(points), solution.residual(points))


def test_a_problem_with_other_coordinates_is_refused(path):
    other = Problem(domain=Box(0.0, 1.0), equations={"boundary": lambda u, x: u(x)})
    with pytest.raises(ValueError, match="2 coordinates"):
        load(path, problem=other)


def test_a_saved_solution_can_be_saved_again(path, tmp_path):
    load(path).save(str(tmp_path / "again.npz"))
    points = np.array([[0.2, 0.7]])
    assert same(load(tmp_path / "again.npz")(points), load(path)(points))


def test_a_kernel_given_as_a_function_cannot_be_saved_and_the_error_says_what_to_do():
    kernel = FunctionKernel(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)))
    with pytest.raises(ValueError, match="Python function"):
        io.encode(kernel + Gaussian(1.0), {})


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_called_damaged(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="damaged"):
        load(path)


@pytest.mark.parametrize("content", [b"hello", b"\x80\x04K\x01.", b"\x93NUMPY"])
def test_a_file_from_elsewhere_is_not_read(tmp_path, content):
    (tmp_path / "u.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not written by"):
        load(tmp_path / "u.npz")


def test_an_archive_of_other_arrays_is_not_read(tmp_path):
    np.savez(tmp_path / "u.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="no header"):
        load(tmp_path / "u.npz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file '.*missing\.npz'"):
        load(tmp_path / "missing.npz")


def test_a_file_of_a_later_format_says_so(path):
    header, arrays = io.read(path)
    io.write(path, {**header, "format": io.FORMAT + 1}, arrays)
    with pytest.raises(ValueError, match=f"format {io.FORMAT + 1}"):
        load(path)


@pytest.mark.parametrize("name", ["Popen", "object", "Problem", "AbstractKernel", "Gaussian"])
def test_a_file_cannot_name_a_class_that_is_not_for_files_or_has_other_fields(name):
    with pytest.raises(ValueError, match="does not know"):
        io.decode({"class": name, "fields": {"args": "ls"}}, {})


def test_a_write_that_fails_leaves_the_old_file_and_no_other(solution, path, monkeypatch):
    before = path.read_bytes()

    def full_disk(file, **_):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space"):
        solution.save(str(path))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_directory_is_named(solution, tmp_path):
    with pytest.raises(ValueError, match="make it first"):
        solution.save(str(tmp_path / "nowhere" / "u.npz"))


def test_the_settings_of_a_method_are_in_the_file(path):
    header, arrays = io.read(path)
    assert io.decode(header["settings"], arrays)["max_steps"] == FullBatch().max_steps
