"""The command line: what it prints, what it writes, and how it says no."""

import csv
import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpde import methods
from gpde.benchmarks.commands import timed_report
from gpde.cli import commands as cli
from gpde.cli import flags, terminal
from gpde.gallery import GALLERY, get
from gpde.kernels import Gaussian, Matern, Product
from gpde.kernels.text import kernel_text
from gpde.solution.report import strict
from gpde.solution.solution import Solution

FAST = ["poisson", "--num-interior", "60", "--num-boundary", "30", "--seed", "4"]

LINE = """
import gpde

print("a file may print")
problem = gpde.Problem(
    domain=gpde.Box(0.0, 1.0),
    equations={"interior": lambda u, x: gpde.laplacian(u)(x) - 2.0, "boundary": lambda u, x: u(x)},
    reference=lambda x: x[0] * (x[0] - 1),
    name="parabola",
)
"""


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def run_process(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gpde.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of `gpde solve`, the folder it wrote to; in `result.predicted` the points at which it asked for values."""
    folder, predicted, call = tmp_path_factory.mktemp("solved"), [], Solution.__call__

    def watched(self: Solution, points: Any, **options: Any) -> np.ndarray:
        predicted.append(points)
        return call(self, points, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Solution, "__call__", watched)
        result = run("solve", *FAST, "--output", folder, "--json", folder / "report.json")
    assert result.exit_code == 0, result.output
    result.predicted = predicted
    return result, folder


# --- what there is


def test_the_gallery_is_listed_one_line_each():
    lines = run("problems").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(GALLERY)
    for line, entry in zip(lines, GALLERY.values(), strict=True):
        assert entry.equation in line
        assert all(f"--{name} {parameter.default:g}" in line for name, parameter in entry.parameters.items())


def test_every_field_of_every_method_is_a_flag():
    for name, method in flags.METHODS.items():
        cls = getattr(methods, method.cls)
        assert cls.name == name
        assert method.fields == tuple(field.name for field in dataclasses.fields(cls))
    assert set(flags.SETTINGS) == {field for method in flags.METHODS.values() for field in method.fields}


def test_every_method_can_be_asked_for():
    public = [cls for cls in vars(methods).values() if inspect.isclass(cls) and issubclass(cls, methods.AbstractMethod)]
    names = {cls.name for cls in public if not inspect.isabstract(cls)}
    assert names == set(flags.METHODS)


def test_the_defaults_in_the_help_are_those_of_the_methods():
    for name, method in flags.METHODS.items():
        for field in dataclasses.fields(getattr(methods, method.cls)):
            said, *others = flags.SETTINGS[field.name].text.partition("[default: ")[2].rstrip("]").split(", ")
            # "1e-6, mini-batch 1e-7" is a default of all methods but one.
            said = dict(other.split(" ", 1) for other in others).get(name, said)
            if isinstance(field.default, bool):
                assert field.default == (flags.SETTINGS[field.name].flag == f"no_{field.name}")
            elif isinstance(field.default, int | float) and said:
                assert float(said) == field.default
            elif isinstance(field.default, str):
                assert said == field.default


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (None, {})),
        ({"max_steps": 3}, ("full-batch", {"max_steps": 3})),
        ({"batch_size": 9, "regularization": 2.0}, ("mini-batch", {"batch_size": 9, "regularization": 2.0})),
        ({"replacement": True}, ("mini-batch", {"replacement": True})),
        ({"output_iterate": "uniform"}, ("mini-batch", {"output": "uniform"})),
        ({"proximal_weight": "1e4"}, ("mini-batch", {"proximal_weight": 1e4})),
        ({"proximal_weight": "geometric(1, 2)"}, ("mini-batch", {"proximal_weight": "geometric(1, 2)"})),
        ({"bounds": "u=0,1 v=-1,inf"}, ("mini-batch", {"bounds": {"u": (0, 1), "v": (-1, np.inf)}})),
    ],
    ids=str,
)
def test_a_method_is_chosen_by_the_flags_given(given, expected):
    assert flags.choose_method(None, given) == expected


def test_no_two_flags_share_a_name():
    own = [p.name for p in inspect.signature(cli.solve).parameters.values()]
    assert len(own) == len(set(own))


def test_every_flag_has_a_help_text():
    for parameter in inspect.signature(cli.solve).parameters.values():
        assert parameter.annotation.__metadata__[0].help


def test_the_version_is_printed():
    assert run("--version").stdout.startswith("gpde ")


# --- solve


def test_solve_prints_how_good_the_solution_is(solved):
    result, folder = solved
    report = json.loads((folder / "report.json").read_text())
    assert "converged" in result.stdout
    assert f"{report['errors']['linf']:.2e}" in result.stdout
    assert "60 interior + 30 boundary" in result.stdout
    assert all(f"{seconds:.2f} s" in result.stdout for seconds in report["seconds"].values())
    assert "step   1" in result.stderr


def test_solve_writes_the_solution_and_a_picture(solved):
    _, folder = solved
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "solution.npz").stat().st_size > 1000


def test_the_report_has_the_promised_keys(solved):
    report = json.loads((solved[1] / "report.json").read_text())
    assert set(report) == {
        "problem", "method", "num_points", "num_interior", "seed", "result", "errors", "errors_at_points", "error_estimate",
        "parameters", "residual_at_points", "residual_between_points", "seconds", "peak_memory_mb", "settings", "history",
    }  # fmt: skip
    assert (report["problem"], report["method"], report["result"]) == ("poisson", "full-batch", "converged")
    assert (report["num_points"], report["num_interior"], report["seed"]) == (90, 60, 4)
    parts = ("start", "compile", "run", "prediction", "files", "picture")
    assert set(report["seconds"]) == {*parts, "total"}
    assert sum(report["seconds"][part] for part in parts) == pytest.approx(report["seconds"]["total"])
    assert report["settings"]["num_boundary"] == 30
    assert report["settings"]["kernel"] == "Gaussian(lengthscale=0.3)"
    assert set(report["settings"]) >= set(flags.METHODS["full-batch"].fields) | {"nugget", "sampling", "functionals"}


def test_the_errors_of_the_report_are_those_of_the_saved_solution(solved):
    import gpde

    def exact(x: np.ndarray) -> np.ndarray:
        return np.sin(np.pi * x[:, 0]) * np.sin(2 * np.pi * x[:, 1]) + x[:, 0] ** 2 - x[:, 1]

    report = json.loads((solved[1] / "report.json").read_text())
    solution = gpde.load(solved[1] / "solution.npz")
    for key, points in (
        ("errors", np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 60)]), axis=-1).reshape(-1, 2)),
        ("errors_at_points", np.concatenate(list(solution.points.values()))),
    ):
        difference = solution(points) - exact(points)
        assert report[key]["linf"] == pytest.approx(np.abs(difference).max(), rel=1e-6)
        assert report[key]["l2"] == pytest.approx(np.sqrt(np.mean(difference**2)), rel=1e-6)


def test_one_command_predicts_a_point_once(solved):
    points = np.concatenate(solved[0].predicted)
    assert len(points) == 60 * 60 + 90
    assert len(np.unique(points, axis=0)) == len(points)


def test_json_on_standard_output_is_alone_there_even_if_the_file_prints(tmp_path, monkeypatch):
    (tmp_path / "line.py").write_text(LINE)
    monkeypatch.chdir(tmp_path)
    flags = ["line.py", "--num-interior", "20", "--lengthscale", "0.3"]
    report, took = timed_report(flags)  # a process, of which the benchmarks read this too
    assert report["problem"] == "parabola"
    assert report["errors"]["linf"] < 1e-3
    assert 0 < report["seconds"]["total"] < took
    assert sorted(p.name for p in (tmp_path / "results" / "line").iterdir()) == ["figure.png", "solution.npz"]
    done = run("solve", *flags, "--no-figure", "--no-save", "--json", "-")
    assert json.loads(done.stdout)["errors"] == report["errors"]
    assert "a file may print" in done.stderr


def test_a_quiet_run_that_keeps_nothing_says_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("solve", *FAST, "--quiet", "--no-save", "--no-figure")
    assert (result.exit_code, result.output) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_flags_reach_the_solve(tmp_path):
    result = run(
        "solve", "elliptic", "--amplitude", 0, "--num-interior", 30, "--num-boundary", 12, "--sampling", "grid",
        "--kernel", "matern72", "--lengthscale", "0.5,0.4", "--kernel-amplitude", 2, "--nugget", 1e-9,
        "--constraints", "eliminate", "--max-steps", 1, "--functionals", "derivatives",
        "--no-save", "--no-figure", "--output", tmp_path, "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"]["kernel"] == "Matern(nu=3.5, lengthscale=(0.5, 0.4), amplitude=2)"
    wanted = {"amplitude": 0, "sampling": "grid", "nugget": 1e-9, "constraints": "eliminate", "max_steps": 1}
    assert report["settings"].items() >= {**wanted, "functionals": "derivatives", "num_boundary": 12}.items()
    assert report["result"] in ("max_steps", "converged")
    assert report["history"]["num_steps"] == 1


def test_a_run_that_failed_ends_with_code_1_after_writing_what_there_is(tmp_path):
    result = run(
        "solve", *FAST, "--nugget", 1e-300, "--lengthscale", 5, "--max-escalations", 0, "--output", tmp_path,
        "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "not positive definite" in result.stderr
    assert "Traceback" not in result.output
    assert json.loads((tmp_path / "r.json").read_text())["result"] == "not_positive_definite"
    assert (tmp_path / "solution.npz").exists()


def test_a_run_that_failed_with_nothing_to_draw_ends_with_code_1_and_says_how_it_ended(tmp_path):
    # In one dimension error bars are drawn, and where the equations are not finite there are none.
    path = tmp_path / "broken.py"
    path.write_text(
        "import jax.numpy as jnp, gpde\n"
        "equations = {'interior': lambda u, x: gpde.laplacian(u)(x) + jnp.log(u(x)), 'boundary': lambda u, x: u(x) + 1}\n"
        "problem = gpde.Problem(gpde.Box(0.0, 1.0), equations)\n"
    )
    result = run("solve", path, "--num-interior", 9, "--num-boundary", 2, "--output", tmp_path)
    assert result.exit_code == 1
    assert "a value became infinite or NaN" in result.stderr


def test_an_interrupted_run_keeps_what_was_reached(tmp_path, monkeypatch):
    whole, calls = methods.FullBatch.step, []

    def step(self: Any, setup: Any, state: Any) -> Any:
        calls.append(state)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, setup, state)

    monkeypatch.setattr(methods.FullBatch, "step", step)
    arguments = ("eikonal", "--num-interior", 30, "--num-boundary", 20, "--no-figure", "--output", tmp_path)
    result = run("solve", *arguments)
    assert result.exit_code == 130
    assert "interrupted; what was reached is kept (1 step)" in result.stdout
    assert (tmp_path / "solution.npz").exists()


# --- predict and info


def predicted(solved: Any, content: str, *options: Any) -> Any:
    (solved[1] / "points.csv").write_text(content)
    return run("predict", solved[1] / "solution.npz", solved[1] / "points.csv", *options)


def test_predict_gives_the_solution_at_points(solved):
    points = [[0.5, 0.25], [0.125, 0.875]]
    for head in ("", "x,y\n"):
        result = predicted(solved, head + "".join(f"{x},{y}\n" for x, y in points), "--std")
        header, *rows = csv.reader(result.stdout.splitlines())
        assert header == ["x", "y", "u", "std"]
        for (x, y), row in zip(points, rows, strict=True):
            exact = np.sin(np.pi * x) * np.sin(2 * np.pi * y) + x**2 - y
            assert [float(row[0]), float(row[1])] == [x, y]
            assert float(row[2]) == pytest.approx(exact, abs=1e-2)
            assert 0 < float(row[3]) < 1


@pytest.mark.parametrize(
    ("content", "separator", "line"),
    [
        ("y,x\n0.25,0.5\n", ",", ["0.25", "0.5"]),
        ('id, Y ,note,X\n07,0.250,"wet, cold",5e-1\n', ",", ["07", "0.250", "wet, cold", "5e-1"]),
        ("id;x;y\n7;0.5;0.25\n", ";", ["7", "0.5", "0.25"]),
        ("x\ty\twho, when\n0.5\t0.25\ta;b\n", "\t", ["0.5", "0.25", "a;b"]),
        ("\ufeffa;b,x,y\n1,0.5,0.25\n", ",", ["1", "0.5", "0.25"]),
        ("0.5;0.25\n", ";", ["0.5", "0.25"]),
    ],
    ids=["swapped", "others kept", "semicolon", "tab", "comma and a semicolon", "no header"],
)
def test_predict_finds_coordinates_by_the_names_of_columns_and_keeps_the_rest(solved, content, separator, line):
    result = predicted(solved, content)
    assert result.exit_code == 0, result.stderr
    header, row = csv.reader(result.stdout.splitlines(), delimiter=separator)
    named = content.lstrip("\ufeff").partition("\n")[0].split(separator)
    assert header == [*(["x", "y"] if named == line else named), "u"]
    assert row[:-1] == line
    # At (0.5, 0.25) it is 1 + 0.25 - 0.25, at (0.25, 0.5) it is -0.4375.
    assert float(row[-1]) == pytest.approx(1.0, abs=1e-2)


def test_predict_refuses_points_outside_the_domain_unless_they_are_meant(solved):
    content = "x,y\n0.5,0.5\n\n1.5,0.5\n0.5,-3\n"
    result = predicted(solved, content)
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "2 of 3 points lie outside Box((0, 0), (1, 1)), the first in line 4; no equation holds there. --extrapolate"
        in result.stderr
    )
    assert len(predicted(solved, content, "--extrapolate").stdout.splitlines()) == 4


def test_predict_writes_every_digit_to_a_file(solved, tmp_path):
    import gpde

    (tmp_path / "points.csv").write_text("0.3,0.4\n")
    result = run("predict", solved[1] / "solution.npz", tmp_path / "points.csv", "--output", tmp_path / "u.csv")
    assert (result.exit_code, result.stdout) == (0, "")
    value = float((tmp_path / "u.csv").read_text().splitlines()[1].split(",")[2])
    assert value == gpde.load(solved[1] / "solution.npz")([[0.3, 0.4]])[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no points"),
        ("x,y\n", "holds no points"),
        ("0.1,0.2\n0.3\n", "line 2: without a header a line holds x, y and nothing else; came 1"),
        ("0.1,0.2\n0.3,b\n", "line 2: the coordinate 'y' must be a number; came 'b'"),
        ("0.1,b\n0.3,0.2\n", "line 1: the coordinate 'y' must be a number; came 'b'"),
        ("x,y\n0.1,0.2,0.3\n", "line 2: the header has 2 columns; came 3"),
        ("0.1,0.2,0.3\n", "line 1: without a header a line holds x, y and nothing else; came 3"),
        ("x,y\n0.1,0.2\n0.1,nan\n", "line 3: the coordinate 'y' must be finite; came 'nan'"),
        ("id,x,y\n1,0.1,0.2\n\n2,,0.2\n", "line 4: the coordinate 'x' is missing"),
        ("x,z\n0.1,0.2\n", "has no column for the coordinate 'y'; its columns are x, z"),
        ("east,north\n0.1,0.2\n", "has no column for the coordinate 'x'; its columns are east, north"),
        ("x,y,X\n0.1,0.2,0.3\n", "has 2 columns for the coordinate 'x'; its columns are x, y, X"),
        ("x;y\n0,5;0,25\n", "line 2: the coordinate 'x' must be a number; came '0,5'; decimals are written with a point"),
        ("0,5;0,25\n", "came '0,5'; decimals are written with a point"),
        ("x,y\n0,5,0,25\n", "decimals are written with a point"),
        ("x,y,u\n0.5,0.5,1\n", "has a column 'u' already"),
    ],
)
def test_points_that_cannot_be_read_are_refused(solved, content, message):
    result = predicted(solved, content)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr


def test_a_table_that_is_no_text_is_refused(solved, tmp_path):
    (tmp_path / "points.csv").write_bytes(b"x,y\n\xff\xfe,1\n")
    result = run("predict", solved[1] / "solution.npz", tmp_path / "points.csv")
    assert result.exit_code == 2
    assert "cannot be read as a table in UTF-8 text" in result.stderr


def test_info_says_what_a_file_holds(solved):
    text = run("info", solved[1] / "solution.npz").stdout
    for words in ("poisson", "Box((0, 0), (1, 1))", "60 interior + 30 boundary", "Gaussian(lengthscale=0.3)", "converged"):
        assert words in text


def test_a_saved_solution_is_drawn_with_its_problem_and_without(solved, tmp_path):
    file = solved[1] / "solution.npz"
    assert run("plot", file).exit_code == 0
    assert (solved[1] / "solution.png").read_bytes().startswith(b"\x89PNG")
    result = run("plot", file, "--problem", "poisson", "--std", "--output", tmp_path / "u.svg")
    assert result.exit_code == 0, result.stderr
    assert "<svg" in (tmp_path / "u.svg").read_text()
    assert "u.svg" in result.stdout


def test_a_saved_solution_is_not_drawn_with_another_problem(solved, tmp_path):
    result = run("plot", solved[1] / "solution.npz", "--problem", "elliptic", "--amplitude", 2, "--output", tmp_path / "u.png")
    assert result.exit_code == 2
    assert "was solved for another problem: the equations on 'interior' differ" in result.stderr
    assert not list(tmp_path.iterdir())


def test_info_and_predict_open_the_file_once(solved, monkeypatch):
    from gpde.solution import files

    opened = []
    once = files.read_file
    monkeypatch.setattr(files, "read_file", lambda path: opened.append(path) or once(path))
    run("info", solved[1] / "solution.npz")
    predicted(solved, "0.5,0.5\n")
    assert len(opened) == 2


# --- bad requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "eliptic"], "Did you mean 'elliptic'?"),
        (["solve", "poisson", "--viscosity", "1"], "takes no parameters"),
        (["solve", "burgers", "--epsilon", "1"], "which takes --viscosity"),
        (["solve", "burgers", "--viscosity", "-1"], "above zero"),
        (["solve", "poisson", "--method", "full"], "choose from full-batch"),
        (["solve", "poisson", "--tolerance", "-1"], "`tolerance`"),
        (["solve", "poisson", "--constraints", "hope"], "`constraints`"),
        (["solve", "poisson", "--inner-tolerance", "1", "--num-patches", "9"], "no method takes all"),
        (["solve", "poisson", "--method", "full-batch", "--batch-size", "9"], "--batch-size is not for"),
        (["solve", "poisson", "--bounds", "u=0"], "lowest and highest"),
        (["solve", "poisson", "--kernel", "cubic"], "choose from gaussian"),
        (["solve", "poisson", "--lengthscale", "0.1,b"], "--lengthscale"),
        (["solve", "poisson", "--lengthscale", "1,2,3"], "3 entries"),
        (["solve", "poisson", "--num-interior", "-1"], "`num_interior`"),
        (["solve", "poisson", "--num-interior", "many"], "--num-interior"),
        (["solve", "poisson", "--sampling", "best"], "'sobol'"),
        (["solve", "poisson", "--nugget", "nan"], "`nugget`"),
        (["solve", "poisson", "--functionals", "all"], "functionals"),
        (["solve", "missing.py"], "no file 'missing.py'"),
        (["plot", "missing.npz"], "no file 'missing.npz'"),
        (["plot", "missing.npz", "--viscosity", "1"], "name it with --problem"),
        (["plot", "missing.npz", "--problem", "eliptic"], "Did you mean 'elliptic'?"),
        (["info", "missing.npz"], "no file 'missing.npz'"),
        (["predict", "missing.npz", "missing.csv"], "no file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_request_ends_with_code_2_and_a_sentence(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\ny = = 2\n", "line 2: SyntaxError"),
        ("import gpde\n\nundefined\n", "line 3: NameError"),
        ("import gpde\nproblem = gpde.Box(1.0, 0.0)\n", "line 2: `Box`"),
        ("x = 1\n", "must define `problem"),
        ("problem = 3\n", "it has a int"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path, source, message):
    (tmp_path / "mine.py").write_text(source)
    result = run("solve", tmp_path / "mine.py")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "mine.py" in result.stderr


def test_a_process_ends_with_the_same_codes_and_no_traceback(tmp_path):
    done = run_process("solve", "eliptic", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


# --- the pieces


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (float("nan"), None),
        ({"a": [1, np.float64(np.inf)], 2: (np.int64(3), "b")}, {"a": [1, None], "2": [3, "b"]}),
        (np.array([0.5, np.nan]), [0.5, None]),
        (Path("u"), "u"),
    ],
)
def test_a_report_is_strict_json(data, expected):
    assert strict(data) == expected
    json.dumps(strict(data), allow_nan=False)


def test_kernels_are_described_as_they_are_written():
    kernel = Product(Gaussian((0.1, 0.2)), Matern(5 / 2, 1.0, amplitude=3.0))
    text = "Product(Gaussian(lengthscale=(0.1, 0.2)), Matern(nu=2.5, lengthscale=1, amplitude=3))"
    assert kernel_text(kernel) == text
    assert kernel_text(Gaussian(0.5, period={1: 2.0})) == "Gaussian(lengthscale=0.5, period={1: 2})"


def test_a_kernel_takes_what_is_not_said_from_the_problem():
    burgers = get("burgers").build()
    own: Any = burgers.defaults.kernel
    assert cli.kernel_of(burgers, None, None, None) is None
    chosen = cli.kernel_of(burgers, "matern92", None, None)
    assert isinstance(chosen, Matern)
    assert chosen.nu == 4.5
    assert np.array_equal(chosen.lengthscale, own.lengthscale)
    scaled: Any = cli.kernel_of(burgers, None, ["0.2", "0.3"], None)
    assert np.array_equal(scaled.lengthscale, [0.2, 0.3])


@pytest.mark.parametrize(("max_steps", "at_once", "num_lines"), [(7, 1, 7), (100, 1, 100), (4000, 1, 20), (4000, 37, 20)])
def test_long_runs_print_a_line_for_every_twentieth_part(capsys, max_steps, at_once, num_lines):
    from gpde.methods.run import Progress

    with terminal.progress(quiet=False) as callback:
        assert callback is not None
        for step in range(at_once, max_steps + at_once, at_once):
            callback(Progress(min(step, max_steps), max_steps, {"residual": 0.5}, 0.0))
    assert len(capsys.readouterr().err.splitlines()) == num_lines


def test_a_terminal_shows_a_bar(monkeypatch, capsys):
    from gpde.methods.run import Progress

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with terminal.progress(quiet=False) as callback:
        assert callback is not None
        callback(Progress(1, 5, {"residual": 0.5}, 0.0))
    assert capsys.readouterr().out == ""
