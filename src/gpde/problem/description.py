"""What was understood of a problem, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpde.equations import Kind
from gpde.equations.linear_operators import operator_text


def problem_text(problem: Any, points: Mapping[str, Any] | None = None) -> str:
    """What was understood: fields, functionals, equations and their kind, where each holds, on how many points."""
    lines = [
        f"{problem.name}: field{'s' if len(problem.fields) > 1 else ''} {', '.join(problem.fields)} "
        f"of ({', '.join(problem.domain.coordinates)}) on {problem.domain}"
    ]
    for name, unknown in zip(problem.fields, problem.fields.unknowns, strict=True):
        said = [] if unknown.on is None else [f"lives on '{unknown.on}'"]
        said += [] if unknown.mean is None else [f"has the prior mean {getattr(unknown.mean, '__name__', unknown.mean)}"]
        lines += [f"  field {name}: {' and '.join(said)}"] if said else []
    lines += [f"  scalar {name}: {parameter.text}" for name, parameter in problem.parameters.items()]
    for condition in problem.conditions:
        reading, data = condition.reading, condition.observations
        symbols = [operator_text(o, problem.unknowns, problem.domain.coordinates) for o in reading.operators]
        lines.append(f"  {condition.part}{_count_text(problem, condition, points)}")
        lines.append(f"    functionals: {', '.join(symbols)}")
        if data is not None and not condition.is_constraint:
            noise = np.asarray(data.noise)
            lines.append(f"    data: {len(data.values)} values, noise {noise.min():.3g} to {noise.max():.3g}")
            continue
        lines += [
            f"    {statement.name}: {kind_text(kind, symbols)}{', with the normal' if statement.normal else ''}"
            f"{'' if condition.weights is None else ', on average'}"
            for statement, kind in zip(reading.equations, reading.kinds, strict=True)
        ]
        if reading.eliminated is not None:
            lines.append(f"    can be solved for: {', '.join(symbols[k] for k in reading.eliminated)}")
    return "\n".join(lines)


def _count_text(problem: Any, condition: Any, points: Mapping[str, Any] | None) -> str:
    if condition.observations is not None:
        return f" ({len(condition.observations.points)} points)"
    atoms = problem.atoms(condition.part)
    where = f" = {' + '.join(atoms)}" if atoms not in ((condition.part,), problem.domain.covers(condition.part)) else ""
    if points is not None and condition.part in points:
        return f"{where} ({len(points[condition.part])} points)"
    counts = {c: len(p) for c, p in problem.sample().items()}
    return f"{where} ({counts[condition.part]} points by default)"


def kind_text(kind: Kind, symbols: Sequence[str]) -> str:
    """The kind of an equation in words."""
    if kind.dirichlet:
        return "Dirichlet condition"
    if kind.linear:
        return "linear"
    if kind.affine_in:
        return f"nonlinear, affine in {', '.join(symbols[k] for k in kind.affine_in)}"
    return "nonlinear"
