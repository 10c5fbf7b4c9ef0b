"""The shape of the library: which module may import which, how long a file may grow, and what importing it touches."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gpde

PACKAGE = Path(__file__).parents[1] / "src" / "gpde"

# A module (or package) imports only from those above it. ARCHITECTURE.md draws the same list as a picture.
ORDER = (
    "arguments",
    "outcomes",
    "machine",
    "kernels",
    "operators",
    "domains",
    "equations",
    "problem",
    "gallery",
    "functionals",
    "collocation",
    "linalg",
    "methods",
    "learning",
    "solution",
    "paper",
    "benchmarks",
    "cli",
)
# Below `methods` each folder is one method, and does not know the others.
METHODS = ("full_batch", "mini_batch", "consensus")
MAX_LINES = 400


def sources() -> list[Path]:
    """Every module of the library except `gpde/__init__.py`, which makes public names available."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer(module: str) -> str:
    """`kernels` for `gpde.kernels.matern`."""
    return module.split(".")[1]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk_runtime(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below this one, imports inside functions included, except what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for statement in child.orelse:
                yield statement
                yield from walk_runtime(statement)
        else:
            yield child
            yield from walk_runtime(child)


def imported_modules(source: str, module: str, is_package: bool) -> set[str]:
    """The modules of gpde that the source of `module` imports, under their full names."""
    names: set[str] = set()
    for node in walk_runtime(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                # `from . import x` counts from the package that holds the module: a package is its own.
                parents = module.split(".") + ["__init__"] * is_package
                base = ".".join([*parents[: len(parents) - node.level], *([base] if base else [])])
            # `from gpde import kernels` names the module in the second half.
            names |= {f"gpde.{alias.name}" for alias in node.names} if base == "gpde" else {base}
    return {name for name in names if name == "gpde" or name.startswith("gpde.")}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run_python(code: str) -> str:
    """What a fresh interpreter prints: this one has imported everything already."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_every_module_has_its_place_in_the_order():
    assert {layer(module_name(path)) for path in sources()} <= set(ORDER)


def test_a_module_imports_only_from_those_above_it():
    offences = []
    for path in sources():
        module = module_name(path)
        for name in sorted(imported_modules(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")):
            if name == "gpde":
                offences.append(f"{module} imports gpde itself; import from the submodule")
            elif layer(name) not in ORDER:
                offences.append(f"{module} imports {name}, which is no module of the library")
            elif ORDER.index(layer(name)) > ORDER.index(layer(module)):
                offences.append(f"{module} imports {name}, which lies below it")
    assert not offences, "\n".join(offences)


# Every problem, experiment, benchmark and method has these, and means the same by them; a command is called as its function.
SHARED_ROLES = {"State", "Work", "solve"}
ONE_FILE_EACH = ("gallery", "paper", "benchmarks")


def public_names(source: str) -> set[str]:
    """What a module defines at its top level without an underscore."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def test_a_name_is_defined_in_one_module():
    assert public_names("a = 1\n_b = 2\nclass C: ...\ndef d(): ...\ne: int = 3") == {"a", "C", "d", "e"}
    modules: dict[str, list[str]] = {}
    for path in sources():
        module = module_name(path)
        if path.name != "__init__.py" and layer(module) not in ONE_FILE_EACH:
            for name in public_names(path.read_text(encoding="utf-8")) - SHARED_ROLES:
                modules.setdefault(name, []).append(module)
    repeated = {name: where for name, where in modules.items() if len(where) > 1}
    assert not repeated


def test_methods_do_not_import_each_other():
    offences = []
    for path in sources():
        module = module_name(path)
        own = next((method for method in METHODS if module.startswith(f"gpde.methods.{method}")), None)
        if own is None:
            continue
        for name in imported_modules(path.read_text(encoding="utf-8"), module, path.name == "__init__.py"):
            if any(name.startswith(f"gpde.methods.{other}") for other in METHODS if other != own):
                offences.append(f"{module} imports {name}, of another method")
    assert not offences, "\n".join(offences)


def test_the_reader_of_imports_sees_every_spelling():
    source = """
import gpde.linalg.cholesky
from gpde import solve
from gpde.kernels.matern import Matern
from . import schwarz
from .direct import factor
from ..methods import base
import numpy as np
def late():
    import gpde.cli.commands
if TYPE_CHECKING:
    import gpde.solution.plotting
"""
    inside_package = {
        "gpde.linalg.cholesky",
        "gpde.solve",
        "gpde.kernels.matern",
        "gpde.linalg",
        "gpde.linalg.direct",
        "gpde.methods",
        "gpde.cli.commands",
    }
    assert imported_modules(source, "gpde.linalg.schwarz", is_package=False) == inside_package
    assert imported_modules(source, "gpde.linalg", is_package=True) == inside_package


def test_one_module_alone_decides_which_points_are_near():
    # Near in the metric of the prior; a domain measures lengths in space.
    searching = [path for path in sources() if "KDTree" in path.read_text(encoding="utf-8")]
    assert [path.name for path in searching if path.parent.name != "domains"] == ["neighbours.py"]


def test_no_file_is_a_drawer_for_everything():
    assert not [path for path in PACKAGE.rglob("*.py") if path.stem in ("utils", "util", "helpers", "misc", "common")]


def test_no_file_is_too_long_to_read_in_one_sitting():
    lengths = {module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}


def lines_that_set(flag: str, source: str) -> list[int]:
    """Where `update("flag", ...)` is called or `config.flag = ...` assigned; reading `config.flag` is allowed."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(args=[ast.Constant(value=name), *_]) if name == flag:
                lines.append(node.lineno)
            case ast.Attribute(attr=name, ctx=ast.Store()) if name == flag:
                lines.append(node.lineno)
    return lines


def test_only_the_command_line_turns_on_double_precision():
    assert lines_that_set("jax_enable_x64", "jax.config.update('jax_enable_x64', True)") == [1]
    offences = {
        module_name(path): lines
        for path in sources()
        if path.parts[-2:] != ("cli", "start.py")
        and (lines := lines_that_set("jax_enable_x64", path.read_text(encoding="utf-8")))
    }
    assert not offences


def test_importing_every_module_leaves_the_settings_of_jax_alone():
    modules = ["gpde", *map(module_name, sources())]
    changed = run_python(
        "import importlib, jax\n"
        "before = dict(jax.config.values)\n"
        f"for module in {modules}: importlib.import_module(module)\n"
        "after = dict(jax.config.values)\n"
        "assert 'jax_enable_x64' in before\n"
        "print(*(name for name in before if before[name] != after[name]))\n"
    )
    assert changed == ""


def test_the_command_line_starts_without_jax_and_matplotlib():
    assert run_python("import gpde.cli, sys; print(*{'jax', 'jaxlib', 'matplotlib'} & set(sys.modules))") == ""


def test_the_public_names_exist():
    for name in dir(gpde):
        assert hasattr(gpde, name), f"`gpde.{name}` is promised by `__all__` and cannot be imported"
