"""What an experiment gives back, and how it lets itself be watched."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from gpde.methods.run import Callback

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Watch = Callable[[str], AbstractContextManager[Callback | None]]
"""Announces the next part of an experiment; the callback, if there is one, wants to hear of its steps."""


class Reproduction(NamedTuple):
    """A figure as in the paper, the numbers behind it as strict JSON, and the few that matter as a table."""

    figure: "Figure"
    numbers: dict[str, Any]
    table: Table


def columns(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table with names on the left and numbers on the right."""
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for index, header in enumerate(headers):
        table.add_column(header, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
