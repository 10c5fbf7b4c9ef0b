"""The flags of `gpde solve`: its own, the settings of methods, and the parameters of the gallery.

Settings are written down here, and a test compares them with the methods' fields: looking at a class imports jax.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from gpde.problems import GALLERY, Entry


class Method(NamedTuple):
    """A method as the command line knows it: the name of its class and of the fields that are flags."""

    cls: str
    fields: tuple[str, ...]


# A method is one line here, and a line in `SETTINGS` for each field that no other method has.
METHODS = {
    "full-batch": Method(
        "FullBatch",
        ("constraints", "regularization", "max_steps", "tolerance", "max_escalations", "max_halvings"),
    ),
}

SETTINGS: dict[str, tuple[type, str]] = {
    "constraints": (str, "How the equations are held: eliminate, relax or linearize. [default: linearize]"),
    "regularization": (float, "λ of `--constraints relax`: smaller holds the equations more strictly. [default: the nugget]"),
    "max_steps": (int, "Gauss-Newton steps at most. [default: 50]"),
    "tolerance": (float, "The relative step at which the iteration has converged. [default: 1e-7]"),
    "max_escalations": (int, "How often the nugget may be raised tenfold where a factorisation fails. [default: 5]"),
    "max_halvings": (int, "How often the line search may halve a step. [default: 20]"),
}  # fmt: skip


KERNELS = {"gaussian": None, "matern52": 5 / 2, "matern72": 7 / 2, "matern92": 9 / 2, "matern112": 11 / 2}


def _option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    # rich would read "[default: ...]" as markup.
    text = text.replace("[", r"\[")
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


_METHOD, _POINTS, _KERNEL, _OUTPUT = "Method", "Points", "Kernel", "Output"

MethodName = Annotated[
    str | None, _option(text=f"{', '.join(METHODS)}. [default: by the number of points]", panel=_METHOD, metavar="NAME")
]
Functionals = Annotated[
    str, _option(text="minimal, or derivatives: every derivative apart, as in the paper. [default: minimal]", panel=_METHOD)
]
Nugget = Annotated[float | None, _option(text="What is added to the diagonal of covariances, relative to it.", panel=_METHOD)]
NumInterior = Annotated[int | None, _option(text="Points inside the domain.", panel=_POINTS)]
NumBoundary = Annotated[int | None, _option(text="Points elsewhere, shared out by length or area.", panel=_POINTS)]
Sampling = Annotated[str, _option(text="uniform, sobol, halton or grid. [default: uniform]", panel=_POINTS)]
Seed = Annotated[int, _option(text="The same seed gives the same bits. [default: 0]", panel=_POINTS)]
Kernel = Annotated[str | None, _option(text=f"{', '.join(KERNELS)}.", panel=_KERNEL, metavar="NAME")]
Lengthscale = Annotated[
    list[str] | None,
    _option(text="One number, or one for each coordinate: 0.2,0.05.", panel=_KERNEL, metavar="FLOAT[,FLOAT...]"),
]
KernelAmplitude = Annotated[float | None, _option(text="The prior standard deviation of u.", panel=_KERNEL)]
JsonFile = Annotated[
    str | None,
    _option(
        "--json",
        text="Write the report as JSON. - is standard output, which then holds nothing else.",
        panel=_OUTPUT,
        metavar="FILE|-",
    ),
]
Output = Annotated[
    Path | None,
    _option(text="Where solution.npz and figure.png go. [default: results/NAME]", panel=_OUTPUT, metavar="DIR"),
]
Figure = Annotated[bool, _option("--figure/--no-figure", text="Draw figure.png. [default: figure]", panel=_OUTPUT)]
Save = Annotated[bool, _option("--save/--no-save", text="Write solution.npz. [default: save]", panel=_OUTPUT)]
Std = Annotated[bool, _option("--std", text="Draw the standard deviation too.", panel=_OUTPUT)]
Quiet = Annotated[bool, _option("--quiet", "-q", text="Print nothing but errors.", panel=_OUTPUT)]


def flag(name: str) -> str:
    """`--max-steps` for `max_steps`."""
    return f"--{name.replace('_', '-')}"


def with_generated_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose `**flags` are the settings of all methods and the parameters of all problems, None unless given."""
    parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, (kind, text) in SETTINGS.items():
        owners = [method.cls for method in METHODS.values() if name in method.fields]
        panel = f"Settings of {owners[0]}" if len(owners) == 1 else "Settings of several methods"
        parameters.append(_parameter(name, kind, text, panel))
    for name in dict.fromkeys(name for entry in GALLERY.values() for name in entry.parameters):
        owners = [entry for entry in GALLERY.values() if name in entry.parameters]
        text = "; ".join(f"{e.name}: {e.parameters[name].help} [default: {e.parameters[name].default:g}]" for e in owners)
        parameters.append(_parameter(name, float, text, "Parameters of problems"))
    command.__signature__ = inspect.Signature(parameters)
    return command


def _parameter(name: str, kind: type, text: str, panel: str) -> inspect.Parameter:
    annotation = Annotated[kind | None, _option(flag(name), text=text, panel=panel)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def choose_method(name: str | None, given: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The method that is meant and its settings, from all flags given; None leaves the choice to `solve`."""
    settings = {key: value for key, value in given.items() if key in SETTINGS}
    if name is not None and name not in METHODS:
        raise ValueError(f"there is no method '{name}'; choose from {', '.join(METHODS)}.")
    if name is None and settings:
        name = next((key for key, method in METHODS.items() if set(settings) <= set(method.fields)), None)
        if name is None:
            raise ValueError(f"no method takes all of {_listing(settings)}.")
    if name is not None:
        _refuse(f"the method '{name}'", settings, METHODS[name].fields)
    return name, settings


def choose_parameters(problem: str, entry: Entry | None, given: Mapping[str, Any]) -> dict[str, float]:
    """The parameters for a problem of the gallery (`entry`), or for one from a file, which takes none."""
    parameters = {key: value for key, value in given.items() if key not in SETTINGS}
    _refuse(f"'{problem}'", parameters, () if entry is None else tuple(entry.parameters))
    return parameters


def _refuse(owner: str, given: Iterable[str], allowed: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in allowed]
    if unknown:
        takes = _listing(allowed) if allowed else "no parameters"
        raise ValueError(f"{_listing(unknown)} is not for {owner}, which takes {takes}.")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(flag, names))
