"""Runs the benchmarks named on the command line, or all of them."""

import argparse
import importlib
import pkgutil

from rich.console import Console

import benchmarks
from gpde.cli.start import prepare_jax


def main() -> None:
    """Parses the command line and runs."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="The benchmark tables of this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which benchmarks, of {', '.join(names)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, not how fast")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(names)}")
    prepare_jax()
    for name in arguments.names or names:
        Console().rule(name)
        importlib.import_module(f"benchmarks.{name}").main(quick=arguments.quick)


if __name__ == "__main__":
    main()
