"""The flags of `gpde solve`: its own, the settings of methods, and the parameters of the gallery.

Settings are written down here, and a test compares them with the methods' fields: looking at a class imports jax.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from operator import not_
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from gpde.gallery import GALLERY, Entry


class Method(NamedTuple):
    """A method as the command line knows it: the name of its class and of the fields that are flags."""

    cls: str
    fields: tuple[str, ...]


class Setting(NamedTuple):
    """A field of a method as a flag: its type, its help, how text becomes its value, and its name if that is taken."""

    kind: type
    text: str
    parse: Callable[[Any], Any] = lambda value: value
    flag: str | None = None


def number_or_words(text: str) -> float | str:
    """`1e4` as a number, `geometric(1e4, 1e8)` as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def intervals(text: str) -> dict[str, tuple[float, float]]:
    """`u=0,1 v=0,inf` as `{"u": (0, 1), "v": (0, inf)}`."""
    pairs = [item.partition("=") for item in text.split()]
    try:
        bounds = {name: tuple(map(float, numbers.split(","))) for name, _, numbers in pairs}
    except ValueError:
        bounds = {}
    if not bounds or any(len(pair) != 2 for pair in bounds.values()):
        raise ValueError(f"--bounds takes lowest and highest values by name, as in 'u=0,1 v=0,inf'; came '{text}'.")
    return {name: (low, high) for name, (low, high) in bounds.items()}


# A method is one entry here, and a line in `SETTINGS` for each field that no other method has.
METHODS = {
    "full-batch": Method(
        "FullBatch",
        ("constraints", "regularization", "max_steps", "tolerance", "max_escalations", "max_halvings"),
    ),
    "mini-batch": Method(
        "MiniBatch",
        (
            *("batch_size", "num_steps", "proximal_weight", "regularization", "slack_weight", "proximal_metric"),
            *("core_share", "rim_ratio", "tolerance", "coarse_to_fine"),
            *("constraints", "bounds", "sampler", "replacement", "scaled_neighbours", "max_inner_steps"),
            *("inner_tolerance", "output", "prediction", "final_proximal_weight", "patience", "memory_budget"),
            *("parallel_batches", "max_escalations"),
        ),
    ),
    "consensus": Method(
        "Consensus",
        (
            *("batch_size", "num_patches", "max_steps", "tolerance", "linear_solver", "linear_tolerance"),
            *("scaled_neighbours", "known_share", "max_escalations", "max_halvings", "local_lengthscales"),
        ),
    ),
}

SETTINGS = {
    "constraints": Setting(str, "How the equations are held: eliminate or relax; linearize in full-batch."),
    "regularization": Setting(float, "λ. In full-batch that of relax: smaller holds the equations more strictly."),
    "max_escalations": Setting(int, "How often the nugget may be raised tenfold where it fails. [default: 5]"),
    "max_steps": Setting(int, "Gauss-Newton steps at most. [default: 150, consensus 100]"),
    "tolerance": Setting(float, "The relative step at which the iteration has converged. [default: 1e-6, mini-batch 1e-7]"),
    "max_halvings": Setting(int, "How often the line search may halve a step. [default: 20]"),
    "batch_size": Setting(int, "M, points in a batch. [default: 64]"),
    "num_patches": Setting(int, "Patches that cover the points. [default: by the number of points]"),
    "known_share": Setting(float, "Of a patch, points with known values at most. [default: 0.25]"),
    "local_lengthscales": Setting(bool, "Every patch learns lengthscales of its own. [default: with --learn]"),
    "linear_solver": Setting(str, "direct or schwarz. [default: by size]"),
    "linear_tolerance": Setting(float, "Relative residual asked of the linear solver. [default: 1e-8]"),
    "num_steps": Setting(int, "K, batches drawn at most. [default: 40000, or 60 for each point if that is more]"),
    "proximal_weight": Setting(
        str, "γ: a number, or in words as 'geometric(1e4, 1e8)'. [default: it raises itself]", number_or_words
    ),
    "slack_weight": Setting(float, "β of the slack. [default: the block nugget in its place]"),
    "proximal_metric": Setting(str, "Q: anchored, gram-diagonal or identity. [default: anchored]"),
    "core_share": Setting(float, "The core of a batch, as a share of it. [default: 0.5]"),
    "rim_ratio": Setting(float, "How much harder the rim of a batch is held than its core. [default: 100]"),
    "coarse_to_fine": Setting(bool, "Begin with all points.", not_, "no_coarse_to_fine"),
    "bounds": Setting(str, "Lowest and highest values, as 'u=0,1 v=0,inf'. [default: none]", intervals),
    "sampler": Setting(str, "nearest or uniform. [default: nearest]"),
    "replacement": Setting(bool, "Draw batches independently, not in permutations of all."),
    "scaled_neighbours": Setting(bool, "Measure nearness without lengthscales.", not_, "no_scaled_neighbours"),
    "max_inner_steps": Setting(int, "Gauss-Newton steps on a batch at most. [default: 30]"),
    "inner_tolerance": Setting(float, "The step at which a batch has converged. [default: 1e-5]"),
    "output": Setting(str, "Which iterate is kept: last or uniform. [default: last]", flag="output_iterate"),
    "prediction": Setting(str, "local or global. [default: local]"),
    "final_proximal_weight": Setting(float, "ρ of the prediction. [default: the last γ]"),
    "patience": Setting(int, "Stop when the mean loss of so many steps no longer falls. [default: never]"),
    "memory_budget": Setting(float, "Megabytes for factors. [default: a quarter of what is free]"),
    "parallel_batches": Setting(int, "Disjoint batches stepped together at most. [default: 1]"),
}
_FIELD_OF = {setting.flag or field: field for field, setting in SETTINGS.items()}

