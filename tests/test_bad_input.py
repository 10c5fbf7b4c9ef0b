"""Bad input: every kind ends in a `ValueError` that names the argument and says what to do.

The calls run in a process of their own without the type checks of the test run, in the default settings of JAX and with double
precision: what is compared is what a user reads.
"""

# pyright: reportArgumentType=false, reportUndefinedVariable=false, reportCallIssue=false

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import meshio
import numpy as np
import pytest

import gpde
from gpde import (
    Ball,
    Box,
    Ellipsoid,
    FullBatch,
    Gaussian,
    Matern,
    Mesh,
    Observations,
    PointCloud,
    Polygon,
    Problem,
    SignedDistance,
    SpaceTime,
    directional,
    divergence,
    gradient,
    laplacian,
    partial,
)

SQUARE, CIRCLE = Box((0, 0), (1, 1)), Box(0, 1, periodic="x")
PLACES = np.random.default_rng(0).random((3, 2))


def poisson(u, x):
    return laplacian(u)(x) - 1.0


def zero(u, x):
    return u(x)


def problem(**changes):
    return Problem(**{"domain": SQUARE, "equations": {"interior": poisson, "boundary": zero}, **changes})


plain = functools.cache(problem)


def inside(equation, **changes):
    return problem(equations={"interior": equation}, **changes)


def solve(of=None, kernel=None, **changes):
    settings = {"num_interior": 6, "num_boundary": 4, **changes}
    return gpde.solve(plain() if of is None else of, Gaussian(0.3) if kernel is None else kernel, **settings)


def data(points=PLACES, values=(1.0, 2.0, 3.0), **changes):
    return Observations(points, np.asarray(values), **changes)


def mesh(kinds=("line", "triangle"), **changes):
    """The unit square in two triangles, its lower side with the tag 3."""
    cells = [("line", [[0, 1]]), ("triangle", [[0, 1, 2], [0, 2, 3]])]
    kept = [cell for cell in cells if cell[0] in kinds]
    tags = [np.full(len(cell), 3) for _, cell in kept]
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "square.msh"
        data = {"gmsh:physical": tags, "gmsh:geometrical": tags}
        meshio.Mesh(square, kept, cell_data=data).write(path, file_format="gmsh22", binary=False)
        return Mesh(path, **changes)


