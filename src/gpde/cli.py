"""The command line. jax and matplotlib are imported inside commands, so that help answers at once."""

import contextlib
import csv
import json
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpde import flags
from gpde.experiments import EXPERIMENTS
from gpde.experiments import get as find_experiment
from gpde.problems import GALLERY, get
from gpde.terminal import blaming, console, errors_in_words, fail, progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpde.kernels import AbstractKernel
    from gpde.methods.base import Callback
    from gpde.problem import Problem
    from gpde.solution import Solution

app = typer.Typer(
    help="Nonlinear partial differential equations, solved with Gaussian processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # what still raises is a defect, and its traceback is for a report
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the `gpde` command."""
    app()


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
    functionals: flags.Functionals = "minimal",
    nugget: flags.Nugget = None,
    num_interior: flags.NumInterior = None,
    num_boundary: flags.NumBoundary = None,
    sampling: flags.Sampling = "uniform",
    seed: flags.Seed = 0,
    initial: flags.Initial = None,
    kernel: flags.Kernel = None,
    lengthscale: flags.Lengthscale = None,
    kernel_amplitude: flags.KernelAmplitude = None,
    json_file: flags.JsonFile = None,
    output: flags.Output = None,
    figure: flags.Figure = True,
    save: flags.Save = True,
    std: flags.Std = False,
    quiet: flags.Quiet = False,
    **generated: Any,
) -> None:
    """Solve a problem, print how good the solution is, write it and a picture of it.

    What is not given is as the problem says by default.
    """
    out = console(stderr=json_file == "-")
    with errors_in_words(), contextlib.redirect_stdout(sys.stderr) if json_file == "-" else contextlib.nullcontext():
        given = {key: value for key, value in generated.items() if value is not None}
        file = Path(name) if name.endswith(".py") else None
        entry = None if file else get(name)
        chosen, settings = flags.choose_method(method, given)
        parameters = flags.choose_parameters(name, entry, given)
        prepare_jax()
        problem = entry.build(**parameters) if entry else problem_in(Path(name))

        import gpde.methods
        from gpde.report import report, table
        from gpde.solution import load
        from gpde.solve import solve as solve_problem

        start = None if initial is None else load(initial)

        with progress(quiet) as callback, blaming(file):
            solution = solve_problem(
                problem,
                kernel_of(problem, kernel, lengthscale, kernel_amplitude),
                method=getattr(gpde.methods, flags.METHODS[chosen].cls)(**settings) if chosen else None,
                num_interior=num_interior,
                num_boundary=num_boundary,
                sampling=sampling,
                seed=seed,
                nugget=nugget,
                functionals=functionals,
                initial=start,
                callback=callback,
            )
        stopped = solution.result.outcome.name == "INTERRUPTED"
        if stopped and solution.result.num_steps == 0:
            fail("interrupted before the first step; nothing was written.", code=130)
        folder = output or Path("results") / (file.stem if file else name)
        written = write_files(solution, folder, save=save, figure=figure, std=std)
        data = report(solution)
        data["settings"] |= parameters
        if not quiet:
            out.print(f"[bold]{problem.name}[/]   [dim]{entry.equation if entry else file}[/]", highlight=False)
            out.print(table(solution, data))
            for path in written:
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
    batch_size: Annotated[int | None, typer.Option(help="M; elliptic and burgers.")] = None,
    num_steps: Annotated[int | None, typer.Option(help="K; in batch-sizes that of the smallest batches.")] = None,
    viscosity: Annotated[float | None, typer.Option(help="ν; burgers (0.2 by default) and batch-sizes (0.02).")] = None,
    realizations: Annotated[int | None, typer.Option(help="Runs averaged; batch-sizes and convergence.")] = None,
    json_file: flags.JsonFile = None,
    output: Annotated[
        Path | None, typer.Option(help="Where figure.png and numbers.json go; results/reproduce-NAME by default.")
    ] = None,
    quiet: flags.Quiet = False,
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
        prepare_jax()
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
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="scaling, methods; both by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run, not how fast.")] = False,
    output: Annotated[Path, typer.Option(help="Where the figures and the numbers go.")] = Path("results/bench"),
) -> None:
    """Print the benchmark tables of this machine: cost against points, and error against time for each method."""
    from gpde.bench import BENCHMARKS

    with errors_in_words():
        unknown = [name for name in names or () if name not in BENCHMARKS]
        if unknown:
            raise ValueError(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}.")
        for name in names or BENCHMARKS:
            _, table = BENCHMARKS[name](output, lambda text: typer.echo(text, err=True), quick=quick)
            console().print(table)
            console().print(f"[cyan]wrote [/]  {output / name}.png and .json", highlight=False, soft_wrap=True)


@app.command()
def predict(
    file: Annotated[Path, typer.Argument(metavar="FILE.npz", help="A saved solution.")],
    points: Annotated[Path, typer.Argument(metavar="POINTS.csv", help="One point per line; a header is optional.")],
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write there, not to standard output.")] = None,
) -> None:
    """Evaluate a saved solution at points: CSV in, CSV out."""
    with errors_in_words():
        header, rows = read_csv(points)
        prepare_jax()

        import numpy as np

        from gpde.io import decode, read
        from gpde.solution import load

        solution, (saved, arrays) = load(file), read(file)
        problem = decode(saved["problem"], arrays)
        where = np.array(rows)
        columns = [where, solution(where).reshape(len(where), -1)]
        coordinates = problem["coordinates"] if problem else [f"x{axis}" for axis in range(saved["dim"])]
        fields = saved["fields"]
        names = [*(header or coordinates), *fields]
        if std:
            columns.append(solution.std(where).reshape(len(where), -1))
            names += ["std"] if len(fields) == 1 else [f"std_{field}" for field in fields]
        with output.open("w", newline="") if output else contextlib.nullcontext(sys.stdout) as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(names)
            writer.writerows(np.hstack(columns).tolist())


@app.command()
def info(file: Annotated[Path, typer.Argument(metavar="FILE.npz", help="A saved solution.")]) -> None:
    """Say what a saved solution is and how it was found."""
    with errors_in_words():
        prepare_jax()
        from rich.table import Table

        from gpde.io import decode, read
        from gpde.report import kernels_text, points_text
        from gpde.solution import load

        solution, (header, arrays) = load(file), read(file)
        problem = decode(header["problem"], arrays)
        grid = Table(show_header=False, box=None, pad_edge=False)
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column()
        if problem:
            grid.add_row("problem", f"[bold]{problem['name']}[/]")
            grid.add_row("domain", f"{problem['domain']} with coordinates {', '.join(problem['coordinates'])}")
        grid.add_row("fields", ", ".join(header["fields"]))
        grid.add_row("result", str(solution.result))
        grid.add_row("method", solution.result.method)
        grid.add_row("points", points_text(solution))
        grid.add_row("kernel", kernels_text(solution.kernels))
        for key, value in solution.settings.items():
            grid.add_row(key.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
        grid.add_row("time", f"{solution.seconds.run:.2f} s, and {solution.seconds.compile:.2f} s to compile")
        grid.add_row("written by", f"gpde {header['gpde']}")
        console().print(grid)


def prepare_jax() -> None:
    """Before anything else of JAX or SciPy: what a program of its own may set, and a library may not."""
    # After each call the threads of OpenBLAS look for more work, for 2^26 ticks by default: twenty milliseconds of every core,
    # in which JAX computes the next matrix. 2^16 are enough to go from one part of a factorisation to the next.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    import jax

    jax.config.update("jax_enable_x64", True)  # Gram matrices need it


def problem_in(file: Path) -> "Problem":
    """The `problem` that a Python file defines."""
    from gpde.problem import Problem

    if not file.is_file():
        raise ValueError(f"there is no file '{file}'.")
    sys.path.insert(0, str(file.resolve().parent))  # its neighbours can be imported, as if it were run itself
    with blaming(file):
        found = runpy.run_path(str(file)).get("problem")
    if not isinstance(found, Problem):
        came = "nothing of that name" if found is None else f"a {type(found).__name__}"
        raise ValueError(f"'{file}' must define `problem = gpde.Problem(...)`; it has {came}.")
    return found


def kernel_of(
    problem: "Problem", name: str | None, lengthscale: list[str] | None, amplitude: float | None
) -> "AbstractKernel | None":
    """The kernel asked for; what is not said is as in the problem's own kernel. None if nothing is said."""
    if name is None and not lengthscale and amplitude is None:
        return None
    from gpde.kernels import Gaussian, Matern

    own = problem.defaults.kernel
    if name is not None and name not in flags.KERNELS:
        raise ValueError(f"there is no kernel '{name}'; choose from {', '.join(flags.KERNELS)}.")
    nu = flags.KERNELS[name] if name else getattr(own, "nu", None)
    scales = _numbers(lengthscale) if lengthscale else getattr(own, "lengthscale", 0.2 * problem.domain.extent)
    height = getattr(own, "amplitude", 1.0) if amplitude is None else amplitude
    return Gaussian(scales, amplitude=height) if nu is None else Matern(nu, scales, amplitude=height)


def _numbers(texts: list[str]) -> float | list[float]:
    try:
        numbers = [float(number) for text in texts for number in text.split(",")]
    except ValueError:
        raise ValueError(f"--lengthscale takes numbers, as in 0.2 or 0.2,0.05; came {','.join(texts)}.") from None
    return numbers[0] if len(numbers) == 1 else numbers


def write_files(solution: "Solution", folder: Path, *, save: bool, figure: bool, std: bool) -> list[Path]:
    """Writes what is wanted into a folder, and says which files that made."""
    written = []
    if save or figure:
        folder.mkdir(parents=True, exist_ok=True)
    if save:
        written.append(folder / "solution.npz")
        solution.save(str(written[-1]))
    if figure:
        written.append(folder / "figure.png")
        solution.plot(str(written[-1]), std=std)
    return written


def write_json(data: dict[str, Any], file: str) -> None:
    """Writes a report to a file, or to standard output if that is `-`."""
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text, encoding="utf-8")


def read_csv(file: Path) -> tuple[list[str] | None, list[list[float]]]:
    """The header of a file of points, if it has one, and its rows."""
    if not file.is_file():
        raise ValueError(f"there is no file '{file}'.")
    with file.open(newline="", encoding="utf-8-sig") as stream:
        lines = [(number, row) for number, row in enumerate(csv.reader(stream), 1) if any(cell.strip() for cell in row)]
    header = None
    if lines and not _is_number(lines[0][1][0]):
        header = [cell.strip() for cell in lines.pop(0)[1]]
    if not lines:
        raise ValueError(f"'{file}' holds no points; one per line is needed, as in 0.5,0.25.")
    width = len(header or lines[0][1])
    for number, row in lines:
        if len(row) != width or not all(map(_is_number, row)):
            raise ValueError(f"'{file}', line {number}: {width} numbers are needed; came {','.join(row)}.")
    return header, [[float(cell) for cell in row] for _, row in lines]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
