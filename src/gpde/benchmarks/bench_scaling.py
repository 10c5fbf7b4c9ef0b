"""Consensus with the Schwarz solver on the elliptic problem from 10⁴ to 10⁵ points, the patch density held fixed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import Drawn, announce, figure_of, report

Row = dict[str, Any]


def main(quick: bool = False) -> Drawn:
    """Prints time, memory and error for each number of points, and the exponents of growth."""
    rows = []
    for size in (300, 400) if quick else (10_000, 20_000, 50_000, 100_000):
        announce(f"{size} points")
        data = report(
            [
                *("elliptic", "--method", "consensus", "--linear-solver", "schwarz"),
                *("--num-interior", str(size), "--num-boundary", str(size // 25), "--num-patches", str(size // 8)),
                *(("--batch-size", "24") if quick else ()),
            ]
        )
        rows.append(
            {
                "num_points": data["num_points"],
                "seconds": data["seconds"]["run"],
                "memory_mb": data["peak_memory_mb"],
                "linf": data["errors"]["linf"],
                "steps": data["history"]["num_steps"],
            }
        )
    exponents = {key: slope(rows, key) for key in ("seconds", "memory_mb")}
    table = Table(title=__doc__, box=None, header_style="bold")
    for column in ("points", "run s", "memory MB", "Linf", "steps"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (f"{row['seconds']:.1f}", f"{row['memory_mb']:.0f}", f"{row['linf']:.1e}", str(row["steps"]))
        table.add_row(str(row["num_points"]), *numbers)
    table.add_row("exponent", f"{exponents['seconds']:.2f}", f"{exponents['memory_mb']:.2f}", "", "")
    Console().print(table)
    return Drawn({"rows": rows, "exponents": exponents}, figure_of(lambda axes: draw(axes, rows, exponents)))


def slope(rows: Sequence[Row], key: str) -> float:
    """The exponent of growth, by least squares in logarithms."""
    points, found = ([row[each] for row in rows] for each in ("num_points", key))
    return float(np.polyfit(np.log(points), np.log(found), 1)[0])


def draw(axes: Any, rows: Sequence[Row], exponents: dict[str, float]) -> None:
    """Time and memory against points, on logarithmic scales."""
    points = [row["num_points"] for row in rows]
    axes.loglog(points, [row["seconds"] for row in rows], "o-", label=f"run time, s (exponent {exponents['seconds']:.2f})")
    axes.loglog(points, [row["memory_mb"] for row in rows], "s-", label=f"memory, MB (exponent {exponents['memory_mb']:.2f})")
    axes.set(xlabel="points", title="consensus on the elliptic problem")
    axes.legend()