# Each kind of mistake: a call, and what its message must say.
CASES = {
    # --- geometry
    "a radius of zero": (lambda: Ball((0, 0), 0), r"`Ball`: `radius` is a finite number above zero; got 0"),
    "a radius below zero": (lambda: Ball((0, 0), -1.0), r"`Ball`: `radius` is a finite number above zero; got -1"),
    "a centre that is not finite": (lambda: Ball((0, np.nan), 1), r"`Ball`: `centre` is a finite number, or one for each"),
    "a radius in words": (lambda: Ball((0, 0), "1"), r"`Ball`: `radius` is a finite number above zero; got '1'"),
    "a centre in words": (
        lambda: Ball(("0", 0), 1),
        r"`Ball`: `centre` is a finite number, or one for each .*; got \('0', 0\)",
    ),
    "semi-axes in words": (lambda: Ellipsoid((0, 0), ("2", "1")), r"`Ellipsoid`: `semi_axes` is a finite number, or one for"),
    "corners in words": (lambda: Box("0", "1"), r"`Box`: `lower` is a finite number, or one for each coordinate; got '0'"),
    "a box in words": (
        lambda: SignedDistance(lambda x: x[0], ("-1", "-1"), (1, 1)),
        r"`SignedDistance`: `lower` is a finite number, or one for each coordinate; got \('-1', '-1'\)",
    ),
    "times in words": (lambda: SpaceTime((0, 1), "0", "1"), r"`start` and `stop` are finite numbers.*got '0' and '1'"),
    "an interval in words": (lambda: SpaceTime(("0", "1"), 0, 1), r"`Box`: `lower` is a finite number.*got '0'"),
    "vertices in words": (
        lambda: Polygon([("0", "0"), ("1", "0"), ("0", "1")]),
        r"`Polygon`: `vertices` are three or more points \(x, y\) of numbers; got \[\('0', '0'\)",
    ),
    "a polygon in words": (lambda: Polygon("square"), r"`Polygon`: `vertices` are three or more points .*; got 'square'"),
    "a cloud in words": (
        lambda: PointCloud([("0", "1")], PLACES),
        r"`PointCloud`: `points` is an array of numbers; got \[\('0'",
    ),
    "semi-axes of another dimension": (
        lambda: Ellipsoid((0, 0), (1, 2, 3)),
        r"`Ellipsoid`: `semi_axes` is a length above zero for each of 2 coordinates",
    ),
    "a semi-axis below zero": (lambda: Ellipsoid((0, 0), (1, -2)), r"`Ellipsoid`: `semi_axes` is a length above zero"),
    "a polygon of two vertices": (
        lambda: Polygon([(0, 0), (1, 1)]),
        r"`Polygon`: `vertices` are three or more points \(x, y\)",
    ),
    "a polygon in space": (lambda: Polygon(np.eye(4, 3)), r"`vertices` are three or more points .*shape \(4, 3\)"),
    "a polygon that crosses itself": (
        lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]),
        r"crosses or touches itself \(Self-intersection\[0.5 0.5\]\). Check the order of the vertices",
    ),
    "a polygon on a line": (lambda: Polygon([(0, 0), (1, 1), (2, 2)]), r"`vertices` lie on a line, so .* has no area"),
    "a polygon on an axis": (lambda: Polygon([(0, 0), (2, 0), (1, 0)]), r"`vertices` lie on a line, so .* has no area"),
    "a polygon on a line far away": (
        lambda: Polygon([(1e6, 1e6), (1e6 + 0.1, 1e6 + 0.3), (1e6 + 0.2, 1e6 + 0.6)]),
        r"`vertices` lie on a line, so that the polygon has no area",
    ),
    "a vertex twice in a row": (lambda: Polygon([(0, 0), (1, 0), (1, 0), (0, 1)]), r"the same point twice in a row; leave one"),
    "a vertex that is not finite": (lambda: Polygon([(0, 0), (1, np.inf), (0, 1)]), r"hold 1 values that are not finite"),
    "a hole outside": (
        lambda: Polygon([(0, 0), (1, 0), (0, 1)], holes={"gap": [(2, 2), (3, 2), (2, 3)]}),
        r"the hole 'gap' does not lie inside the polygon",
    ),
    "a hole that is no list of holes": (
        lambda: Polygon([(0, 0), (9, 0), (0, 9)], holes=[(1, 1), (3, 1), (1, 3)]),
        r"`Polygon`: `holes` is a list of polygons, also for one",
    ),
    "holes that overlap": (
        lambda: Polygon([(0, 0), (9, 0), (0, 9)], holes=[[(1, 1), (3, 1), (1, 3)], [(1.5, 1.2), (3, 1.5), (1.2, 2)]]),
        r"the holes touch or overlap .*make them one",
    ),
    "a hole called as a side": (
        lambda: Polygon([(0, 0), (9, 0), (0, 9)], holes={"side0": [(1, 1), (3, 1), (1, 3)]}),
        r"a hole is called 'side0', which is a part already",
    ),
    "a difference with nothing left": (lambda: SQUARE - Ball((0.5, 0.5), 2), r"`Difference`: .* leave nothing; check where"),
    "an intersection of strangers": (lambda: SQUARE & Ball((5, 5), 1), r"`Intersection`: .* leave nothing; check where they"),
    "a union of two dimensions": (lambda: SQUARE | Box(0, 1), r"`Union`: the operands have 2 and 1 coordinates; give two"),
    "a difference in space-time": (
        lambda: SpaceTime(SQUARE, 0, 1) - Box((0, 0, 0), (1, 1, 1)),
        r"`Difference`: operands are domains in space; write `SpaceTime\(a - b, start, stop\)`",
    ),
    "time in time": (lambda: SpaceTime(SpaceTime((0, 1), 0, 1), 0, 1), r"`SpaceTime`: `space` has a time already"),
    "a function that is negative nowhere": (
        lambda: SignedDistance(lambda x: x[0] ** 2 + 1.0, (-1, -1), (1, 1)),
        r"`function` is negative nowhere between",
    ),
    "a function that is negative up to the box": (
        lambda: SignedDistance(lambda x: x[0] ** 2 - 0.1, (-1, -1), (1, 1)),
        r"negative on a side of the box .* Give a larger box, or cut with one",
    ),
    "a function of the wrong kind": (
        lambda: SignedDistance(lambda x: x.radius, (-1, -1), (1, 1)),
        r"`function` could not be evaluated at the point .*AttributeError.*a function of one point",
    ),
    "a function with several values": (
        lambda: SignedDistance(lambda x: x, (-1, -1), (1, 1)),
        r"`function` gives one number for one point; got an array of shape \(2,\)",
    ),
    "a function that is not finite": (
        lambda: SignedDistance(lambda x: jnp.log(x[0]), (-1, -1), (1, 1)),
        r"`function` is not finite at \[",
    ),
    "no function": (lambda: SignedDistance(3.0, (-1, -1), (1, 1)), r"`function` is a function of one point, negative inside"),
    "a predicate that holds nowhere": (
        lambda: SQUARE.with_parts(inflow=lambda x: x[0] < -1),
        r"`with_parts`: the part 'inflow' is empty: its predicate holds on no point of the boundary",
    ),
    "a predicate behind another": (
        lambda: SQUARE.with_parts(all=lambda x: x[0] > -1, left_too=lambda x: x[0] < 0.1),
        r"the part 'left_too' is empty: .* not in a part named before it",
    ),
    "a predicate that is a number": (
        lambda: SQUARE.with_parts(inflow=1),
        r"'inflow' is given by a function of one point",
    ),
    "a part that is there already": (lambda: SQUARE.with_parts(left=lambda x: x[0] < 1), r"has a part 'left' already; choose"),
    "no predicate": (lambda: SQUARE.with_parts(), r"`with_parts`: give a predicate for each new part"),
    "normals that are not unit": (
        lambda: PointCloud(PLACES, [(0, 0), (1, 1)], [(1, 0), (0, 2)]),
        r"`PointCloud`: `normals` have length 1; one on 'boundary' has 2. Divide each by its length",
    ),
    "a normal too few": (lambda: PointCloud(PLACES, [(0, 0), (1, 1)], [(1, 0)]), r"`normals` has one normal for each point"),
    "a cloud with a point twice": (lambda: PointCloud(PLACES, PLACES), r"`PointCloud`: 3 points are repeated; remove them"),
    "a cloud of another dimension": (lambda: PointCloud(PLACES, [(0, 0, 0)]), r"`boundary` on 'boundary' has shape \(num, 2\)"),
    "normals that are not known": (
        lambda: PointCloud(PLACES, [(0, 0), (1, 1)]).normal("boundary", [(0, 0)]),
        r"the normals are not known; give them, as `PointCloud\(points, boundary, normals\)`",
    ),
    "a mesh that is not there": (lambda: Mesh("nowhere.msh"), r"`Mesh`: there is no file 'nowhere.msh'"),
    "a file that is no mesh": (lambda: Mesh(__file__), r"`Mesh`: meshio cannot read '.*test_bad_input.py'"),
    "a mesh with an unknown tag": (lambda: mesh(names={"inflow": 7}), r"calls the tag 7 'inflow', but the boundary .* has 3"),
    "a part that a mesh has not": (
        lambda: problem(domain=mesh(), equations={"inflow": zero}),
        r"no part 'inflow' in the domain. Equations may hold on: interior, boundary, ",
    ),
    "a mesh that is a number": (lambda: Mesh(3), r"`Mesh`: `file` is the path of a file that meshio reads"),
    "a mesh of lines": (lambda: mesh(kinds=("line",)), r"has line; triangles, quadrilaterals or tetrahedra are needed"),
    "a periodic coordinate that is not there": (
        lambda: Box((0, 0), (1, 1), periodic=("z",)),
        r"`periodic` has 'z'; it is made of the coordinates 'x', 'y' or of their numbers, 0 to 1",
    ),
    "a side of a periodic coordinate": (
        lambda: problem(domain=Box((0, 0), (1, 1), periodic=(0,)), equations={"left": zero}),
        r"no part 'left' .* hold on: interior, boundary, bottom, top. x is a periodic coordinate, without ends",
    ),
    "a formula on a circle": (
        lambda: solve(problem(domain=CIRCLE, equations={"interior": zero}), lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2))),
        r"the domain has the period 1, the kernel FunctionKernel has none; use `gpde.Gaussian",
    ),
    "a period that does not fit": (
        lambda: solve(problem(domain=CIRCLE, equations={"interior": zero}), Gaussian(0.3, period={0: 0.3})),
        r"coordinate 0 of the domain has the period 1, the kernel Gaussian has 0.3",
    ),
    "a hole over the seam of a circle": (
        lambda: Box((0, 0), (1, 1), periodic="x") - Ball((0, 0.5), 0.2),
        r"`Difference`: x is periodic, from 0 to 1, and Ball.* reaches over its seam, from -0.2 to 0.2. Shift the box, as `Box",
    ),
    "a cut around a circle that goes beyond it": (
        lambda: Box((0, 0), (1, 1), periodic="x") - Box((-1, 0.4), (2, 0.6)),
        r"reaches over its seam, from -1 to 2. To cut all the way round, let it go from 0 to 1",
    ),
    "a union of circles": (lambda: CIRCLE | Box(2, 3), r"`Union`: of a domain with periodic coordinates only a difference"),
    "points outside a disk": (
        lambda: solve(problem(domain=Ball((0, 0), 1)), points={"interior": [(0.9, 0.9)]}),
        r"`points\['interior'\]`: 1 of 1 points do not lie there, for instance \[0.9 0.9\]",
    ),
    "boundary points off a circle": (
        lambda: solve(problem(domain=Ball((0, 0), 1)), points={"boundary": [(0.0, 0.99)]}),
        r"`points\['boundary'\]`: 1 of 1 points do not lie there",
    ),
    "observations outside a polygon": (
        lambda: problem(domain=Polygon([(0, 0), (0.1, 0), (0, 0.1)]), observations=data()),
        r"`Observations`: 2 of 3 points lie outside Polygon",
    ),
    "a region that is a number": (lambda: gpde.Divided(SQUARE, 3), r"`Divided`: `region` is a domain in one piece; got 3"),
    "a prior mean in words": (lambda: gpde.Unknown(mean="one"), r"`Unknown`: `mean` is a finite number or a function of one"),
    "fields that are mapped to words": (
        lambda: problem(fields={"u": "interior"}),
        r"`fields` must be distinct names .* or a mapping from names to `gpde.Unknown\(...\)`; came",
    ),
    # --- constraints
    "a constraint that is a function": (
        lambda: problem(constraints=zero),
        r"`constraints` are `gpde.At\(points, equation\)` and `gpde.Mean\(part, equation\)`, one or a list; came",
    ),
    "a value pinned outside": (
        lambda: problem(constraints=gpde.At((2, 0), zero)),
        r"`At`: 1 of 1 points lie outside Box.*for instance \[2. 0.\]. Check the order of coordinates",
    ),
    "a value pinned in another dimension": (
        lambda: problem(constraints=gpde.At((0, 0, 0), zero)),
        r"`At`: a point has 3 coordinates, those of the domain 2",
    ),
    "a value pinned at a word": (lambda: gpde.At("centre", zero), r"`At`: `points` must be an array of numbers; came 'centre'"),
    "a value pinned twice": (lambda: gpde.At([(0, 0), (0, 0)], zero), r"`At`: a point is given twice"),
    "a value pinned nowhere": (lambda: gpde.At((0, np.nan), zero), r"`At`: `points` is one point, or an array .* all finite"),
    "a mean over a part that is not there": (
        lambda: problem(constraints=gpde.Mean("inside", zero)),
        r"`Mean`: there is no part 'inside' in the domain; its parts are interior, boundary",
    ),
    "a mean with the normal": (
        lambda: problem(constraints=gpde.Mean("boundary", lambda u, x, n: directional(u, n)(x))),
        r"`Mean`: its equations take the fields and the point, not the normal",
    ),
    "a mean with points alone": (
        lambda: gpde.Mean("interior", zero, points=PLACES),
        r"`Mean`: `points` come with a weight for each, `weights`; give both or neither",
    ),
    "a mean over no nodes": (lambda: gpde.Mean("interior", zero, num_nodes=0), r"`num_nodes` is a whole number, 1 or more"),
    # --- the problem
    "domain given as corners": (
        lambda: problem(domain=((0, 0), (1, 1))),
        r"`Problem`: `domain` must be a gpde domain such as `gpde.Box",
    ),
    "equations given as one function": (
        lambda: problem(equations=poisson),
        r"`equations` says which equation holds where, as in .*interior",
    ),
    "equations given as a list": (
        lambda: problem(equations=[poisson]),
        r"`equations` says which equation holds where.* came list",
    ),
    "no equation at all": (lambda: problem(equations={}), r"give at least one equation, as in `equations="),
    "a part without equation": (
        lambda: problem(equations={"interior": []}),
        r"no equation is given for 'interior'; leave the part out",
    ),
    "an equation that is a number": (
        lambda: inside(5),
        r"the equation on 'interior' must be a function such as `lambda u, x: ...`, not int",
    ),
    "an equation that is None": (lambda: inside(None), r"the equation on 'interior' must be a function.*not NoneType"),
    "an equation that is a text": (lambda: inside("laplacian"), r"the equation on 'interior' must be a function.*not str"),
    "a part that does not exist": (
        lambda: problem(equations={"inside": poisson}),
        r"no part 'inside' in the domain. Equations may hold on: interior, boundary, left",
    ),
    "a boundary without sides left": (
        lambda: problem(equations=dict.fromkeys(("boundary", "left", "right", "top", "bottom"), zero)),
        r"every side that 'boundary' stands for has an equation of its own; leave 'boundary' out",
    ),
    "a parameter that is a number": (
        lambda: problem(parameters={"rate": 0.1}),
        r"`parameters` names unknown scalars, as in `parameters=",
    ),
    "a parameter with the name of a field": (
        lambda: problem(parameters={"u": gpde.Parameter(1.0)}),
        r"a parameter is called 'u', which to equations is a field; choose another name",
    ),
    "a parameter with the name of the point": (
        lambda: problem(parameters={"x": gpde.Parameter(1.0)}),
        r"a parameter is called 'x', which to equations is the point; choose another name",
    ),
    "a parameter with the name of the normal": (
        lambda: problem(
            equations={"interior": poisson, "boundary": lambda u, x, n: u(x) - n}, parameters={"n": gpde.Parameter(1.0)}
        ),
        r"a parameter is called 'n', which to equations is the outward normal on the boundary; choose another name",
    ),
    "a parameter that is no name": (
        lambda: problem(parameters={"my rate": gpde.Parameter(1.0)}),
        r"the name of a parameter is that of an argument, as 'nu'; came 'my rate'",
    ),
    "a parameter that is not declared": (
        lambda: inside(lambda u, x, nu: nu * laplacian(u)(x)),
        r"'interior' has none.*An unknown number is declared by `parameters=\{\"nu\": gpde.Parameter\(initial=...\)\}`",
    ),
    "parameters that are not declared": (
        lambda: inside(lambda u, x, nu, rate: nu * laplacian(u)(x) + rate),
        r"unknown numbers are named in `parameters`. Its signature is \(u, x, nu, rate\)",
    ),
    "a parameter that is spelt otherwise": (
        lambda: inside(lambda u, x, kappa: kappa * laplacian(u)(x), parameters={"k": gpde.Parameter(1.0)}),
        r"'interior' has none.*`parameters=\{\"kappa\": gpde.Parameter\(initial=...\)\}`; the parameters are 'k'\.",
    ),
    "a parameter too many": (
        lambda: inside(lambda u, x, nu, kappa: kappa * laplacian(u)(x), parameters={"k": gpde.Parameter(1.0)}),
        r"unknown numbers are named in `parameters`, and these are 'k'. Its signature is \(u, x, nu, kappa\)",
    ),
    "a parameter that no equation takes": (
        lambda: problem(parameters={"rate": gpde.Parameter(1.0)}),
        r"no equation depends on the parameter 'rate'. An equation takes it by its name, as in `lambda u, x, rate: ",
    ),
    "a parameter that no datum determines": (
        lambda: solve(
            problem(
                equations={"interior": lambda u, x, rate: laplacian(u)(x) - rate, "boundary": zero},
                parameters={"rate": gpde.Parameter(1.0)},
            )
        ),
        r"`solve`: no datum determines the parameter 'rate': there are no `observations`, no `constraints` and no more cond",
    ),
    "a parameter that starts in words": (lambda: gpde.Parameter("one"), r"`Parameter`: `initial` must be a number; came 'one'"),
    "a parameter that starts on its bound": (
        lambda: gpde.Parameter(0.0, lower=0.0),
        r"`initial` must lie strictly between the bounds, 0 and inf; came 0",
    ),
    "the normal inside": (
        lambda: inside(lambda u, x, n: laplacian(u)(x)),
        r"takes one argument after `u` and `x`, which is the outward normal, and 'interior' has none",
    ),
    "fields that repeat": (lambda: problem(fields=("u", "u")), r"`fields` must be distinct names such as \('u', 'v'\)"),
    "fields given as a number": (lambda: problem(fields=2), r"`fields` must be distinct names such as \('u', 'v'\).*; came 2"),
    "a field that nothing determines": (
        lambda: problem(fields=("u", "v"), equations={"interior": lambda u, v, x: laplacian(u)(x)}),
        r"no equation and no observation looks at the field 'v'.*Leave it out of `fields`",
    ),
    "a reference that is a number": (
        lambda: problem(reference=1.0),
        r"`reference` must be a function of one point; came float",
    ),
    "defaults given as a dictionary": (lambda: problem(defaults={"nugget": 1e-9}), r"`defaults` must be `gpde.Defaults"),
    # --- the equation
    "an equation without a point": (lambda: inside(lambda u: u), r"must take 2 arguments, `\(u, x\)`.*Its signature is \(u\)"),
    "an equation of too many fields": (lambda: inside(lambda u, v, x: u(x) + v(x)), r"must take 2 arguments, `\(u, x\)`"),
    "a vector for a residual": (
        lambda: inside(lambda u, x: gradient(u)(x)),
        r"must return one number per point; it returned an array of shape \(2,\).*as a list of equations",
    ),
    "several values for a residual": (
        lambda: inside(lambda u, x: (u(x), u(x))),
        r"must return one number per point; it returned 2 values",
    ),
    "an equation that returns nothing": (
        lambda: inside(lambda u, x: None),
        r"it returned nothing; a function that is written with `def` needs a `return`",
    ),
    "an operator that is not taken at x": (
        lambda: inside(lambda u, x: laplacian(u)),
        r"it returned a function; .* as `laplacian\(u\)\(x\)`",
    ),
    "an equation without the unknown": (
        lambda: inside(lambda u, x: x[0]),
        r"never looks at the unknown `u`. An equation is a function of the unknown, as in",
    ),
    "an equation in which the unknown cancels": (
        lambda: inside(lambda u, x: u(x) - u(x) + x[0]),
        r"does not depend on the unknown `u` at any probe point",
    ),
    "an order too high": (
        lambda: inside(lambda u, x: partial(u, 0, 0, 0, 0, 0)(x)),
        r"a derivative of order 5 is taken; gpde reads orders up to 4. Introduce a further field",
    ),
    "a source that is not finite": (
        lambda: inside(lambda u, x: u(x) + jnp.log(-1 - x[0])),
        r"is not finite at 48 of 48 probe points, for instance at x = .*Check divisions, logarithms",
    ),
    "a coordinate that does not exist": (
        lambda: inside(lambda u, x: partial(u, 2)(x)),
        r"`partial`: coordinate 2 does not exist: points have 2 coordinates",
    ),
    "a derivative in no coordinate": (
        lambda: inside(lambda u, x: partial(u)(x)),
        r"`partial`: name at least one coordinate, as in `partial\(u, 0\)`",
    ),
    "the divergence of a scalar": (
        lambda: inside(lambda u, x: divergence(u)(x)),
        r"`divergence`: the flux has shape \(\).*Did you mean `divergence\(gradient\(u\)\)`",
    ),
    "a direction of another dimension": (
        lambda: inside(lambda u, x: directional(u, (1.0, 0.0, 0.0))(x)),
        r"`directional`: the direction has shape \(3,\), the points \(2,\)",
    ),
    "a look at another point": (
        lambda: inside(lambda u, x: u(x) - u(-x)),
        r"looks at the unknown away from its own point `x`.*use a kernel with a `period`",
    ),
    "a look at a coordinate": (
        lambda: inside(lambda u, x: u(x[0])),
        r"the unknown was given a point of shape \(\) instead of \(2,\)",
    ),
    "a branch on the unknown": (
        lambda: inside(lambda u, x: 1.0 if u(x) > 0 else u(x)),
        r"an `if`, .* asks whether a value of x or of the unknown is true.*write `jnp.where",
    ),
    "a maximum of Python's": (
        lambda: inside(lambda u, x: max(x[0], 0.5) * u(x)),
        r"an `if`, .*`max`.*`jnp.maximum",
    ),
    "numpy instead of jax.numpy": (
        lambda: inside(lambda u, x: np.sin(u(x))),
        r"a function of numpy was given x.*`jnp.sin`, not `np.sin`",
    ),
    "a number taken out of the unknown": (
        lambda: inside(lambda u, x: float(u(x)) * u(x)),
        r"a number was needed where x.*`float\(...\)`",
    ),
    "an index past the end": (
        lambda: inside(lambda u, x: laplacian(u)(x) - x[2]),
        r"takes an index past the end: .*index 2 is out of bounds.*has the coordinates `x\[0\]`, `x\[1\]`",
    ),
    "an index past the end inside a derivative": (
        lambda: inside(lambda u, x: divergence(lambda y: y[-3] * gradient(u)(y))(x)),
        r"takes an index past the end",
    ),
    "the component of a gradient that does not exist": (
        lambda: inside(lambda u, x: gradient(u)(x)[2]),
        r"takes an index past the end: .*index 2",
    ),
    "the point before the unknown": (
        lambda: inside(lambda x, u: u(x) - x[0]),
        r"takes `\(x, u\)`; the order is `\(u, x\)`: .*the point last",
    ),
    "the point before the unknown under other names": (
        lambda: inside(lambda p, w: w(p) - p[0]),
        r"a function was indexed or a number was called.*`\(u, x\)`",
    ),
    "a function used as a number": (
        lambda: inside(lambda u, x: -laplacian(u) + u(x)),  # pyright: ignore[reportOperatorIssue]
        r"a function was used as a number.*`laplacian\(u\)\(x\)`",
    ),
    "an operator of a number": (
        lambda: inside(lambda u, x: laplacian(u(x))(x)),
        r"`laplacian` takes a function.*`laplacian\(u\)\(x\)`, not `laplacian\(u\(x\)\)`",
    ),
    "the unknown of two coordinates": (
        lambda: inside(lambda u, x: u(x[0], x[1])),
        r"an unknown is a function of one point, `u\(x\)`, not of its coordinates one by one",
    ),
    "time before space": (
        lambda: SpaceTime(0.0, 1.0, (0.0, 1.0)),
        r"`SpaceTime`: `start` and `stop` are finite numbers.*Space comes first",
    ),
    "space that is a number": (lambda: SpaceTime(1.0, 0.0, 1.0), r"`SpaceTime`: `space` is a domain, or an interval"),
    "a coordinate by its name": (
        lambda: inside(lambda u, x: partial(u, "x")(x)),
        r"`partial`: a coordinate is named by its number, 0 for the first one.*came 'x'",
    ),
    "a function of a function": (
        lambda: inside(lambda u, x: jnp.sin(u)),
        r"a function was given where a number belongs; take it at x, as `jnp.sin\(u\(x\)\)`",
    ),
    "a name that does not exist": (lambda: inside(lambda u, x: u(x) - sourc(x)), r"NameError: name 'sourc' is not defined"),
    "complex values": (lambda: inside(lambda u, x: 1j * u(x)), r"has complex values; state its real and its imaginary part"),
    # --- observations
    "observations that are no observations": (
        lambda: problem(observations=5),
        r"`observations` must be `gpde.Observations\(points, values\)`.*came int",
    ),
    "values of another length": (
        lambda: data(values=(1.0, 2.0)),
        r"points of shape \(num, dim\) and values of shape \(num,\).*came \(3, 2\) and \(2,\)",
    ),
    "points on a line": (
        lambda: data(np.linspace(0, 1, 3)),
        r"`Observations`: points of shape \(num, dim\) .*came \(3,\) and \(3,\). Write `points\[:, None\]`",
    ),
    "no observations": (lambda: data(np.zeros((0, 2)), ()), r"with num >= 1 are needed; came \(0, 2\)"),
    "missing data": (lambda: data(values=(1.0, np.nan, 2.0)), r"points and values must be finite; remove missing data first"),
    "values that are words": (lambda: data(values=("a", "b", "c")), r"`Observations`: `values` must be an array of numbers"),
    "a negative noise": (lambda: data(noise=-0.1), r"`noise` is a standard deviation >= 0.*came -0.1"),
    "noise of another length": (
        lambda: data(noise=np.ones(2)),
        r"`noise` is a standard deviation >= 0, one number or one for each of the 3 values",
    ),
    "exact data that repeat a point": (
        lambda: data(np.full((3, 2), 0.5)),
        r"several exact values are given at one point.*Give their `noise`",
    ),
    "observations of another dimension": (
        lambda: problem(observations=data(np.eye(3))),
        r"`Observations`: points have 3 coordinates, the domain has 2",
    ),
    "observations outside the domain": (
        lambda: problem(observations=data(PLACES + 1)),
        r"3 of 3 points lie outside Box.*Check the order of coordinates",
    ),
    "observations named like a part": (
        lambda: problem(observations=data(name="left")),
        r"`name` is 'left', which is a part of the domain; choose another",
    ),
    "an observed vector": (
        lambda: problem(observations=data(operator=gradient)),
        r"the operator of observations 'data' must return one number per point",
    ),
    "an operator that is a text": (
        lambda: data(operator="laplacian"),
        r"`operator` turns a function into a function, as `laplacian`; came 'laplacian'",
    ),
    "an operator of too many fields": (
        lambda: problem(observations=data(operator=lambda u, v: u)),
        r"the operator of observations 'data' must take the field `u`",
    ),
    # --- points
    "points given as an array": (
        lambda: solve(points=PLACES),
        r"`points` says which points lie on which part, as in .*came ndarray",
    ),
    "points on a part without equation": (
        lambda: solve(points={"left": PLACES}),
        r"`points`: no equation holds on 'left'; parts with equations: interior, boundary",
    ),
    "points of another dimension": (
        lambda: solve(points={"interior": np.eye(3)}),
        r"`points\['interior'\]` must have shape \(num, 2\).*came \(3, 3\)",
    ),
    "points that are words": (
        lambda: solve(points={"interior": "grid"}),
        r"`points\['interior'\]` must be an array of numbers; came 'grid'",
    ),
    "points that are not finite": (
        lambda: solve(points={"interior": PLACES * np.nan}),
        r"`points\['interior'\]` holds 6 values that are not finite",
    ),
    "points outside the domain": (
        lambda: solve(points={"interior": PLACES + 1}),
        r"3 of 3 points do not lie there.*Check the order of coordinates",
    ),
    "points that repeat": (
        lambda: solve(points={"interior": np.full((3, 2), 0.5)}),
        r"2 points are repeated.*Remove them, with `numpy.unique",
    ),
    "a negative number of points": (lambda: solve(num_interior=-3), r"`num_interior` must be a whole number >= 0; came -3"),
    "a fraction of a point": (lambda: solve(num_boundary=2.5), r"`num_boundary` must be a whole number >= 0; came 2.5"),
    "a number of points in words": (
        lambda: solve(num_interior="many"),
        r"`num_interior` must be a whole number >= 0; came 'many'",
    ),
    "no point inside": (
        lambda: solve(num_interior=0),
        r"the equation on 'interior' gets no point: raise `num_interior`, or give `points=",
    ),
    "no point on the boundary": (
        lambda: solve(num_boundary=0),
        r"the equation on 'boundary' gets no point: raise `num_boundary`",
    ),
    "an unknown way of sampling": (
        lambda: solve(sampling="random"),
        r"`sampling` is 'random'; it is one of 'uniform', 'sobol'",
    ),
    "a negative seed": (lambda: solve(seed=-1), r"`seed` is a whole number, zero or more; got -1"),
    # --- solve
    "the name of a problem": (lambda: gpde.solve("elliptic"), r"`solve`: the first argument must be a `gpde.Problem`, not str"),
    "the name of a method": (
        lambda: solve(method="full-batch"),
        r"`method` must be a method object such as `gpde.FullBatch\(\)`",
    ),
    "a method that is a class": (
        lambda: solve(method=FullBatch),
        r"`method` must be a method object such as `gpde.FullBatch\(\)`",
    ),
    "the name of a kernel": (lambda: solve(kernel="gaussian"), r"`kernel` must be a kernel such as `gpde.Gaussian\(0.2\)`"),
    "a lengthscale for a kernel": (
        lambda: solve(kernel=0.2),
        r"`kernel` must be a kernel such as `gpde.Gaussian\(0.2\)`.*not 0.2",
    ),
    "kernels for other fields": (
        lambda: solve(kernel={"v": Gaussian(0.2)}),
        r"`kernel`: one kernel per field is needed, for u; came v",
    ),
    "a kernel of another dimension": (
        lambda: solve(kernel=Gaussian((0.1, 0.2, 0.3))),
        r"`lengthscale` has 3 entries, but points have 2 coordinates",
    ),
    "a kernel too rough": (
        lambda: solve(inside(lambda u, x: partial(u, 0, 0, 0)(x)), Matern(5 / 2, 0.2)),
        r"Matern has 2 derivatives, but an operator of order 3 is applied to it; use `gpde.Matern\(7/2, ...\)`",
    ),
    "a kernel that cannot be differentiated": (
        lambda: solve(kernel=lambda x, y: jnp.exp(-jnp.linalg.norm(x - y))),
        r"`kernel`: the prior variance of Δu is nan.*write it with \|x - y\|², or use `gpde.Matern`",
    ),
    "a kernel that is not positive": (
        lambda: solve(kernel=lambda x, y: -jnp.exp(-jnp.sum((x - y) ** 2))),
        r"`kernel`: the prior variance of Δu is -32, and must be positive",
    ),
    "a kernel with vector values": (
        lambda: solve(kernel=lambda x, y: x * y),
        r"`function\(x, y\)` must give a scalar for two points",
    ),
    "a nugget of zero": (lambda: solve(nugget=0.0), r"`nugget` must be a small positive number such as 1e-10; came 0.0"),
    "a nugget in words": (
        lambda: solve(nugget="1e-10"),
        r"`nugget` must be a small positive number such as 1e-10; came '1e-10'",
    ),
    "an unknown choice of functionals": (
        lambda: solve(functionals="all"),
        r"`functionals` must be 'minimal' or 'derivatives', not 'all'",
    ),
    "a number to start from": (
        lambda: solve(initial=0.0),
        r"`initial` must be a function of one point for each of the fields u, or a Solution",
    ),
    "a vector to start from": (
        lambda: solve(initial=lambda x: x),
        r"`initial` could not be evaluated.*with one number as its value",
    ),
    "a start that is not finite": (
        lambda: solve(initial=lambda x: jnp.log(x[0] - 2)),
        r"`initial`, or a derivative of it that the equations need, is not finite",
    ),
    "a callback that is no function": (
        lambda: solve(callback=5),
        r"`callback` must be a function of the progress after a step; came int",
    ),
    "an argument of another name": (
        lambda: gpde.solve(problem(), n_interior=9),
        r"`solve`: there is no argument `n_interior`. Did you mean `num_interior`\? It takes problem, kernel, method, num_int",
    ),
    "an argument that is missing": (
        lambda: gpde.march(problem(), num_interior=9),
        r"`march`: missing a required .*argument: 'windows'. It takes problem, kernel, windows and more",
    ),
    "a problem with boundary conditions apart": (
        lambda: problem(conditions={"boundary": zero}),
        r"`Problem`: there is no argument `conditions`. .*It takes domain, equations",
    ),
    "a centre that is spelt otherwise": (
        lambda: Ball(center=(0, 0), radius=1),
        r"`Ball`: there is no argument `center`. Did you mean `centre`\? It takes centre, radius",
    ),
    "a continuation of a problem": (
        lambda: gpde.continuation(problem(), (1.0, 2.0)),
        r"`continuation`: `build` is a function that makes a problem out of a value",
    ),
    # --- the method
    "an unknown form of constraints": (
        lambda: FullBatch(constraints="hard"),
        r"`constraints` must be one of \('eliminate', 'relax', 'linearize'\)",
    ),
    "an elimination that is impossible": (
        lambda: solve(inside(lambda u, x: jnp.sum(gradient(u)(x) ** 2) - 1), method=FullBatch(constraints="eliminate")),
        r'`constraints="eliminate"`: the equation on .*interior.*Use `constraints="linearize"`',
    ),
    "a regularization of zero": (
        lambda: FullBatch(constraints="relax", regularization=0.0),
        r"`regularization` must be a finite number > 0; came 0.0",
    ),
    "a regularization nobody uses": (
        lambda: FullBatch(regularization=1e-3),
        r'`regularization` is the weight of `constraints="relax"`; `constraints` is None. Give `constraints="relax"`, or leave',
    ),
    "no steps": (lambda: FullBatch(max_steps=0), r"`FullBatch`: `max_steps` must be a whole number >= 1; came 0"),
    "steps in words": (lambda: FullBatch(max_steps="ten"), r"`max_steps` must be a whole number >= 1; came 'ten'"),
    "a tolerance that is no number": (
        lambda: FullBatch(tolerance=float("nan")),
        r"`tolerance` must be a finite number > 0; came nan",
    ),
    "a batch of one point": (
        lambda: gpde.MiniBatch(batch_size=1),
        r"`MiniBatch`: `batch_size` must be a whole number >= 2; came 1",
    ),
    "a batch size that is spelt otherwise": (
        lambda: gpde.MiniBatch(batchsize=3),
        r"`MiniBatch`: there is no argument `batchsize`. Did you mean `batch_size`\? It takes batch_size, num_steps",
    ),
    "constraints that are spelt otherwise": (
        lambda: FullBatch(constraint="relax"),
        r"`FullBatch`: there is no argument `constraint`. Did you mean `constraints`\?",
    ),
    "patches that are spelt otherwise": (
        lambda: gpde.Consensus(patches=3),
        r"`Consensus`: there is no argument `patches`. Did you mean `num_patches`\?",
    ),
    "negative escalations": (lambda: FullBatch(max_escalations=-1), r"`max_escalations` must be a whole number >= 0; came -1"),
    # --- the kernel
    "a lengthscale in words": (lambda: Gaussian("0.2"), r"`Gaussian`: `lengthscale` must be positive and finite, not '0.2'"),
    "lengthscales in words": (lambda: Matern(5 / 2, ("0.2", 1)), r"`Matern`: `lengthscale` must be positive.*not \('0.2', 1\)"),
    "an amplitude in words": (lambda: gpde.Offset("1"), r"`Offset`: `amplitude` must be positive and finite, not '1'"),
    "a period in words": (lambda: Gaussian(0.2, period={0: "1"}), r"`period` of coordinate 0 must be positive.*not '1'"),
    "orders of a Matern kernel": (lambda: Matern([5 / 2], 0.2), r"`Matern`: `nu` must be 5/2, 7/2, 9/2 or 11/2, not \[2.5\]"),
    "a smoothness in words": (
        lambda: gpde.FunctionKernel(lambda x, y: jnp.sum(x * y), smoothness="2"),
        r"`smoothness` must be 0, 1, 2, ... or None \(any\), not '2'",
    ),
    "the name of a kernel to learn": (lambda: gpde.Learned("gaussian"), r"`Learned`: give kernels to start.*came 'gaussian'"),
    "the name of a field's kernel to learn": (
        lambda: gpde.Learned({"u": Gaussian, "v": "matern"}),
        r"`Learned`: give kernels to start from, as in `gpde.Learned\(gpde.Gaussian\)` .*; came 'matern'",
    ),
    # --- domains
    "corners of two dimensions": (
        lambda: Box((0, 0), 1),
        r"`Box`: `lower` and `upper` have one number per coordinate each; got 2 and 1",
    ),
    "corners the wrong way round": (lambda: Box(1, 0), r"`Box`: `lower` is below `upper` in every coordinate"),
    "coordinates without a name each": (
        lambda: Box((0, 0), (1, 1), ("x",)),
        r"`Box`: `coordinates` is a name for each of 2 coordinates, all different",
    ),
    "a time that runs backwards": (
        lambda: SpaceTime(Box(0, 1), 1, 0),
        r"`SpaceTime`: `start` and `stop` are finite numbers, and start < stop",
    ),
    # --- the solution
    "a single point": (
        lambda: solution()(np.zeros(2)),
        r"`points` must have shape \(num, 2\).*came \(2,\). For one point write `solution\(points\[None\]\)`",
    ),
    "coordinates apart": (
        lambda: solution()(0.3, 0.4),
        r"points are the rows of one array of shape \(num, 2\), as `solution\(\[\[0.3, 0.4\]\]\)` .*came 2 arguments",
    ),
    "places of another dimension": (
        lambda: solution()(np.zeros((4, 3))),
        r"`points` must have shape \(num, 2\).*came \(4, 3\)",
    ),
    "no places": (lambda: solution()(np.zeros((0, 2))), r"`points` must have shape \(num, 2\) with num >= 1"),
    "places that are words": (
        lambda: solution().std("here"),
        r"`points` must be an array of numbers of shape \(num, 2\); came 'here'",
    ),
    "places that are not finite": (lambda: solution()(np.full((2, 2), np.inf)), r"`points`: 2 of 2 rows are not finite"),
    "places outside": (
        lambda: solution()([[0.5, 0.5], [0.5, 1.5], [2.0, 0.5]]),
        r"`points`: 2 of 3 lie outside Box\(\(0, 0\), \(1, 1\)\); the first is row 1, \[0.5 1.5\].*`extrapolate=True`",
    ),
    "a standard deviation outside": (lambda: solution().std([[0.5, -0.5]]), r"`points`: 1 of 1 lie outside Box"),
    "an operator outside": (lambda: solution().apply(laplacian, [[9.0, 9.0]]), r"`points`: 1 of 1 lie outside Box"),
    "a residual outside": (lambda: solution().residual([[9.0, 9.0]]), r"`points`: 1 of 1 lie outside Box"),
    "a data frame without a coordinate": (
        lambda: solution()(Frame(x=[0.1], z=[0.2])),
        r"`points`: the Frame has no column for the coordinate 'y'; its columns are x, z",
    ),
    "a data frame with a coordinate twice": (
        lambda: solution()(Frame(x=[0.1], X=[0.2], y=[0.3])),
        r"`points`: the Frame has 2 columns for the coordinate 'x'; its columns are x, X, y",
    ),
    "a data frame of words": (
        lambda: solution()(Frame(x=["here"], y=[0.2])),
        r"`points`: the column for 'x' must hold numbers",
    ),
    "a data frame with gaps": (
        lambda: solution()(Frame(x=[0.1, float("nan")], y=[0.2, 0.3])),
        r"`points`: 1 of 2 rows are not finite",
    ),
    "a file with another problem": (
        lambda: saved_and_loaded(problem(equations={"interior": lambda u, x: 2.0 * poisson(u, x), "boundary": zero})),
        r"`load`: '.*' was solved for another problem: the equations on 'interior' differ. Give the problem that was solved",
    ),
    "a file on another domain": (
        lambda: saved_and_loaded(problem(domain=Box((0, 0), (1, 2)))),
        r"its domain is Box\(\(0, 0\), \(1, 1\)\), that of `problem` Box\(\(0, 0\), \(1, 2\)\)",
    ),
    "an operator that is a number": (
        lambda: solution().apply(3, PLACES),
        r"`apply`: `operator` turns functions into a function, as `laplacian`; came 3",
    ),
    "an operator of two fields": (
        lambda: solution().apply(lambda u, v: u, PLACES),
        r"the operator given to `apply` must take the field `u`",
    ),
    "a picture where there is no directory": (
        lambda: solution().plot("/nonexistent/u.png"),
        r"`plot`: there is no directory '/nonexistent'; make it first",
    ),
    "a picture of an unknown kind": (
        lambda: solution().plot("u.foo"),
        r"`plot`: 'u.foo' ends in '.foo', which is no kind of picture; kinds are .*pdf, .*png",
    ),
    "a picture that is a directory": (
        lambda: solution().plot(Path(__file__).parent),
        r"`plot`: '.*' is a directory; name a file in it, as '.*figure.png'",
    ),
    "a residual on a part without equation": (
        lambda: solution().residual(PLACES, "left"),
        r"`residual`: no equation holds on 'left'; parts: interior, boundary",
    ),
}

