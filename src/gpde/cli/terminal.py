"""How the command line talks: colours and progress on a terminal, plain lines elsewhere, errors without tracebacks."""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

# Steps shown one by one; of longer runs every twentieth part.
_MAX_LINES = 150
# A bar leaves room for one or two numbers.
_ON_A_BAR = ("loss", "residual", "step")


def console(*, stderr: bool = False) -> "Console":
    """Where to print; wide enough for tables where there is no terminal to measure."""
    from rich.console import Console

    found = Console(stderr=stderr)
    return found if found.is_terminal else Console(stderr=stderr, width=120)


def fail(message: str, code: int = 2) -> NoReturn:
    """Says what is wrong and ends: code 2 for a bad request, 1 for a run that failed."""
    from rich.markup import escape

    console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(code)


@contextlib.contextmanager
def errors_in_words() -> Iterator[None]:
    """Whoever asks for something impossible gets a sentence, not a traceback."""
    try:
        yield
    except typer.Exit:  # a RuntimeError, but no error
        raise
    except (ValueError, OSError) as error:
        fail(str(error))
    except MemoryError:
        fail("out of memory; take fewer points.", code=1)
    except RuntimeError as error:  # what jax and equinox raise while they compute
        fail(str(error).strip().partition("\n")[0], code=1)


@contextlib.contextmanager
def blaming(file: Path | None) -> Iterator[None]:
    """Errors that come from a user's file name it and the line."""
    try:
        yield
    except Exception as error:
        line = None if file is None else _line_in(file, error)
        if line is None:
            raise
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ValueError(f"'{file}', line {line}: {kind}{message}") from error


def _line_in(file: Path, error: Exception) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Any], None] | None]:
    """What `solve` calls after each step: moves a bar on a terminal, prints lines elsewhere; on standard error."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as moved:
            yield moved
    else:
        yield _lines()


def _lines() -> Callable[[Any], None]:
    num_printed = 0

    def moved(step: Any) -> None:
        nonlocal num_printed
        # A method may report many steps at once: a line is due when another part has been passed.
        parts = step.num_steps if step.max_steps <= _MAX_LINES else 20 * step.num_steps // step.max_steps
        if parts > num_printed:
            num_printed = parts
            typer.echo(f"step {step.num_steps:>3} of at most {step.max_steps}   {_numbers(step.info)}", err=True)

    return moved


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[Any], None]]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("[cyan]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("[dim]{task.fields[numbers]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None, numbers="")

        def moved(step: Any) -> None:
            bar.update(
                task,
                description=f"step {step.num_steps}",
                completed=step.num_steps,
                total=step.max_steps,
                numbers=_numbers({name: step.info[name] for name in _ON_A_BAR if name in step.info}),
            )

        yield moved


def _numbers(info: dict[str, Any]) -> str:
    return "   ".join(f"{name} {value:.3g}" for name, value in info.items() if isinstance(value, float))
