"""The user's equations as functions of the fields and of what is known at a point, and the record that holds that."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Equation = Callable[..., Any]


class Site(NamedTuple):
    """What an equation is told of a point beside the unknown: where it is, and the outward unit normal where one is asked for.

    With a leading axis it stands for many points.
    """

    x: Any
    normal: Any = None

    @property
    def num_points(self) -> int:
        return len(self.x)

    def at(self, index: Any) -> "Site":
        """The sites with these numbers."""
        return jax.tree.map(lambda leaf: leaf[index], self)

    def map(self, function: Callable[[Any], Any]) -> "Site":
        """The same with every array replaced: `site.map(jnp.asarray)`."""
        return jax.tree.map(function, self)


@dataclasses.dataclass(frozen=True, eq=False)
class Statement:
    """An equation of the user's: its function, what messages call it, and what it takes after the fields and the point: the
    normal, under the name that the function gives it, and unknown scalars. To the function a field is what is unknown of it and
    its prior mean together."""

    function: Equation
    name: str
    num_fields: int
    normal: str | None = None
    scalars: "tuple[UnknownScalar, ...]" = ()
    means: tuple[Callable[[Array], Any] | None, ...] = ()

    def __call__(self, unknowns: Sequence[Callable[[Array], Array]], site: Site) -> Any:
        """Its value for given fields and scalars at one point."""
        told = {} if self.normal is None else {self.normal: site.normal}
        told |= {scalar.name: scalar.value(unknowns[scalar.place](site.x)) for scalar in self.scalars}
        return self.function(*with_means(unknowns[: self.num_fields], self.means), site.x, **told)


def with_means(
    fields: Sequence[Callable[[Array], Array]], means: Sequence[Callable[[Array], Any] | None]
) -> list[Callable[[Array], Any]]:
    """The fields with their prior means added; None is zero, and so is no mean at all."""

    def added(field: Callable[[Array], Array], mean: Callable[[Array], Any] | None) -> Callable[[Array], Any]:
        return field if mean is None else lambda x: field(x) + mean(x)

    return [added(f, m) for f, m in zip(fields, means or (None,) * len(fields), strict=True)]


class UnknownScalar(NamedTuple):
    """An unknown scalar that an equation takes: its name, its place among the unknowns, and its value for that of a field that
    is the same everywhere."""

    name: str
    place: int
    value: Callable[[Array], Array]


def equation_name(equation: Equation, part: str, index: int | None = None) -> str:
    """What messages call an equation: its part, its place there, and its own name if it has one."""
    own = getattr(equation, "__name__", "<lambda>")
    place = f"the equation on '{part}'" if index is None else f"equation {index + 1} on '{part}'"
    return place if own == "<lambda>" else f"{place} (`{own}`)"


def stated(
    equation: Equation,
    name: str,
    fields: Sequence[str],
    scalars: Mapping[str, Callable[[Array], Array]] = MappingProxyType({}),
    means: tuple[Callable[[Array], Any] | None, ...] = (),
) -> Statement:
    """The equation with its arguments understood: the fields, the point, scalars by name and, if it asks for one more, the
    normal."""
    takes = f"({', '.join(fields)}, x)"
    if not callable(equation):
        raise ValueError(
            f"{name} must be a function such as `lambda {', '.join(fields)}, x: ...`, not {type(equation).__name__}."
        )
    try:
        signature = inspect.signature(equation)
    except (TypeError, ValueError):  # a builtin without a signature: calling it will tell
        return Statement(equation, name, len(fields), means=means)
    all_others = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind not in all_others]
    told = tuple(
        UnknownScalar(scalar, len(fields) + place, value)
        for place, (scalar, value) in enumerate(scalars.items())
        if scalar in signature.parameters and signature.parameters[scalar].kind is not inspect.Parameter.POSITIONAL_ONLY
    )
    needed = [p for p in needed if p.name not in {scalar.name for scalar in told}]
    names, own = [p.name for p in needed], [*fields, "x"]
    if sorted(n for n in names if n in own) == sorted(own) and [n for n in names if n in own] != own:
        raise ValueError(
            f"{name} takes `({', '.join(names)})`; the order is `{takes}`: the fields as in `fields`, the point last."
        )
    one_more = len(names) == len(own) + 1 and names[-1] != "x" and needed[-1].kind is not inspect.Parameter.POSITIONAL_ONLY
    normal = names[-1] if one_more else None
    named: dict[str, Any] = {scalar.name: None for scalar in told} | ({} if normal is None else {normal: None})
    try:
        signature.bind(*([None] * len(own)), **named)
    except TypeError as error:
        there = f", and these are {', '.join(map(repr, scalars))}" if scalars else ""
        raise ValueError(
            f"{name} must take {len(own)} arguments, `{takes}`: the field{'s' if len(fields) > 1 else ''} {words(fields)} and "
            f"the point; or one more, `({', '.join(fields)}, x, n)`, the outward normal on a part of the boundary; "
            f"unknown numbers are named in `parameters`{there}. Its signature is {signature}."
        ) from error
    return Statement(equation, name, len(fields), normal, told, means)


def check_operator(operator: Callable[..., Any], name: str, fields: Sequence[str]) -> None:
    """An operator takes the fields and gives a function: `laplacian`, or `lambda u, v: ...` for two fields."""
    try:
        inspect.signature(operator).bind(*([None] * len(fields)))
    except ValueError:  # a builtin without a signature: calling it will tell
        return
    except TypeError as error:
        raise ValueError(
            f"{name} must take the field{'s' if len(fields) > 1 else ''} {words(fields)} and return a function of the "
            f"point, as in `lambda {', '.join(fields)}: ...`: {error}."
        ) from error


def applied(
    operator: Callable[..., Any] | None, name: str, num_fields: int, means: tuple[Callable[[Array], Any] | None, ...] = ()
) -> Statement:
    """An operator of the fields as a function of the fields and the point; None is the first field itself."""

    def value(*arguments: Any) -> Any:
        *fields, x = arguments
        return (fields[0] if operator is None else operator(*fields))(x)

    return Statement(value, name, num_fields, means=means)


def words(fields: Sequence[str]) -> str:
    return ", ".join(f"`{f}`" for f in fields)


def shape_of(site: Site) -> Site:
    """The shapes of one site of many, for tracing."""
    return site.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf)[1:], jnp.float64))
