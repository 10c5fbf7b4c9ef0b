"""What is known of a field beside its equations: where it lives, and what is expected of it."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float

from gpde.arguments import named_constructor
from gpde.domains import AbstractDomain


@named_constructor
@dataclasses.dataclass(frozen=True)
class Unknown:
    """A field, in `fields={"u": Unknown(on="core"), "a": Unknown(mean=1.0)}`.

    - `on`: the part of the domain where it lives; None: everywhere. Elsewhere no equation may look at it, and the solution is
      NaN there.
    - `mean`: what is expected of it before equations and data speak, a number or a function of one point; the kernel is that
      of the difference. None is zero.
    """

    on: str | None = None
    mean: float | Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        mean = self.mean
        is_number = isinstance(mean, int | float | np.number) and not isinstance(mean, bool) and math.isfinite(mean)
        if mean is not None and not callable(mean) and not is_number:
            raise ValueError(f"`Unknown`: `mean` is a finite number or a function of one point; came {mean!r}.")

    def mean_at(self, x: Array) -> Any:
        """The prior mean at one point."""
        if self.mean is None:
            return 0.0
        return self.mean(x) if callable(self.mean) else self.mean


class Fields(tuple[str, ...]):
    """The names of the fields, with what is known of each."""

    unknowns: tuple[Unknown, ...]

    @property
    def means(self) -> tuple[Callable[[Any], Any] | None, ...]:
        """The prior mean of each field; None where it is zero."""
        return tuple(None if unknown.mean is None else unknown.mean_at for unknown in self.unknowns)

    def alive(self, domain: AbstractDomain, points: Float[np.ndarray, "points dim"]) -> Bool[np.ndarray, "points fields"]:
        """At which points each field has a value."""
        everywhere = np.ones(len(points), dtype=bool)
        return np.stack([everywhere if u.on is None else domain.in_closure(u.on, points) for u in self.unknowns], axis=1)

    @property
    def everywhere(self) -> bool:
        """Whether every field lives everywhere."""
        return all(unknown.on is None for unknown in self.unknowns)

    @property
    def plain(self) -> bool:
        """Whether their names are all that is known."""
        return self.everywhere and not any(self.means)


def named_fields(given: Any, domain: AbstractDomain | None) -> Fields:
    """The fields, from names alone or from a mapping; an error where they are neither."""
    if isinstance(given, Fields):
        fields = dict(zip(given, given.unknowns, strict=True))
    elif isinstance(given, Mapping):
        fields = {name: Unknown() if unknown is None else unknown for name, unknown in given.items()}
    else:
        names = (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        fields = {name: Unknown() for name in names if isinstance(name, str) and name}
        if len(fields) != len(names):
            fields = {}
    known = all(isinstance(name, str) and name and isinstance(unknown, Unknown) for name, unknown in fields.items())
    if not fields or not known:
        raise ValueError(
            "`Problem`: `fields` must be distinct names such as ('u', 'v'), or a mapping from names to `gpde.Unknown(...)`; "
            f"came {given!r}."
        )
    for name, unknown in fields.items():
        if unknown.on is not None and domain is not None and unknown.on not in domain.parts:
            raise ValueError(
                f"`Problem`: the field '{name}' lives on {unknown.on!r}, which is no part of the domain; its parts are "
                f"{', '.join(domain.parts)}."
            )
    named = Fields(fields)
    named.unknowns = tuple(fields.values())
    return named
