"""Benchmark tables of this machine: how cost grows with the number of points, and what each method reaches in what time.

Every run is a process of its own, so that peak memory is that run's and nothing is warm.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Report = dict[str, Any]
Announce = Callable[[str], None]

_TARGETS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def run(arguments: Sequence[str]) -> Report:
    """The JSON report of `gpde solve` with these arguments."""
    command = [sys.executable, "-c", "from gpde.cli import main; main()", "solve", *arguments]
    ended = subprocess.run(
        [*command, "--no-figure", "--no-save", "--quiet", "--json", "-"], capture_output=True, text=True, check=False
    )
    if ended.returncode == 2 or not ended.stdout:
        raise ValueError(f"`gpde solve {' '.join(arguments)}` failed: {ended.stderr.strip()[-300:]}")
    return json.loads(ended.stdout)


def scaling(output: Path, announce: Announce, *, quick: bool = False) -> "tuple[Report, Table]":
    """Consensus with the Schwarz solver on the elliptic problem from 10⁴ to 10⁵ points, the patch density held fixed."""
    sizes = (1000, 2000, 4000) if quick else (10_000, 20_000, 50_000, 100_000)
    rows = []
    for size in sizes:
        announce(f"{size} points")
        report = run(
            [
                *("elliptic", "--method", "consensus", "--linear-solver", "schwarz"),
                *("--num-interior", str(size), "--num-boundary", str(size // 25), "--num-patches", str(size // 8)),
            ]
        )
        rows.append(
            {
                "num_points": report["num_points"],
                "seconds": report["seconds"]["run"],
                "memory_mb": report["peak_memory_mb"],
                "linf": report["errors"]["linf"],
                "steps": report["history"]["num_steps"],
            }
        )
    exponents = {key: _slope(rows, key) for key in ("seconds", "memory_mb")}
    data = {"benchmark": "scaling", "rows": rows, "exponents": exponents}
    _write(output / "scaling", data, lambda axes: _draw_scaling(axes, rows, exponents))
    table = _table("points", "run s", "memory MB", "Linf", "steps")
    for row in rows:
        table.add_row(
            str(row["num_points"]), f"{row['seconds']:.1f}", f"{row['memory_mb']:.0f}", f"{row['linf']:.1e}", str(row["steps"])
        )
    table.add_row("exponent", f"{exponents['seconds']:.2f}", f"{exponents['memory_mb']:.2f}", "", "")
    return data, table


def methods(output: Path, announce: Announce, *, quick: bool = False) -> "tuple[Report, Table]":
    """Full batch, mini-batch and consensus on two problems at the sizes each can do."""
    rows = []
    for problem, method, arguments in _quick_runs() if quick else _runs():
        announce(f"{problem}, {method}: {' '.join(arguments)}")
        report = run([problem, "--method", method, *arguments])
        rows.append(
            {
                "problem": problem,
                "method": method,
                "settings": " ".join(arguments),
                "num_points": report["num_points"],
                "seconds": report["seconds"]["run"],
                "linf": report["errors"]["linf"],
                "l2": report["errors"]["l2"],
            }
        )
    reached = [
        {
            "problem": problem,
            "method": method,
            **{f"{target:.0e}": _first_below(rows, problem, method, target) for target in _TARGETS},
        }
        for problem, method in dict.fromkeys((row["problem"], row["method"]) for row in rows)
    ]
    data = {"benchmark": "methods", "rows": rows, "seconds_to_reach_l2": reached}
    _write(output / "methods", data, lambda axes: _draw_methods(axes, rows))
    table = _table("problem", "method", "points", "run s", "Linf", "L2", "settings")
    for row in rows:
        numbers = (str(row["num_points"]), f"{row['seconds']:.1f}", f"{row['linf']:.1e}", f"{row['l2']:.1e}")
        table.add_row(row["problem"], row["method"], *numbers, row["settings"])
    for row in reached:
        times = ", ".join(f"{k} {'-' if v is None else f'{v:.1f} s'}" for k, v in row.items() if k not in ("problem", "method"))
        table.add_row(row["problem"], row["method"], "to reach L2", "", "", "", times)
    return data, table


BENCHMARKS: dict[str, Callable[..., "tuple[Report, Table]"]] = {"scaling": scaling, "methods": methods}


def _runs() -> list[tuple[str, str, list[str]]]:
    def points(interior: int, boundary: int) -> list[str]:
        return ["--num-interior", str(interior), "--num-boundary", str(boundary)]

    return [
        ("elliptic", "full-batch", points(300, 100)),
        ("elliptic", "full-batch", points(900, 300)),
        ("elliptic", "full-batch", points(2400, 400)),
        ("elliptic", "mini-batch", [*points(900, 300), "--num-steps", "10000"]),
        ("elliptic", "mini-batch", [*points(900, 300), "--num-steps", "40000"]),
        ("elliptic", "consensus", points(300, 100)),
        ("elliptic", "consensus", points(900, 300)),
        ("elliptic", "consensus", points(9000, 600)),
        ("burgers", "full-batch", points(1000, 200)),
        ("burgers", "full-batch", points(2000, 400)),
        ("burgers", "mini-batch", [*points(2000, 400), "--batch-size", "75", "--num-steps", "20000"]),
        (
            "burgers",
            "mini-batch",
            [*points(2000, 400), "--batch-size", "75", "--num-steps", "20000", "--proximal-weight", "geometric(10, 1e5)"],
        ),
        ("burgers", "consensus", [*points(2000, 400), "--batch-size", "75"]),
        ("burgers", "consensus", points(8000, 800)),
        ("burgers", "consensus", points(20000, 1200)),
    ]


def _quick_runs() -> list[tuple[str, str, list[str]]]:
    small = ["--num-interior", "200", "--num-boundary", "80"]
    return [
        ("elliptic", "full-batch", small),
        ("elliptic", "mini-batch", [*small, "--batch-size", "32", "--num-steps", "500"]),
        ("elliptic", "consensus", [*small, "--batch-size", "32"]),
    ]


def _first_below(rows: Sequence[Report], problem: str, method: str, target: float) -> float | None:
    times = [r["seconds"] for r in rows if (r["problem"], r["method"]) == (problem, method) and r["l2"] <= target]
    return min(times, default=None)


def _slope(rows: Sequence[Report], key: str) -> float:
    """The exponent of growth, by least squares in logarithms."""
    x = [math.log(row["num_points"]) for row in rows]
    y = [math.log(row[key]) for row in rows]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def _draw_scaling(axes: Any, rows: Sequence[Report], exponents: dict[str, float]) -> None:
    points = [row["num_points"] for row in rows]
    axes.loglog(points, [row["seconds"] for row in rows], "o-", label=f"run time, s (exponent {exponents['seconds']:.2f})")
    axes.loglog(points, [row["memory_mb"] for row in rows], "s-", label=f"memory, MB (exponent {exponents['memory_mb']:.2f})")
    axes.set(xlabel="points", title="consensus on the elliptic problem")
    axes.legend()


def _draw_methods(axes: Any, rows: Sequence[Report]) -> None:
    for problem, method in dict.fromkeys((row["problem"], row["method"]) for row in rows):
        own = [row for row in rows if (row["problem"], row["method"]) == (problem, method)]
        marker = {"elliptic": "o-", "burgers": "s--"}[problem]
        axes.loglog([r["seconds"] for r in own], [r["l2"] for r in own], marker, label=f"{problem}, {method}")
    axes.set(xlabel="run time, s", ylabel="L2 error", title="error against time")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _write(base: Path, data: Report, draw: Callable[[Any], None]) -> None:
    from matplotlib.figure import Figure

    base.parent.mkdir(parents=True, exist_ok=True)
    base.with_suffix(".json").write_text(json.dumps(data, indent=2) + "\n")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw(figure.subplots())
    figure.savefig(base.with_suffix(".png"), dpi=120)


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in ("problem", "method", "settings") else "right")
    return table
