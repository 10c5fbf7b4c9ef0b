"""A problem as stated on paper: which equations hold where, and what has been observed. No numerics."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gpde.arguments import named_constructor
from gpde.domains import AbstractDomain
from gpde.domains.sampling import split
from gpde.equations import Equation, Reading, Site, Statement, applied, check_operator, equation_name, read, stated
from gpde.kernels import AbstractKernel
from gpde.problem.constraints import Constraint, checked_constraints
from gpde.problem.description import problem_text
from gpde.problem.observations import Observations, numbers
from gpde.problem.parameters import Parameter
from gpde.problem.unknowns import named_fields

PointsByPart = Mapping[str, Float[np.ndarray, "_ dim"]]  # as many on each part as there happen to be
_NUM_PROBE_POINTS = 64


@named_constructor
@dataclasses.dataclass(frozen=True)
class Defaults:
    """What `solve` takes where the user says nothing; `grid` is the shape of the test grid for errors and pictures."""

    kernel: AbstractKernel | Mapping[str, AbstractKernel] | None = None
    num_interior: int = 900
    num_boundary: int = 300
    nugget: float = 1e-10
    grid: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Condition:
    """The equations of one part with everything collocation needs: where, what was read, right sides and noise.

    Constraints come with observations too: that they are zero at their points, exactly, or on average with `weights`.
    """

    part: str
    reading: Reading
    observations: Observations | None = None
    weights: Float[np.ndarray, " points"] | None = None
    is_constraint: bool = False


@named_constructor
@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Which equations hold where.

    **Main arguments:**

    - `domain`: where the points lie.
    - `equations`: for each part of the domain a function of the fields and one point, zero where it holds, or a list of
      such functions for a system; on the boundary it may take the outward normal too, `lambda u, x, n: ...`.
      Of parts that overlap the more special one has its say (`domain.parts` is in that order): `"boundary"` means every side
      that has no equation of its own.

    **Other arguments:**

    - `fields`: the names of the unknowns, in the order in which equations take them; or a mapping from names to `Unknown`,
      which says where a field lives and what its prior mean is.
    - `observations`: one `Observations`, or several.
    - `constraints`: equations at single points, `At(points, equation)`, and on average over a part, `Mean(part, equation)`;
      one or several.
    - `parameters`: unknown scalars by name, `{"nu": Parameter(initial=0.1)}`; equations take them by that name, after the
      point: `lambda u, x, nu: ...`.
    - `reference`: the exact solution as a function of one point, where there is one (a tuple of values for several fields).
    - `name`, `defaults`: what to call it, and what `solve` takes by default.
    """

    domain: AbstractDomain
    equations: Mapping[str, Equation | Sequence[Equation]]
    fields: Any = ("u",)  # `Fields` once the problem is there
    observations: Observations | Sequence[Observations] = ()
    reference: Callable[..., Any] | None = None
    name: str = "problem"
    defaults: Defaults = dataclasses.field(default_factory=Defaults)
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)
    constraints: Constraint | Sequence[Constraint] = ()
    conditions: tuple[Condition, ...] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.domain, AbstractDomain):
            raise ValueError(
                "`Problem`: `domain` must be a gpde domain such as `gpde.Box((0, 0), (1, 1))`, "
                f"not {type(self.domain).__name__}."
            )
        fields = named_fields(self.fields, self.domain)
        given = self.observations
        observations = (given,) if isinstance(given, Observations) or not isinstance(given, Sequence) else tuple(given)
        if not all(isinstance(data, Observations) for data in observations):
            raise ValueError(
                "`Problem`: `observations` must be `gpde.Observations(points, values)`, or a list of them; "
                f"came {type(given).__name__}."
            )
        if not isinstance(self.equations, Mapping):
            raise ValueError(
                "`Problem`: `equations` says which equation holds where, as in "
                f'`equations={{"interior": lambda u, x: ...}}`; came {type(self.equations).__name__}.'
            )
        self._check_parameters(fields)
        constraints = checked_constraints(self.constraints)
        if not isinstance(self.defaults, Defaults):
            raise ValueError(f"`Problem`: `defaults` must be `gpde.Defaults(...)`; came {type(self.defaults).__name__}.")
        if self.reference is not None and not callable(self.reference):
            raise ValueError(f"`Problem`: `reference` must be a function of one point; came {type(self.reference).__name__}.")
        if not self.equations and not observations and not constraints:
            raise ValueError('`Problem`: give at least one equation, as in `equations={"interior": lambda u, x: ...}`.')
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "observations", observations)
        object.__setattr__(self, "constraints", constraints)
        object.__setattr__(self, "conditions", self._read("minimal"))
        seen = {field for c in self.conditions for operator in c.reading.operators for field, _ in operator}
        for index, name in enumerate(self.parameters, start=len(fields)):
            if index not in seen:
                raise ValueError(
                    f"`Problem`: no equation depends on the parameter '{name}'. An equation takes it by its name, as in "
                    f"`lambda {', '.join(fields)}, x, {name}: ...`."
                )
        for index, field in enumerate(fields):
            if index not in seen:
                raise ValueError(
                    f"`Problem`: no equation and no observation looks at the field '{field}', so nothing determines it. "
                    "Leave it out of `fields`, or state its equation."
                )

    def _check_parameters(self, fields: tuple[str, ...]) -> None:
        if not isinstance(self.parameters, Mapping) or not all(isinstance(p, Parameter) for p in self.parameters.values()):
            raise ValueError(
                '`Problem`: `parameters` names unknown scalars, as in `parameters={"nu": gpde.Parameter(initial=0.1)}`; '
                f"came {self.parameters!r}."
            )
        taken = {"x": "the point", "n": "the outward normal on the boundary", **dict.fromkeys(fields, "a field")}
        for name in self.parameters:
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"`Problem`: the name of a parameter is that of an argument, as 'nu'; came {name!r}.")
            if name in taken:
                raise ValueError(
                    f"`Problem`: a parameter is called '{name}', which to equations is {taken[name]}; choose another name."
                )

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The fields, and after them the scalars: to the methods these are fields too, with a prior that is constant."""
        return (*self.fields, *self.parameters)

    @property
    def determines_its_fields(self) -> bool:
        """Whether there are as many equations as fields where these live; an unknown coefficient is a field that has none."""
        given = (len(c.reading.kinds) for c in self.conditions if c.observations is None and self.domain.is_open(c.part))
        return sum(given) >= len(self.fields)

    @functools.cached_property
    def derivative_conditions(self) -> tuple[Condition, ...]:
        """The conditions with every derivative an operator of its own, as in the paper's experiments."""
        return self._read("derivatives")

    def _read(self, functionals: str) -> tuple[Condition, ...]:
        """The conditions with their equations read; `functionals` as in `equations.read`."""
        conditions = []
        for part, given in self.equations.items():
            if part not in self.domain.parts:
                raise ValueError(
                    f"`Problem`: there is no part {part!r} in the domain. "
                    f"Equations may hold on: {', '.join(self.domain.parts)}.{self.domain.no_ends}"
                )
            statements = self._statements(given, part)
            normals = any(statement.normal is not None for statement in statements)
            if normals and self.domain.is_open(part):
                raise ValueError(self._no_normal(next(s for s in statements if s.normal is not None), part))
            probes = self.sites(part, self.sample_part(part, _NUM_PROBE_POINTS, "uniform", seed=20230), normals=normals)
            reading = read(statements, self.unknowns, probes, units=self.domain.extent, functionals=functionals)
            self._check_alive(reading, probes.x, f"'{part}'")
            conditions.append(Condition(part, reading))
        observations: tuple[Observations, ...] = self.observations  # pyright: ignore[reportAssignmentType]
        for index, data in enumerate(observations):
            if data.points.shape[1] != self.domain.dim:
                raise ValueError(
                    f"`Observations`: points have {data.points.shape[1]} coordinates, the domain has {self.domain.dim}."
                )
            part = data.name if len(observations) == 1 else f"{data.name} {index + 1}"
            if part in self.domain.parts:
                raise ValueError(f"`Observations`: `name` is '{part}', which is a part of the domain; choose another.")
            outside = ~self.domain.contains(data.points)
            if outside.any():
                raise ValueError(
                    f"`Observations`: {outside.sum()} of {len(outside)} points lie outside {self.domain}, for instance "
                    f"{np.array2string(data.points[outside][0], precision=4)}. Check the order of coordinates "
                    f"{self.domain.coordinates}."
                )
            name = f"the operator of observations '{part}'"
            if data.operator is not None:
                check_operator(data.operator, name, self.fields)
            observed = applied(data.operator, name, len(self.fields), self.fields.means)
            reading = read((observed,), self.unknowns, Site(data.points), units=self.domain.extent, functionals=functionals)
            self._check_alive(reading, data.points, f"the observations '{part}'")
            conditions.append(Condition(part, reading, data))
        return (*conditions, *self._read_constraints(functionals, {c.part for c in conditions}))

    def _read_constraints(self, functionals: str, taken: set[str]) -> list[Condition]:
        conditions = []
        constraints: tuple[Constraint, ...] = self.constraints  # pyright: ignore[reportAssignmentType]
        for constraint in constraints:
            part = next(name for name in _numbered(constraint.name) if name not in taken and name not in self.domain.parts)
            taken.add(part)
            statements = self._statements(constraint.equations, part)
            points, weights = constraint.nodes(self.domain)
            if any(statement.normal is not None for statement in statements):
                raise ValueError(
                    f"`{type(constraint).__name__}`: its equations take the fields and the point, not the normal; "
                    "those on parts of the boundary do."
                )
            reading = read(statements, self.unknowns, Site(points), units=self.domain.extent, functionals=functionals)
            self._check_alive(reading, points, f"'{part}'")
            if weights is not None:  # at no point alone does it hold
                reading = reading.averaged()
            exact = Observations(points, np.zeros(len(points)), name=part)
            conditions.append(Condition(part, reading, exact, weights, is_constraint=True))
        return conditions

    def _statements(self, given: Any, part: str) -> list[Statement]:
        """The equations of a part with their arguments understood."""
        equations: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not equations:
            raise ValueError(f"`Problem`: no equation is given for '{part}'; leave the part out instead.")
        several = len(equations) > 1
        names = [equation_name(e, part, i if several else None) for i, e in enumerate(equations)]
        scalars = {name: parameter.value for name, parameter in self.parameters.items()}
        means = self.fields.means
        return [stated(e, name, self.fields, scalars, means) for e, name in zip(equations, names, strict=True)]

    def _check_alive(self, reading: Reading, points: Float[np.ndarray, "points dim"], where: str) -> None:
        """Refuses equations that look at a field where it does not live."""
        if self.fields.everywhere:
            return
        alive = self.fields.alive(self.domain, points)
        for index in sorted({field for operator in reading.operators for field, _ in operator if field < len(self.fields)}):
            if not alive[:, index].all():
                raise ValueError(
                    f"`Problem`: the equations on {where} look at the field '{self.fields[index]}', which lives on "
                    f"'{self.fields.unknowns[index].on}', at points that are not there, for instance "
                    f"{np.array2string(points[~alive[:, index]][0], precision=4)}."
                )

    def _no_normal(self, statement: Statement, part: str) -> str:
        """A message; what is not called `n` may have been meant as an unknown scalar."""
        boundary = ", ".join(p for p in self.domain.parts if not self.domain.is_open(p))
        name = statement.normal
        scalar = f' An unknown number is declared by `parameters={{"{name}": gpde.Parameter(initial=...)}}`'
        scalar += f"; the parameters are {', '.join(map(repr, self.parameters))}." if self.parameters else "."
        return (
            f"{statement.name} takes one argument after `{', '.join(self.fields)}` and `x`, which is the outward normal, and "
            f"'{part}' has none. Equations on the boundary may take it: on {boundary}.{'' if name == 'n' else scalar}"
        )

    def atoms(self, part: str) -> tuple[str, ...]:
        """The sides that a part stands for here: without those of more special parts that have equations of their own."""
        own, parts = self.domain.covers(part), self.domain.parts
        later = parts[parts.index(part) + 1 :] if part in parts else ()
        taken = {atom for special in later if special in self.equations for atom in self.domain.covers(special)}
        return tuple(atom for atom in own if atom not in taken)

    def sites(self, part: str, points: Float[np.ndarray, "points dim"], *, normals: bool) -> Site:
        """Points of a part with what equations are told of them: `normals` if one of them asks; in a corner, that of the
        first side that the part stands for here."""
        if not normals:
            return Site(points)
        found, missing = np.zeros_like(points), np.ones(len(points), dtype=bool)
        for atom in self.atoms(part):
            here = np.flatnonzero(missing)[self.domain.on_part(atom, points[missing])]
            if len(here):
                found[here] = self.domain.normal(atom, points[here])
            missing[here] = False
        if missing.any():
            raise ValueError(
                f"an equation on '{part}' takes the normal, and {missing.sum()} of {len(points)} points do not lie there, for "
                f"instance {np.array2string(points[missing][0], precision=4)}."
            )
        return Site(points, found)

    def sample_part(self, part: str, num: int, sampling: str = "uniform", seed: int = 0) -> Float[np.ndarray, "points dim"]:
        """Points on one part, split over its sides by their share of the boundary."""
        atoms = self.atoms(part)
        if not atoms:
            raise ValueError(f"`Problem`: every side that '{part}' stands for has an equation of its own; leave '{part}' out.")
        return self.domain.sample_atoms(atoms, num, sampling=sampling, seed=seed)

    def sample(
        self,
        num_interior: int | None = None,
        num_boundary: int | None = None,
        *,
        sampling: str = "uniform",
        seed: int = 0,
        points: Mapping[str, ArrayLike] | None = None,
    ) -> dict[str, Float[np.ndarray, "points dim"]]:
        """Points for every part with an equation: the user's where given, else drawn.

        `num_boundary` points are shared by all parts other than the interior, in proportion to their measure in units of the
        domain (the four sides of a box are equals), and each gets one at least.
        """
        if points is not None and not isinstance(points, Mapping):
            raise ValueError(
                "`points` says which points lie on which part, as in `points={'interior': array}`; "
                f"came {type(points).__name__}."
            )
        given = {} if points is None else dict(points)
        names = [c.part for c in self.conditions if c.observations is None]
        for part in given:
            if part not in names:
                raise ValueError(f"`points`: no equation holds on {part!r}; parts with equations: {', '.join(names)}.")
        interior = _count("num_interior", num_interior, self.defaults.num_interior)
        boundary = _count("num_boundary", num_boundary, self.defaults.num_boundary)
        inner = {part: self.domain.is_open(part) for part in names}
        counts: dict[str, int] = {}
        for kind, num in ((True, interior), (False, boundary)):
            parts = [part for part in names if inner[part] is kind and part not in given]
            shares = [sum(self.domain.atom_share(a) for a in self.atoms(part)) for part in parts]
            counts |= dict(zip(parts, split(num, shares, least=1) if parts else [], strict=True))
        out: dict[str, Float[np.ndarray, "points dim"]] = {}
        for part in names:
            if part in given:
                out[part] = self._checked(part, given[part])
            else:
                if counts[part] < 1:
                    raise ValueError(
                        f"the equation on '{part}' gets no point: raise "
                        f"`{'num_interior' if inner[part] else 'num_boundary'}`, or give `points={{'{part}': ...}}`."
                    )
                out[part] = self.sample_part(part, counts[part], sampling, seed)
        return out

    def _checked(self, part: str, points: Any) -> Float[np.ndarray, "points dim"]:
        array = numbers(f"`points[{part!r}]`", points)
        if array.ndim == 1 and self.domain.dim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self.domain.dim or len(array) == 0:
            raise ValueError(
                f"`points[{part!r}]` must have shape (num, {self.domain.dim}) with num >= 1; came {np.shape(points)}."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"`points[{part!r}]` holds {np.sum(~np.isfinite(array))} values that are not finite.")
        inside = self.domain.on_part(part, array)
        if not inside.all():
            where = array[np.flatnonzero(~inside)[0]]
            raise ValueError(
                f"`points[{part!r}]`: {np.sum(~inside)} of {len(array)} points do not lie there, for instance "
                f"{np.array2string(where, precision=4)}. Check the order of coordinates {self.domain.coordinates}."
            )
        if len(np.unique(array, axis=0)) < len(array):
            raise ValueError(
                f"`points[{part!r}]`: {len(array) - len(np.unique(array, axis=0))} points are repeated, which makes the "
                "covariance singular. Remove them, with `numpy.unique(points, axis=0)` for instance."
            )
        return array

    def describe(self, points: PointsByPart | None = None) -> None:
        """Prints what was understood."""
        print(self.text(points))  # noqa: T201 - printing is what it is for

    def text(self, points: PointsByPart | None = None) -> str:
        """What was understood: fields, functionals, equations and their kind, where each holds, on how many points."""
        return problem_text(self, points)

    def __str__(self) -> str:
        return self.text()


def _numbered(name: str) -> Iterator[str]:
    """The name, then the name with a number: `mean`, `mean 2`, ..."""
    yield name
    yield from (f"{name} {number}" for number in itertools.count(2))


def _count(name: str, given: int | None, default: int) -> int:
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise ValueError(f"`{name}` must be a whole number >= 0; came {given!r}.")
    return int(given)
