"""Solutions in files: what is read is what was written, bit by bit, and nothing else is ever run."""

import importlib
import json
import pkgutil
import subprocess
import sys
from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import gpde
from gpde.domains import AbstractDomain, Box, SpaceTime
from gpde.gallery import get
from gpde.kernels import FunctionKernel, Gaussian, Matern
from gpde.methods import FullBatch
from gpde.operators import partial
from gpde.problem.problem import Observations, Problem
from gpde.solution import files
from gpde.solution._solve import solve
from gpde.solution.fingerprint import check_same, fingerprint
from gpde.solution.solution import Solution, load


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
    text = json.dumps(files.encode(tree, arrays), allow_nan=False)
    return files.decode(json.loads(text), arrays)


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


def test_a_saved_solution_can_be_saved_again(path, tmp_path):
    load(path).save(str(tmp_path / "again.npz"))
    points = np.array([[0.2, 0.7]])
    assert same(load(tmp_path / "again.npz")(points), load(path)(points))


def test_a_kernel_given_as_a_function_cannot_be_saved_and_the_error_says_what_to_do():
    kernel = FunctionKernel(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)))
    with pytest.raises(ValueError, match="Python function"):
        files.encode(kernel + Gaussian(1.0), {})


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
    header, arrays = files.read_file(path)
    files.write(path, {**header, "format": files.FORMAT + 1}, arrays)
    with pytest.raises(ValueError, match=f"format {files.FORMAT + 1}"):
        load(path)


@pytest.mark.parametrize("name", ["Popen", "subprocess:Popen", "builtins:object", "gpde:Problem", "gpde:AbstractKernel"])
def test_a_file_cannot_name_a_class_that_is_not_for_files(name):
    with pytest.raises(ValueError, match=r"does not know|not at hand"):
        files.decode({"class": name, "fields": {"args": "ls"}}, {})


def test_a_class_with_other_fields_is_not_filled_with_those_of_the_file():
    with pytest.raises(ValueError, match="a Gaussian that this version of gpde does not know"):
        files.decode({"class": "gpde:Gaussian", "fields": {"args": "ls"}}, {})


# --- classes from elsewhere

