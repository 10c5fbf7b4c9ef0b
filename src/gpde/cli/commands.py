"""The command line. jax and matplotlib are imported inside commands, so that help answers at once."""

import contextlib
import functools
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpde.benchmarks import BENCHMARKS
from gpde.cli import flags, start
from gpde.cli.inputs import kernel_of, problem_in
from gpde.cli.start import prepare_jax
from gpde.cli.terminal import blaming, console, errors_in_words, fail, progress
from gpde.gallery import GALLERY, get
from gpde.paper import EXPERIMENTS
from gpde.paper import get as find_experiment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpde.methods.run import Callback
    from gpde.problem.problem import Problem

app = typer.Typer(
    help="Nonlinear partial differential equations, solved with Gaussian processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # what still raises is a defect, and its traceback is for a report
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

SavedSolution = Annotated[Path, typer.Argument(metavar="FILE.npz", help="A saved solution.")]


def main() -> None:
    """The entry point of the `gpde` command."""
    start.own_process = True
    try:
        app()
    except SystemExit as ended:
        start.leave(ended.code)


def _print_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gpde {version('gpde')}")
        raise typer.Exit
    return wanted


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nonlinear partial differential equations, solved with Gaussian processes."""
    del version  # its callback has printed it


@app.command()
def problems() -> None:
    """List the gallery: problems with reference solutions."""
    out = console()
    names, equations = (max(len(getattr(e, part)) for e in GALLERY.values()) for part in ("name", "equation"))
    for entry in GALLERY.values():
        takes = "".join(f"  --{name} {parameter.default:g}" for name, parameter in entry.parameters.items())
        line = f"[bold cyan]{entry.name:<{names}}[/]  {entry.equation:<{equations}}[dim]{takes}[/]"
        out.print(line, soft_wrap=True, highlight=False)


@app.command()
@flags.with_generated_flags
def solve(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE.py", help="A problem of the gallery, or a file that defines `problem`.")
    ],
    method: flags.MethodName = None,
    functionals: flags.FunctionalsChoice = "minimal",
    nugget: flags.Nugget = None,
    num_interior: flags.NumInterior = None,
    num_boundary: flags.NumBoundary = None,
    sampling: flags.Sampling = "uniform",
    seed: flags.Seed = 0,
    initial: flags.Initial = None,
    kernel: flags.Kernel = None,
    lengthscale: flags.Lengthscale = None,
    kernel_amplitude: flags.KernelAmplitude = None,
    learn: flags.Learn = False,
    adapt: flags.Adapt = None,
    json_file: flags.JsonFile = None,
    output: flags.Output = None,
    figure: flags.Figure = True,
    save: flags.Save = True,
    std: flags.Std = False,
    quiet: flags.Quiet = False,
    cache: flags.Cache = True,
    **generated: Any,
) -> None:
    """Solve a problem, print how good the solution is, write it and a picture of it.

    What is not given is as the problem says by default.
    """
    clock = start.clock()
    out = console(stderr=json_file == "-")
    with errors_in_words(), contextlib.redirect_stdout(sys.stderr) if json_file == "-" else contextlib.nullcontext():
        given = {key: value for key, value in generated.items() if value is not None}
        file = Path(name) if name.endswith(".py") else None
        entry = None if file else get(name)
        chosen, settings = flags.choose_method(method, given)
        parameters = flags.choose_parameters(name, entry, given)
        prepare_jax(cache=cache)
        problem = named_problem(name, parameters)

        import gpde.methods
        from gpde.solution._solve import solve as solve_problem
        from gpde.solution.errors import Predictions
        from gpde.solution.plotting import plot_solution
        from gpde.solution.refine import solve_adaptively
        from gpde.solution.report import report, table
        from gpde.solution.solution import load

        earlier = None if initial is None else load(initial)

        with clock.during("run"), progress(quiet) as callback, blaming(file):
            solution = (solve_problem if adapt is None else functools.partial(solve_adaptively, rounds=adapt))(
                problem,
                kernel_of(problem, kernel, lengthscale, kernel_amplitude, learn=learn),
                method=getattr(gpde.methods, flags.METHODS[chosen].cls)(**settings) if chosen else None,
                num_interior=num_interior,
                num_boundary=num_boundary,
                sampling=sampling,
                seed=seed,
                nugget=nugget,
                functionals=functionals,
                initial=earlier,
                callback=callback,
            )
        stopped = solution.result.outcome.name == "INTERRUPTED"
        if stopped and solution.result.num_steps == 0:
            fail("interrupted before the first step; nothing was written.", code=130)
        folder = output or Path("results") / (file.stem if file else name)
        if save or figure:
            folder.mkdir(parents=True, exist_ok=True)
        predictions = Predictions(solution, lambda: clock.during("prediction"))
        try:
            if save:
                with clock.during("files"):
                    solution.save(folder / "solution.npz")
            data = report(solution, predictions)
            if figure:
                with clock.during("picture"):
                    plot_solution(solution, folder / "figure.png", std=std, predictions=predictions)
        except ValueError as error:
            if solution.result.failed:  # there may be nothing to show of it: how it ended says more
                raise RuntimeError(str(solution.result)) from error
            raise
        data["settings"] |= parameters
        data["seconds"] = shared_out(clock.seconds, solution.seconds.compile)
        if not quiet:
            out.print(f"[bold]{problem.name}[/]   [dim]{entry.equation if entry else file}[/]", highlight=False)
            out.print(table(solution, data))
            for path in (folder / "solution.npz",) * save + (folder / "figure.png",) * figure:
                out.print(f"[cyan]wrote [/]  {path}", highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(data, json_file)
    if solution.result.failed:
        fail(str(solution.result), code=1)
    if stopped:
        raise typer.Exit(130)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"An experiment of the paper: {', '.join(EXPERIMENTS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size, in under a minute.")] = False,
    seed: flags.Seed = 0,
    batch_size: Annotated[int | None, typer.Option(help="M; elliptic, burgers and continuation.")] = None,
    num_steps: Annotated[int | None, typer.Option(help="K; in batch-sizes that of the smallest batches.")] = None,
    viscosity: Annotated[float | None, typer.Option(help="ν; burgers (0.2 by default) and batch-sizes (0.02).")] = None,
    realizations: Annotated[int | None, typer.Option(help="Runs averaged; both batch-sizes and convergence.")] = None,
    json_file: flags.JsonFile = None,
    output: Annotated[
        Path | None, typer.Option(help="Where figure.png and numbers.json go; results/reproduce-NAME by default.")
    ] = None,
    quiet: flags.Quiet = False,
    cache: flags.Cache = True,
) -> None:
    """Run an experiment of the paper: a table, a figure, and the numbers behind it.

    What is not given is as in the paper, where it says so.
    """
    out = console(stderr=json_file == "-")

    @contextlib.contextmanager
    def watch(what: str) -> "Iterator[Callback | None]":
        if not quiet:
            typer.echo(what, err=True)
        with progress(quiet) as callback:
            yield callback

    with errors_in_words():
        experiment = find_experiment(name)
        settings = {
            key: value
            for key, value in (
                ("batch_size", batch_size),
                ("num_steps", num_steps),
                ("viscosity", viscosity),
                ("realizations", realizations),
            )
            if value is not None
        }
        prepare_jax(cache=cache)
        figure, numbers, table = experiment.run(watch, quick=quick, seed=seed, **settings)
        folder = output or Path("results") / f"reproduce-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "figure.png")
        write_json(numbers, str(folder / "numbers.json"))
        if not quiet:
            out.print(f"[bold]{experiment.name}[/]   [dim]{experiment.summary}[/]", highlight=False)
            out.print(table)
            for file in ("figure.png", "numbers.json"):
                out.print(f"[cyan]wrote [/]  {folder / file}", highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(numbers, json_file)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Of {', '.join(BENCHMARKS)}; all by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run, not how fast.")] = False,
    output: Annotated[Path, typer.Option(help="Where figures and their numbers go.")] = Path("results/bench"),
) -> None:
    """Print the benchmark tables of this machine."""
    with errors_in_words():
        unknown = [name for name in names or () if name not in BENCHMARKS]
        if unknown:
            raise ValueError(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}.")
        prepare_jax()
        # In the order of the list: a process takes over the peak memory of the one that starts it, which is small at first.
        for name in [name for name in BENCHMARKS if name in (names or BENCHMARKS)]:
            console().rule(f"{name}: {BENCHMARKS[name]}")
            drawn = importlib.import_module(f"gpde.benchmarks.bench_{name.replace('-', '_')}").main(quick=quick)
            if drawn is not None:
                output.mkdir(parents=True, exist_ok=True)
                drawn.figure.savefig(output / f"{name}.png", dpi=120)
                write_json({"benchmark": name, **drawn.numbers}, str(output / f"{name}.json"))
                console().print(f"[cyan]wrote [/]  {output / name}.png and .json", highlight=False, soft_wrap=True)


@app.command()
def predict(
    file: SavedSolution,
    points: Annotated[
        Path,
        typer.Argument(
            metavar="POINTS.csv",
            help="One point per line. Columns are found by the names of the coordinates in the header, and others are kept; "
            "without a header they are the coordinates. Commas, semicolons or tabs between them.",
        ),
    ],
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation.")] = False,
    extrapolate: Annotated[bool, typer.Option("--extrapolate", help="Predict outside the domain too.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write there, not to standard output.")] = None,
    cache: flags.Cache = True,
) -> None:
    """Evaluate a saved solution at points: CSV in, CSV out."""
    with errors_in_words():
        prepare_jax(cache=cache)

        import numpy as np

        from gpde.solution.solution import load
        from gpde.solution.tables import read_points

        solution = load(file)
        table = read_points(points, solution.domain.coordinates)
        outside = solution.outside(table.points)
        if outside.any() and not extrapolate:
            raise ValueError(
                f"'{points}': {outside.sum()} of {len(outside)} points lie outside {solution.domain}, the first in line "
                f"{table.lines[np.flatnonzero(outside)[0]]}; no equation holds there. --extrapolate predicts them all the same."
            )
        names = list(solution.fields)
        if std:
            names += ["std"] if len(names) == 1 else [f"std_{field}" for field in names]
        if taken := [name for name in names if name in map(str.strip, table.header)]:
            raise ValueError(f"'{points}' has a column '{taken[0]}' already, which is what the answer is called; rename it.")
        values = [solution(table.points, extrapolate=True)]
        if std:
            values.append(solution.std(table.points, extrapolate=True))
        columns = np.hstack([each.reshape(len(table.points), -1) for each in values])
        with output.open("w", newline="") if output else contextlib.nullcontext(sys.stdout) as stream:
            table.write(stream, names, columns.tolist())


@app.command()
@flags.with_problem_parameters
def plot(
    file: SavedSolution,
    output: Annotated[
        Path | None, typer.Option(help="The picture, of the kind its ending says; beside FILE by default, as a PNG.")
    ] = None,
    std: flags.Std = False,
    problem: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE.py", help="The problem that was solved, to draw its truth and the error too."),
    ] = None,
    cache: flags.Cache = True,
    **parameters: Any,
) -> None:
    """Draw a saved solution."""
    with errors_in_words():
        given = {key: value for key, value in parameters.items() if value is not None}
        if problem is None and given:
            raise ValueError(f"{flags.flag(next(iter(given)))} is for a problem; name it with --problem.")
        prepare_jax(cache=cache)

        from gpde.solution.solution import load

        solution = load(file, problem=None if problem is None else named_problem(problem, given))
        picture = output or file.with_suffix(".png")
        solution.plot(picture, std=std)
        console().print(f"[cyan]wrote [/]  {picture}", highlight=False, soft_wrap=True)


@app.command()
def info(file: SavedSolution) -> None:
    """Say what a saved solution is and how it was found."""
    with errors_in_words():
        prepare_jax()
        from rich.markup import escape
        from rich.table import Table

        from gpde.kernels.text import kernels_text
        from gpde.solution.files import read_file
        from gpde.solution.solution import restored

        header, arrays = read_file(file)
        solution = restored(header, arrays, file)
        grid = Table(show_header=False, box=None, pad_edge=False)
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column()
        grid.add_row("problem", f"[bold]{escape(solution.name)}[/]")
        grid.add_row("domain", f"{solution.domain} with coordinates {', '.join(solution.domain.coordinates)}")
        grid.add_row("fields", ", ".join(solution.fields))
        grid.add_row("result", escape(str(solution.result)))
        grid.add_row("method", solution.result.method)
        grid.add_row("points", solution.points_text)
        grid.add_row("kernel", kernels_text(solution.kernels))
        for key, value in solution.settings.items():
            grid.add_row(key.replace("_", " "), f"{value:g}" if isinstance(value, float) else escape(str(value)))
        grid.add_row("time", f"{solution.seconds.run:.2f} s, and {solution.seconds.compile:.2f} s to compile")
        grid.add_row("written by", f"gpde {header['gpde']}")
        console().print(grid)


def named_problem(name: str, parameters: dict[str, Any]) -> "Problem":
    """The problem that a Python file defines, or that of the gallery, with its parameters."""
    entry = None if name.endswith(".py") else get(name)
    chosen = flags.choose_parameters(name, entry, parameters)
    return problem_in(Path(name)) if entry is None else entry.build(**chosen)


def shared_out(seconds: dict[str, float], compiling: float) -> dict[str, float]:
    """The clock of a command with what the solve compiled as a line of its own; `total` is the sum of all others."""
    names = ("start", "compile", "run", "prediction", "files", "picture")
    both = seconds | {"compile": compiling, "run": seconds["run"] - compiling}
    return {name: both[name] for name in names if name in both} | {"total": sum(seconds.values())}


def write_json(data: dict[str, Any], file: str) -> None:
    """Writes a report to a file, or to standard output if that is `-`."""
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text, encoding="utf-8")