KERNELS = {"gaussian": None, "matern52": 5 / 2, "matern72": 7 / 2, "matern92": 9 / 2, "matern112": 11 / 2}


def _option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    # rich would read "[default: ...]" as markup.
    text = text.replace("[", r"\[")
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


_METHOD, _POINTS, _KERNEL, _OUTPUT = "Method", "Points", "Kernel", "Output"

MethodName = Annotated[
    str | None, _option(text=f"{', '.join(METHODS)}. [default: by the number of points]", panel=_METHOD, metavar="NAME")
]
FunctionalsChoice = Annotated[
    str, _option(text="minimal, or derivatives: every derivative apart, as in the paper. [default: minimal]", panel=_METHOD)
]
Nugget = Annotated[float | None, _option(text="What is added to the diagonal of covariances, relative to it.", panel=_METHOD)]
NumInterior = Annotated[int | None, _option(text="Points inside the domain.", panel=_POINTS)]
NumBoundary = Annotated[int | None, _option(text="Points elsewhere, shared out by length or area.", panel=_POINTS)]
Sampling = Annotated[str, _option(text="uniform, sobol, halton, grid or poisson. [default: uniform]", panel=_POINTS)]
Seed = Annotated[int, _option(text="The same seed gives the same bits. [default: 0]", panel=_POINTS)]
Initial = Annotated[
    Path | None,
    _option(
        text="A saved solution to start from; mini-batch goes on with its own.",
        panel=_METHOD,
        metavar="FILE.npz",
    ),
]
Kernel = Annotated[str | None, _option(text=f"{', '.join(KERNELS)}.", panel=_KERNEL, metavar="NAME")]
Lengthscale = Annotated[
    list[str] | None,
    _option(text="One number, or one for each coordinate: 0.2,0.05.", panel=_KERNEL, metavar="FLOAT[,FLOAT...]"),
]
Adapt = Annotated[
    int | None,
    _option(
        text="Begin with half of the interior points, and add the others in so many rounds where the equations are off.",
        panel=_POINTS,
        metavar="ROUNDS",
    ),
]
Learn = Annotated[bool, _option("--learn", text="Learn lengthscales and amplitude, from those given.", panel=_KERNEL)]
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
Cache = Annotated[
    bool,
    _option("--cache/--no-cache", text="Keep compiled programs for the next command. [default: cache]", panel=_OUTPUT),
]
Quiet = Annotated[bool, _option("--quiet", "-q", text="Print nothing but errors.", panel=_OUTPUT)]


def flag(name: str) -> str:
    """`--max-steps` for `max_steps`."""
    return f"--{name.replace('_', '-')}"


def with_generated_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose `**generated` are the settings of all methods and the parameters of all problems, None if not given."""
    parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, field in _FIELD_OF.items():
        owners = [method.cls for method in METHODS.values() if field in method.fields]
        panel = f"Settings of {owners[0]}" if len(owners) == 1 else "Settings of several methods"
        parameters.append(_parameter(name, SETTINGS[field].kind, SETTINGS[field].text, panel))
    command.__signature__ = inspect.Signature([*parameters, *_problem_parameters()])
    return command


def with_problem_parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose `**parameters` are those of all problems, None if not given."""
    parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    command.__signature__ = inspect.Signature([*parameters, *_problem_parameters()])
    return command


def _problem_parameters() -> list[inspect.Parameter]:
    parameters = []
    for name in dict.fromkeys(name for entry in GALLERY.values() for name in entry.parameters):
        owners = [entry for entry in GALLERY.values() if name in entry.parameters]
        text = "; ".join(f"{e.name}: {e.parameters[name].help} [default: {e.parameters[name].default:g}]" for e in owners)
        parameters.append(_parameter(name, float, text, "Parameters of problems"))
    return parameters


def _parameter(name: str, kind: type, text: str, panel: str) -> inspect.Parameter:
    annotation = Annotated[kind | None, _option(flag(name), text=text, panel=panel)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def choose_method(name: str | None, given: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The method that is meant and its settings, from all flags given; None leaves the choice to `solve`."""
    settings = {key: value for key, value in given.items() if key in _FIELD_OF}
    if name is not None and name not in METHODS:
        raise ValueError(f"there is no method '{name}'; choose from {', '.join(METHODS)}.")
    allowed = {
        key: tuple(flag for flag, field in _FIELD_OF.items() if field in method.fields) for key, method in METHODS.items()
    }
    if name is None and settings:
        name = next((key for key, names in allowed.items() if set(settings) <= set(names)), None)
        if name is None:
            raise ValueError(f"no method takes all of {_listing(settings)}.")
    if name is not None:
        _refuse(f"the method '{name}'", settings, allowed[name])
    return name, {_FIELD_OF[key]: SETTINGS[_FIELD_OF[key]].parse(value) for key, value in settings.items()}


def choose_parameters(problem: str, entry: Entry | None, given: Mapping[str, Any]) -> dict[str, float]:
    """The parameters for a problem of the gallery (`entry`), or for one from a file, which takes none."""
    parameters = {key: value for key, value in given.items() if key not in _FIELD_OF}
    _refuse(f"'{problem}'", parameters, () if entry is None else tuple(entry.parameters))
    return parameters


def _refuse(owner: str, given: Iterable[str], allowed: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in allowed]
    if unknown:
        takes = _listing(allowed) if allowed else "no parameters"
        raise ValueError(f"{_listing(unknown)} is not for {owner}, which takes {takes}.")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(flag, names))