FOREIGN = """
import equinox as eqx
import jax.numpy as jnp
from gpde.kernels import AbstractRadial


class Gaussian(AbstractRadial):
    "Not gpde's Gaussian: a rational quadratic kernel, with the same fields."

    lengthscale: object = eqx.field(converter=jnp.asarray)
    amplitude: object = eqx.field(converter=jnp.asarray, default=1.0)
    period: tuple = eqx.field(static=True, default=())
    smoothness = None

    def profile(self, q, num_derivatives):
        base, factor, values = 1.0 + q, 1.0, []
        for k in range(num_derivatives + 1):
            values.append(factor * base ** (-1.0 - k))
            factor *= -(1.0 + k)
        return values
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A user's module with a kernel of his own called `Gaussian`."""
    (tmp_path / "my_kernels.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("my_kernels")
    del sys.modules["my_kernels"]


def test_a_kernel_of_the_user_that_is_called_as_one_of_ours_comes_back_as_itself(foreign):
    for kernel, cls in ((foreign.Gaussian(0.7), foreign.Gaussian), (Gaussian(0.7), Gaussian)):
        again = there_and_back(kernel)
        assert type(again) is cls
        x, y = jnp.array([0.1, 0.2]), jnp.array([0.6, 0.4])
        q = 0.29 / 2 / 0.49
        expected = np.exp(-q) if cls is Gaussian else 1 / (1 + q)
        np.testing.assert_allclose(again(x, y), expected, rtol=1e-14)


def test_a_kernel_whose_class_is_not_at_hand_is_named_with_its_module(foreign, tmp_path):
    problem = Problem(domain=Box(0.0, 1.0), equations={"boundary": lambda u, x: u(x) - x[0]})
    solve(problem, foreign.Gaussian(0.7), num_boundary=2, seed=1).save(tmp_path / "u.npz")
    program = (
        "import sys, jax; jax.config.update('jax_enable_x64', True); import gpde\n"
        "try: gpde.load(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
        "import my_kernels; print(type(gpde.load(sys.argv[1]).kernels['u']) is my_kernels.Gaussian)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "u.npz")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    refused, loaded = run.stdout.splitlines()
    assert "a `Gaussian` of the module `my_kernels`, which is not at hand: import or define that class" in refused
    assert loaded == "True"


# --- the domain


@pytest.mark.parametrize(
    "domain",
    [
        Box(0.1, 1.0 / 3.0),
        Box((0, -2, 1), (3, 5, 1.5)),
        Box((0, 0), (1, 2), ("lon", "lat")),
        SpaceTime((-1, 1), 0, 0.1),
        SpaceTime(Box((0, 0), (1, 2), ("r", "z")), 0, 3),
    ],
    ids=repr,
)
def test_a_domain_comes_back_as_it_was(domain):
    again = there_and_back(domain)
    assert type(again) is type(domain)
    assert repr(again) == repr(domain)
    assert (again.parts, again.coordinates) == (domain.parts, domain.coordinates)
    assert same(again.lower, domain.lower)
    assert same(again.upper, domain.upper)


def test_points_outside_the_domain_are_refused_after_loading_too(path):
    with pytest.raises(ValueError, match=r"1 of 1 lie outside Box\(\(0, 0\), \(1, 1\)\)"):
        load(path)([[0.5, 1.5]])


UserDomain: Any = AbstractDomain  # whose members a user gives as plain attributes


class Interval(UserDomain):
    """A domain of the user, of which a box with two ends is left when nobody knows it."""

    coordinates, atoms, unions = ("s",), ("interior", "ends"), {"boundary": ("ends",)}
    lower, upper = property(lambda self: np.array([-self.half])), property(lambda self: np.array([self.half]))

    def __init__(self, half):
        self.half = half

    def atom_extent(self, atom):
        return np.array([2 * self.half] if atom == "interior" else [])

    def atom_measure(self, atom):
        return 2 * self.half if atom == "interior" else 1.0

    def place(self, atom, unit):
        return self.half * (2 * unit - 1) if atom == "interior" else np.full((len(unit), 1), self.half)

    def contains(self, points, tolerance=1e-9):
        return np.abs(points[:, 0]) <= self.half * (1 + tolerance)

    def on_atom(self, atom, points, tolerance):
        at_end = np.abs(np.abs(points[:, 0]) - self.half) <= tolerance * self.half
        return at_end if atom == "ends" else self.contains(points) & ~at_end

    def atom_normal(self, atom, points):
        return np.sign(points)


def test_a_domain_of_the_user_is_itself_where_its_class_is_known_and_else_the_box_around_it(tmp_path):
    domain = SpaceTime(Interval(2.0), 0.0, 1.0)
    problem = Problem(domain, {"initial": lambda u, x: u(x) - x[1]})
    solution = solve(problem, Gaussian(1.0), num_boundary=5)
    solution.save(tmp_path / "u.npz")
    loaded: Any = load(tmp_path / "u.npz")
    assert isinstance(loaded.domain.space, Interval)
    assert loaded.result == solution.result

    header, arrays = files.read_file(tmp_path / "u.npz")
    elsewhere = json.dumps(header).replace(f"{__name__}:Interval", "elsewhere:Interval")
    files.write(tmp_path / "u.npz", json.loads(elsewhere), arrays)
    loaded = load(tmp_path / "u.npz")
    assert repr(loaded.domain) == "SpaceTime(Box(-2, 2, ('s',)), 0, 1)"
    assert loaded.domain.coordinates == ("t", "s")
    assert "the domain in the file is the box around Interval(half=2.0)" in str(loaded.result)
    assert load(tmp_path / "u.npz", problem=problem).domain is domain


# --- the problem


def diffusion(viscosity=0.1, *, end=1.0, fields=("u",), seen=0.5, extra=()):
    """u_t = ν u_xx, written anew on each call."""

    def conditions(i):
        return lambda *a: partial(a[i], 0)(a[-1]) - viscosity * partial(a[i], 1, 1)(a[-1])

    equations = {
        "interior": [conditions(i) for i in range(len(fields))],
        "initial": [lambda *a, i=i: a[i](a[-1]) - jnp.sin(a[-1][1]) for i in range(len(fields))],
        **{part: lambda *a: a[0](a[-1]) for part in extra},
    }
    data = Observations(np.array([[0.5, 0.5]]), np.array([seen]))
    return Problem(SpaceTime((0.0, end), 0.0, 1.0), equations, fields=fields, observations=data)


@pytest.fixture(scope="module")
def solved_diffusion(tmp_path_factory):
    path = tmp_path_factory.mktemp("diffusion") / "u.npz"
    solve(diffusion(), Gaussian(0.5), num_interior=12, num_boundary=8).save(path)
    return path


def test_a_problem_written_anew_is_the_one_that_was_solved(solved_diffusion, tmp_path):
    loaded = load(solved_diffusion, problem=diffusion())
    assert loaded.residual(loaded.points["interior"]).shape == (12, 1)
    loaded.save(tmp_path / "again.npz")
    load(tmp_path / "again.npz", problem=diffusion())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: diffusion(0.1001), "the equations on 'interior' differ"),
        (
            lambda: diffusion(end=1.001),
            r"its domain is SpaceTime\(Box\(0, 1\), 0, 1\), that of `problem` SpaceTime\(Box\(0, 1.001",
        ),
        (lambda: diffusion(seen=0.6), "the observations 'data' differ"),
        (lambda: diffusion(extra=("left",)), "are on interior, initial, data, those of `problem` on interior, initial, left"),
        (lambda: diffusion(fields=("u", "v")), "its fields are u, those of `problem` u, v"),
        (lambda: Problem(Box(0.0, 1.0), {"boundary": lambda u, x: u(x)}), r"its domain is SpaceTime.* that of `problem` Box"),
    ],
    ids=["viscosity", "domain", "data", "part", "fields", "dimension"],
)
def test_a_file_is_refused_with_another_problem_and_says_what_differs(solved_diffusion, other, message):
    with pytest.raises(ValueError, match=f"was solved for another problem: .*{message}"):
        load(solved_diffusion, problem=other())


