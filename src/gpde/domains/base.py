"""What every domain can say about itself. Other code uses these methods and nothing else."""

import abc
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from gpde.arguments import named_constructor
from gpde.domains.sampling import (
    SAMPLINGS,
    between,
    count,
    first_of_each,
    gauss_points,
    generator,
    placed,
    split,
    spread,
    trial,
    weights_of_means,
)

if TYPE_CHECKING:
    from gpde.domains.parts import WithParts
    from gpde.domains.set_operations import Difference, Intersection, Union

Points = Float[np.ndarray, "points dim"]
Mask = Bool[np.ndarray, " points"]


class AbstractDomain(abc.ABC):
    """A region whose parts have names: the interior, the pieces of its boundary, and unions of them.

    A new geometry gives the abstract members below, each for *atomic* parts; names, unions, sampling, checks, set operations
    (`a | b`, `a & b`, `a - b`) and `with_parts` follow.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            named_constructor(cls)

    # How far off its boundary a point may lie and count as on it, relative to the extent.
    tolerance: float = 1e-9

    # --- what a geometry gives

    # Set by the constructor: the corners of the bounding box, and the names of the coordinates, for people.
    lower: Float[np.ndarray, " dim"]
    upper: Float[np.ndarray, " dim"]
    coordinates: tuple[str, ...]

    @property
    @abc.abstractmethod
    def atoms(self) -> tuple[str, ...]:
        """The parts that are not unions of others, `"interior"` first."""

    @property
    @abc.abstractmethod
    def unions(self) -> Mapping[str, tuple[str, ...]]:
        """The names that stand for several atoms: `{"boundary": ("left", "right")}`. The more special come later."""

    @abc.abstractmethod
    def atom_extent(self, atom: str) -> Float[np.ndarray, " axes"]:
        """Lengths of the atom along the axes of the unit cube that `place` takes; none if it is a single point."""

    @abc.abstractmethod
    def atom_measure(self, atom: str) -> float:
        """Volume, area or length of the atom; 1 for a single point."""

    @abc.abstractmethod
    def place(self, atom: str, unit: Float[np.ndarray, "points axes"]) -> Points:
        """Carries points of the unit cube to the atom so that uniform stays uniform; never onto the atom's own edge.

        A row of NaN rejects a point: where no such map is at hand, points of a box around the atom do, without those outside.
        """

    @abc.abstractmethod
    def contains(self, points: ArrayLike, tolerance: float | None = None) -> Mask:
        """Which points lie in the closed domain, up to `tolerance` (None: the domain's own) times its extent."""

    @abc.abstractmethod
    def on_atom(self, atom: str, points: Points, tolerance: float) -> Mask:
        """Which points lie on the (closed) atom; the interior is without its boundary."""

    @abc.abstractmethod
    def atom_normal(self, atom: str, points: Points) -> Points:
        """Outward unit normals at points of an atom of the boundary."""

    # --- what follows from it

    def arguments(self) -> dict[str, Any] | None:
        """What the constructor was given, by name; None if an argument is not an attribute of that name.

        A domain that keeps its arguments so can be written to a file, unless a function is among them.
        """
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names} if all(hasattr(self, name) for name in names) else None

    def __repr__(self) -> str:
        arguments = self.arguments()
        inside = "..." if arguments is None else ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({inside})"

    @property
    def dim(self) -> int:
        """Number of coordinates of a point."""
        return len(self.lower)

    @property
    def extent(self) -> Float[np.ndarray, " dim"]:
        """Lengths of the bounding box."""
        return self.upper - self.lower

    @property
    def units(self) -> Float[np.ndarray, " dim"]:
        """The lengths in which coordinates are compared: one for all where they are lengths of one kind."""
        return np.full(self.dim, np.prod(self.extent) ** (1 / self.dim))

    @property
    def periods(self) -> Float[np.ndarray, " dim"]:
        """After which length each coordinate comes round again; infinite where it does not."""
        return np.full(self.dim, np.inf)

    @property
    def parts(self) -> tuple[str, ...]:
        """Every name on which an equation may hold, from the general to the special.

        Where parts with equations overlap, the equations of the more special one hold: `"left"` rather than `"boundary"`.
        """
        return (self.atoms[0], *self.unions, *self.atoms[1:])

    @property
    def sides(self) -> tuple[str, ...]:
        """The atoms that bound the domain."""
        return self.atoms[1:]

    def is_open(self, part: str) -> bool:
        """Whether a part is of the full dimension, as the interior is: it has no normal."""
        return any(self.atom_dim(atom) == self.dim for atom in self.covers(part))

    def in_closure(self, part: str, points: ArrayLike) -> Mask:
        """Which points lie on a part or on what bounds it."""
        return self.contains(points) if part == "interior" else self.on_part(part, points)

    def atom_dim(self, atom: str) -> int:
        """Of how many dimensions the atom is: that of the domain for its interior, zero for a single point."""
        return self.dim - (atom != "interior")

    def has_chart(self, atom: str) -> bool:
        """Whether `place` keeps points apart that are apart in the unit cube, so that rows of a grid stay rows."""
        del atom
        return True

    def covers(self, part: str) -> tuple[str, ...]:
        """The atoms a name stands for: all sides for `"boundary"`, itself for a side."""
        if part in self.unions:
            return self.unions[part]
        if part in self.atoms:
            return (part,)
        raise ValueError(f"{self!r} has no part {part!r}; its parts are {', '.join(map(repr, self.parts))}.{self.no_ends}")

    @property
    def no_ends(self) -> str:
        """A sentence about periodic coordinates, for those who look for their sides; empty where there are none."""
        circles = [name for name, period in zip(self.coordinates, self.periods, strict=True) if np.isfinite(period)]
        what = f"{', '.join(circles)} {'is a periodic coordinate' if len(circles) == 1 else 'are periodic coordinates'}"
        return f" {what}, without ends." if circles else ""

    def measure(self, part: str) -> float:
        """Volume, area or length of a part; the number of points where it is points."""
        return sum(self.atom_measure(atom) for atom in self.covers(part))

    def atom_share(self, atom: str) -> float:
        """The atom's measure in `units`: what points are shared out by."""
        return self.atom_measure(atom) / float(np.prod(self.units)) ** (self.atom_dim(atom) / self.dim)

    def sample(self, part: str, num: int, *, sampling: str = "uniform", seed: int = 0) -> Points:
        """`num` points on a part, the same for the same seed, strictly inside it: off the boundary, off the corners.

        - `"uniform"`: independent and uniform.
        - `"sobol"`, `"halton"`: low-discrepancy sequences, scrambled with the seed.
        - `"grid"`: cell centres of a tensor grid of about square cells; where `num` does not factor into one, rows
          whose lengths differ by one. The seed plays no part.
        - `"poisson"`: Poisson disks, random points none of which are close: what is left of five times as many when of the
          closest two one is taken away again and again.

        A union shares `num` out over its atoms in proportion to `atom_share`, whatever the units of the axes. An atom that is
        a single point (an end of an interval) gives that point once however many are asked for: a repeated point makes a
        Gram matrix singular.
        """
        return self.sample_atoms(self.covers(part), num, sampling=sampling, seed=seed)

    def sample_atoms(self, atoms: Sequence[str], num: int, *, sampling: str = "uniform", seed: int = 0) -> Points:
        """`num` points on several atoms together, shared out as `sample` says."""
        if sampling not in SAMPLINGS:
            raise ValueError(f"`sample`: `sampling` is {sampling!r}; it is one of {', '.join(map(repr, SAMPLINGS))}.")
        shares = split(count(num, "sample"), [self.atom_share(atom) for atom in atoms])
        each = zip(atoms, shares, strict=True)
        return np.concatenate([self.sample_atom(atom, share, sampling, seed) for atom, share in each])

    def sample_atom(self, atom: str, num: int, sampling: str, seed: int) -> Points:
        """`num` points on one atom. As it stands here, points of the unit cube that `place` has carried there."""
        num = num if self.atom_dim(atom) else min(num, 1)
        if sampling == "poisson" or not (sampling == "uniform" or self.has_chart(atom)):
            many = self.sample_atom(atom, 5 * num, "uniform", seed)
            return many[spread(many / self.units, num, self.periods / self.units)]

        def place(unit: Float[np.ndarray, "points axes"]) -> Points:
            return self.place(atom, unit)

        def drawn(many: int) -> Points:
            return placed(many, self.atom_extent(atom), place, sampling=sampling, rng=lambda: generator(seed, atom))

        try:
            points = drawn(num)
            if self.has_chart(atom) or len(first_of_each(points)) == num:
                return points
            # What is made of a cloud has its points, each at most once.
            many = drawn(5 * num)
            return many[first_of_each(many)[:num]]
        except ValueError as error:
            raise ValueError(f"`sample`: {error} on {atom!r} of {self!r}.") from error

    def quadrature(self, part: str, num: int) -> tuple[Points, Float[np.ndarray, " points"]]:
        """About `num` points on a part with weights of sum one, for means over it: by Gauss where a map of the unit cube is at
        hand, else four times as many points of a low-discrepancy sequence, with the means of polynomials over 2^16 of them."""
        atoms = self.covers(part)
        measures = np.array([self.atom_measure(atom) for atom in atoms])
        pieces = [self.atom_quadrature(atom, n) for atom, n in zip(atoms, split(num, measures, least=1), strict=True)]
        shares = measures / measures.sum()
        weights = [share * own for share, (_, own) in zip(shares, pieces, strict=True)]
        return np.concatenate([points for points, _ in pieces]), np.concatenate(weights)

    def atom_quadrature(self, atom: str, num: int) -> tuple[Points, Float[np.ndarray, " points"]]:
        """`quadrature` for one atom. Uniform stays uniform under `place`, so that weights of the cube are weights there."""
        if self.atom_dim(atom) == 0:
            return self.sample_atom(atom, 1, "uniform", 0), np.ones(1)
        unit, weights = gauss_points(num, self.atom_extent(atom))
        points = self.place(atom, unit)
        if self.has_chart(atom) and not np.isnan(points).any():
            return points, weights
        points = self.sample_atom(atom, 4 * num, "sobol", 0)
        many = trial(self.atom_extent(atom), lambda unit: self.place(atom, unit), log2=16)
        return points, weights_of_means(points, many[~np.isnan(many).any(axis=1)])

    def place_in_box(self, unit: Float[np.ndarray, "points axes"]) -> Points:
        """Points of the interior out of the box around it: `place` for a geometry that knows its inside and no map."""
        points = between(self.lower, self.upper, unit)
        points[~self.on_atom("interior", points, self.tolerance)] = np.nan
        return points

    def on_part(self, part: str, points: ArrayLike, tolerance: float | None = None) -> Mask:
        """Which points lie on a part, up to `tolerance` (None: the domain's own) times the extent of the domain."""
        checked = self.check_points(points, "on_part")
        slack = self.tolerance if tolerance is None else tolerance
        return np.any([self.on_atom(atom, checked, slack) for atom in self.covers(part)], axis=0)

    def normal(self, part: str, points: ArrayLike, tolerance: float | None = None) -> Points:
        """Outward unit normals at points of the boundary; in a corner, that of the first side named."""
        atoms, checked = self.covers(part), self.check_points(points, "normal")
        slack = self.tolerance if tolerance is None else tolerance
        if self.is_open(part):
            raise ValueError(f"`normal`: {part!r} has no normal; name a part of the boundary.")
        normals, missing = np.zeros_like(checked), np.ones(len(checked), dtype=bool)
        for atom in atoms:
            here = missing & self.on_atom(atom, checked, slack)
            normals[here] = self.atom_normal(atom, checked[here])
            missing &= ~here
        if missing.any():
            first = checked[missing][0].tolist()
            raise ValueError(f"`normal`: {missing.sum()} of {len(checked)} points are not on {part!r}; one is {first}.")
        return normals

    def grid(self, shape: Sequence[int], *, closed: bool = True) -> Points:
        """The tensor grid of `shape` over the closed bounding box, last coordinate fastest; not `closed`, without the upper
        end of a periodic coordinate, which is its lower end again."""
        sizes = [count(size, "grid", "shape") for size in shape]
        if len(sizes) != self.dim or min(sizes) < 1:
            raise ValueError(f"`grid`: `shape` has one size, 1 or more, for each of {self.coordinates}; got {tuple(shape)}.")
        ends = zip(self.lower, self.upper, sizes, closed | np.isinf(self.periods), strict=True)
        axes = [np.linspace(low, high, size, endpoint=bool(end)) for low, high, size, end in ends]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    def test_points(self, shape: Sequence[int]) -> Points:
        """The points of `grid` that lie in the closed domain; where it slips between them, as many points of its interior."""
        points = self.grid(shape, closed=False)
        inside = points[self.contains(points)]
        return inside if len(inside) else self.sample("interior", len(points), sampling="sobol")

    def check_points(self, points: ArrayLike, call: str) -> Points:
        """`points` as a float64 array `(num, dim)`, or an error that names the call."""
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise ValueError(f"`{call}`: points have shape (num, {self.dim}) in {self!r}; got {array.shape}.")
        return array

    def during(self, start: float, stop: float) -> "AbstractDomain | None":
        """What there is of the domain between two of its times, the first coordinate; None where that is no time."""
        del start, stop
        return None

    # --- domains made of domains

    def with_parts(self, **predicates: Any) -> "WithParts":
        """The domain with further names for pieces of its boundary: `domain.with_parts(inflow=lambda x: x[0] < 0.1)`.

        A predicate is a function of one point, written with jax.numpy or numpy. The new parts are more special than those that
        are there: an equation on `"inflow"` holds there in place of one on `"boundary"`. Of one call, the first that fits.
        """
        from gpde.domains.parts import WithParts

        return WithParts(self, predicates)

    # Set operations are domains themselves, so their module imports this one.
    def __or__(self, other: "AbstractDomain") -> "Union":
        from gpde.domains.set_operations import Union

        return Union(self, other) if isinstance(other, AbstractDomain) else NotImplemented

    def __and__(self, other: "AbstractDomain") -> "Intersection":
        from gpde.domains.set_operations import Intersection

        return Intersection(self, other) if isinstance(other, AbstractDomain) else NotImplemented

    def __sub__(self, other: "AbstractDomain") -> "Difference":
        from gpde.domains.set_operations import Difference

        return Difference(self, other) if isinstance(other, AbstractDomain) else NotImplemented


