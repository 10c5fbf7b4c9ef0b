r"""What a file remembers of a problem, to tell it from others: not its code, which no file holds, but what that does.

Equations are evaluated, by plain differentiation, on a few fixed functions at points that the file keeps. Two problems are the
same if these numbers are, up to the rounding of another machine: a lambda written anew passes, another viscosity does not.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpde.domains import AbstractDomain
from gpde.equations import Site, run_compiled
from gpde.problem.problem import Problem

_TOLERANCE = 1e-9
_NUM_POINTS = 32  # on each part
# Level and height of the functions: of both signs, positive (roots, logarithms), and large (what sleeps below a threshold).
_PROBES = ((0.0, 1.0), (3.0, 1.0), (0.0, 40.0))


def fingerprint(problem: Problem) -> dict[str, Any]:
    """The fields, the domain, and what the equations of each part and the observed quantities are on the fixed functions."""
    conditions: dict[str, Any] = {}
    for condition in problem.conditions:
        data = condition.observations
        points = problem.sample_part(condition.part, _NUM_POINTS) if data is None else data.points
        measured = {} if data is None else {"values": data.values, "noise": data.noise}
        conditions[condition.part] = {"points": points, **measured, "residuals": _residuals(problem, condition.part, points)}
    domain = {"text": repr(problem.domain), "geometry": _geometry(problem.domain)}
    return {"fields": problem.unknowns, "domain": domain, "conditions": conditions}


def check_same(owner: str, saved: Mapping[str, Any], problem: Problem) -> None:
    """Raises `ValueError` unless a problem is the one of which `saved` is the fingerprint, and says what differs."""
    if differences := _differences(saved, problem):
        raise ValueError(
            f"{owner} was solved for another problem: {'; '.join(differences)}. "
            "Give the problem that was solved, or load the file without one."
        )


def _differences(saved: Mapping[str, Any], problem: Problem) -> list[str]:
    domain, there = problem.domain, saved["conditions"]
    here = {condition.part: condition for condition in problem.conditions}
    if saved["fields"] != problem.unknowns:
        return [f"its fields are {', '.join(saved['fields'])}, those of `problem` {', '.join(problem.unknowns)}"]
    geometry = _geometry(domain)
    if not (
        all(_close(value, geometry[name]) for name, value in saved["domain"]["geometry"].items())
        and all(domain.on_part(part, kept["points"]).all() for part, kept in there.items() if part in domain.parts)
    ):
        return [f"its domain is {saved['domain']['text']}, that of `problem` {domain}"]
    if set(there) != set(here):
        return [f"its equations and data are on {', '.join(there)}, those of `problem` on {', '.join(here)}"]
    differences = []
    for part, kept in there.items():
        data = here[part].observations
        if data is None:
            if not _close(kept["residuals"], _residuals(problem, part, kept["points"])):
                differences.append(f"the equations on '{part}' differ")
        elif not all(_close(kept[name], getattr(data, name)) for name in ("points", "values", "noise")):
            differences.append(f"the observations '{part}' differ")
        elif not _close(kept["residuals"], _residuals(problem, part, kept["points"])):
            differences.append(f"the operators of the observations '{part}' differ")
    return differences


def _geometry(domain: AbstractDomain) -> dict[str, Any]:
    return {
        "coordinates": domain.coordinates,
        "parts": domain.parts,
        "measures": np.array([domain.measure(part) for part in domain.parts]),
        "corners": np.stack([domain.lower, domain.upper]),
    }


def _residuals(problem: Problem, part: str, points: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points numbers"]:
    """What the equations of a part give on the fixed functions, one column for each equation and function."""
    (reading,) = [condition.reading for condition in problem.conditions if condition.part == part]
    sites = problem.sites(part, points, normals=reading.takes_normal).map(jnp.asarray)
    lower, extent = jnp.asarray(problem.domain.lower), jnp.asarray(problem.domain.extent)
    axes = jnp.arange(1.0, 1.0 + problem.domain.dim)

    def at(site: Site, probe: Array) -> Array:
        def field(index: int) -> Callable[[Array], Array]:
            def value(x: Array) -> Array:
                place = (x - lower) / extent  # in units of the domain derivatives of every order are of one size
                slow, fast = jnp.sin(axes @ place + index), jnp.cos(jnp.sqrt(2.0 + 3.0 * axes) @ place + 2.0 * index)
                return probe[0] + probe[1] * (slow + 0.5 * fast)

            return value

        fields = [field(index) for index in range(len(problem.unknowns))]
        values = [jnp.asarray(statement(fields, site), dtype=probe.dtype) for statement in reading.equations]
        return jnp.stack([value.reshape(()) for value in values])

    on_all = jax.vmap(jax.vmap(at, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(run_compiled(on_all, sites, jnp.array(_PROBES))).reshape(len(points), -1)


def _close(there: Any, here: Any) -> bool:
    """Whether names are equal, and numbers up to rounding, relative to the largest of their column."""
    if not isinstance(there, np.ndarray):
        return there == here
    here = np.asarray(here, dtype=float)
    if there.shape != here.shape:
        return False
    finite = np.isfinite(there)
    scale = np.max(np.abs(there), axis=0, where=finite, initial=0.0)
    off = np.abs(np.where(finite, here - there, 0.0)) > _TOLERANCE * scale
    return not off.any() and np.array_equal(there[~finite], here[~finite], equal_nan=True)