def test_what_a_file_knows_of_its_problem_survives_loading_and_saving_without_it(solved_diffusion, tmp_path):
    load(solved_diffusion).save(tmp_path / "again.npz")
    load(tmp_path / "again.npz", problem=diffusion())
    with pytest.raises(ValueError, match="the equations on 'interior' differ"):
        load(tmp_path / "again.npz", problem=diffusion(0.2))


def test_rounding_on_another_machine_makes_no_other_problem():
    problem = diffusion()
    kept = fingerprint(problem)
    inside = kept["conditions"]["interior"]
    inside["residuals"] = inside["residuals"] * (1 + 1e-12 * np.random.default_rng(0).normal(size=inside["residuals"].shape))
    check_same("the file", kept, problem)


# --- looking at it


def test_a_loaded_solution_is_drawn_without_its_problem(path, tmp_path):
    figure = load(path).plot(tmp_path / "u.png", grid=(7, 7), std=True)
    assert (tmp_path / "u.png").read_bytes().startswith(b"\x89PNG")
    words = [axes.get_title(loc="left").split()[0] for axes in figure.axes if axes.get_title(loc="left")]
    assert words == ["solution", "standard", "60", "history"]


def test_a_solution_prints_what_it_is(solution):
    text = str(solution)
    for words in (
        "elliptic: u(x, y) on Box((0, 0), (1, 1))",
        str(solution.result),
        "40 interior + 20 boundary",
        "Matern(nu=3.5, lengthscale=(0.5, 0.6), amplitude=2)",
    ):
        assert words in text
    assert len(text) < 1000
    assert repr(solution) == "<Solution of elliptic: u(x, y) by full-batch, not_resolved>"


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
    header, arrays = files.read_file(path)
    assert files.decode(header["settings"], arrays)["max_steps"] == FullBatch().max_steps


def test_no_two_classes_that_a_file_may_hold_have_one_name():
    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    for module in pkgutil.walk_packages(gpde.__path__, "gpde."):
        importlib.import_module(module.name)
    names = [cls.__qualname__ for cls in set(below(eqx.Module)) if cls.__module__.startswith("gpde.")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