def coordinate_names(dim: int, given: Sequence[str] | None, call: str) -> tuple[str, ...]:
    """The names of the coordinates, as given or x, y, z; beyond three x0, x1, and so on."""
    if given is None:
        return ("x", "y", "z")[:dim] if dim <= 3 else tuple(f"x{axis}" for axis in range(dim))
    names = tuple(given)
    if len(names) != dim or len({str(name).strip().casefold() for name in names} - {""}) != dim:
        raise ValueError(f"`{call}`: `coordinates` is a name for each of {dim} coordinates, all different; got {given!r}.")
    return names


def point_text(point: Float[np.ndarray, " dim"]) -> str:
    """A point as one would write it: `2`, or `(0, 1.5)`."""
    numbers = ", ".join(f"{value:g}" for value in point)
    return numbers if len(point) == 1 else f"({numbers})"


def vector(value: Any, call: str, argument: str) -> Float[np.ndarray, " dim"]:
    """A point as an array that cannot be changed, or an error that names the argument."""
    try:
        array = np.atleast_1d(floats(value))
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError(f"`{call}`: `{argument}` is a finite number, or one for each coordinate; got {value!r}.")
    array.setflags(write=False)
    return array


def floats(value: Any) -> Float[np.ndarray, "..."]:
    """A new array of floats; `TypeError` or `ValueError` for what holds no numbers. NumPy would read those in a text."""
    if np.array(value).dtype.kind in "US":
        raise TypeError("a text is not a number")
    return np.array(value, dtype=np.float64)


def is_finite_number(value: Any) -> bool:
    """True for one finite number, in whatever type."""
    try:
        array = floats(value)
    except (TypeError, ValueError):
        return False
    return array.ndim == 0 and bool(np.isfinite(array))