_solved = []


def solution():
    if not _solved:
        _solved.append(solve())
    return _solved[0]


class Frame:
    """A data frame as far as gpde looks at one."""

    def __init__(self, **columns):
        self.columns, self.data = list(columns), columns

    def __getitem__(self, name):
        return self.data[name]


def saved_and_loaded(other):
    with tempfile.TemporaryDirectory() as folder:
        solution().save(Path(folder) / "u.npz")
        return gpde.load(Path(folder) / "u.npz", problem=other)


def messages():
    """What each call raises, as (type, message)."""
    out = {}
    for name, (call, _) in CASES.items():
        try:
            out[name] = "nothing", repr(call())[:200]
        except Exception as error:
            out[name] = type(error).__name__, str(error)
    return out


@pytest.fixture(scope="module")
def raised():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.json"
        environment = {**os.environ, "JAX_ENABLE_X64": "1"}
        subprocess.run([sys.executable, __file__, str(path)], check=True, env=environment, timeout=600)
        return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_answered_with_what_to_do(raised, name):
    kind, message = raised[name]
    _, expected = CASES[name]
    assert kind == "ValueError", f"{kind}: {message}"
    assert re.search(expected, message, flags=re.DOTALL), message
    assert "\n" not in message
    assert len(message) < 500


def test_single_precision_is_refused_with_the_way_out():
    code = "import gpde; gpde.Problem(gpde.Box(0, 1), {'interior': lambda u, x: u(x)})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ValueError: `Problem` needs double precision" in run.stderr
    assert 'jax.config.update("jax_enable_x64", True)' in run.stderr


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(messages()), encoding="utf-8")
