"""Full batch, mini-batch and consensus on two problems at the sizes each can do: error against time."""

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from gpde.benchmarks.commands import Drawn, announce, figure_of, report

Row = dict[str, Any]
Run = tuple[str, str, list[str]]

TARGETS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
GROWN = 1e-5  # the error to which the growth of time is measured


def main(quick: bool = False) -> Drawn:
    """Prints a row for each run, and how long each method takes to reach an error."""
    rows = []
    for problem, method, arguments in quick_runs() if quick else runs():
        announce(f"{problem}, {method}: {' '.join(arguments)}")
        data = report([problem, "--method", method, *arguments])
        rows.append(
            {
                "problem": problem,
                "method": method,
                "settings": " ".join(arguments),
                "num_points": data["num_points"],
                "seconds": data["seconds"]["run"],
                "linf": data["errors"]["linf"],
                "l2": data["errors"]["l2"],
            }
        )
    reached = [
        {"problem": problem, "method": method, **{f"{t:.0e}": first_below(rows, problem, method, t) for t in TARGETS}}
        for problem, method in pairs(rows)
    ]
    table = Table(title=__doc__, box=None, header_style="bold")
    for column in ("problem", "method", "points", "run s", "Linf", "L2", "settings"):
        table.add_column(column, justify="left" if column in ("problem", "method", "settings") else "right")
    for row in rows:
        numbers = (str(row["num_points"]), f"{row['seconds']:.1f}", f"{row['linf']:.1e}", f"{row['l2']:.1e}")
        table.add_row(row["problem"], row["method"], *numbers, row["settings"])
    for row in reached:
        times = ", ".join(f"{k} {'-' if v is None else f'{v:.1f} s'}" for k, v in row.items() if k not in ("problem", "method"))
        table.add_row(row["problem"], row["method"], "to reach L2", "", "", "", times)
    grown = growth(rows)
    for row in grown:
        text = f"{row['from']} to {row['to']} points, L2 {GROWN:.0e}: time grows with the power {row['exponent']:.2f}"
        table.add_row(row["problem"], row["method"], "growth", "", "", "", text)
    Console(width=140).print(table)
    return Drawn({"rows": rows, "seconds_to_reach_l2": reached, "growth": grown}, figure_of(lambda axes: draw(axes, rows)))


def points(interior: int, boundary: int) -> list[str]:
    """The flags for these numbers of points."""
    return ["--num-interior", str(interior), "--num-boundary", str(boundary)]


def runs() -> list[Run]:
    """Problem, method and flags."""
    burgers = [*points(2000, 400), "--batch-size", "75"]
    return [
        ("elliptic", "full-batch", points(300, 100)),
        ("elliptic", "full-batch", points(900, 300)),
        ("elliptic", "full-batch", points(2400, 400)),
        ("elliptic", "mini-batch", [*points(900, 300), "--num-steps", "10000"]),
        ("elliptic", "mini-batch", [*points(900, 300), "--num-steps", "40000"]),
        ("elliptic", "mini-batch", [*points(9400, 600), "--num-steps", "60000"]),
        ("elliptic", "mini-batch", [*points(97000, 3000), "--num-steps", "200000"]),
        ("elliptic", "consensus", points(300, 100)),
        ("elliptic", "consensus", points(900, 300)),
        ("elliptic", "consensus", points(9000, 600)),
        ("burgers", "full-batch", points(1000, 200)),
        ("burgers", "full-batch", points(2000, 400)),
        ("burgers", "mini-batch", [*burgers, "--num-steps", "20000"]),
        ("burgers", "mini-batch", [*burgers, "--num-steps", "40000"]),
        ("burgers", "consensus", burgers),
        ("burgers", "consensus", points(8000, 800)),
        ("burgers", "consensus", points(20000, 1200)),
    ]


def quick_runs() -> list[Run]:
    """Two methods."""
    small = points(60, 20)
    return [("elliptic", "full-batch", small), ("elliptic", "consensus", [*small, "--batch-size", "32"])]


def pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Problems and methods, each once."""
    return list(dict.fromkeys((row["problem"], row["method"]) for row in rows))


def first_below(rows: Sequence[Row], problem: str, method: str, target: float) -> float | None:
    """The least time in which the method reached the error."""
    times = [r["seconds"] for r in rows if (r["problem"], r["method"]) == (problem, method) and r["l2"] <= target]
    return min(times, default=None)


def growth(rows: Sequence[Row]) -> list[Row]:
    """How time grows from the second largest to the largest number of points, for methods that reach `GROWN` with both."""
    found = []
    for problem, method in pairs(rows):
        own = {r["num_points"]: r for r in rows if (r["problem"], r["method"]) == (problem, method) and r["l2"] <= GROWN}
        if len(own) > 1:
            less, more = sorted(own)[-2:]
            exponent = math.log(own[more]["seconds"] / own[less]["seconds"]) / math.log(more / less)
            found.append({"problem": problem, "method": method, "from": less, "to": more, "exponent": exponent})
    return found


def draw(axes: Any, rows: Sequence[Row]) -> None:
    """A line for each method on each problem."""
    for problem, method in pairs(rows):
        own = [row for row in rows if (row["problem"], row["method"]) == (problem, method)]
        marker = {"elliptic": "o-", "burgers": "s--"}[problem]
        axes.loglog([r["seconds"] for r in own], [r["l2"] for r in own], marker, label=f"{problem}, {method}")
    axes.set(xlabel="run time, s", ylabel="L2 error", title="error against time")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
