"""The gallery: problems with reference solutions, by name. A problem's own module is imported when it is built."""

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpde.problem.problem import Problem

__all__ = ["GALLERY", "Entry", "Parameter", "get"]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A number that a problem of the gallery can be built with."""

    default: float
    help: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """One problem of the gallery: enough to list it without building it.

    `methods` solve it with its defaults to the relative error `accuracy` in root mean square: 1e-4 for a smooth solution, 1e-3
    for one with fronts or layers, None where noisy data decide. The first is the default.
    """

    name: str
    summary: str
    equation: str
    parameters: Mapping[str, Parameter]
    methods: tuple[str, ...] = ("full-batch", "consensus")
    accuracy: float | None = 1e-4

    def build(self, **parameters: float | int) -> "Problem":
        """The problem, with the given parameters in place of their defaults."""
        unknown = [name for name in parameters if name not in self.parameters]
        if unknown:
            takes = ", ".join(f"`{name}`" for name in self.parameters) or "no parameters"
            raise ValueError(f"`{self.name}` has no parameter `{unknown[0]}`; it takes {takes}.")
        return importlib.import_module(f"gpde.gallery.{self.name.replace('-', '_')}").build(**parameters)


_ALL = ("full-batch", "consensus", "mini-batch")
_ENTRIES = (
    Entry(
        name="elliptic",
        summary="nonlinear elliptic equation on the unit square, solution of two frequencies",
        equation="-Δu + u³ = f,  u = 0 on the boundary",
        parameters={"amplitude": Parameter(4.0, "weight of the fast part sin 4πx sin 4πy of the solution")},
        methods=_ALL,
    ),
    Entry(
        name="burgers",
        summary="viscous Burgers' equation, a sine that steepens into a front",
        equation="u_t + u u_x - ν u_xx = 0,  u(0, x) = -sin πx,  u(t, ±1) = 0",
        parameters={"viscosity": Parameter(0.02, "ν, the width of the front")},
        methods=_ALL,
        accuracy=1e-3,  # fronts
    ),
    Entry(
        name="eikonal",
        summary="regularised eikonal equation, the distance to the sides of the unit square",
        equation="|∇u|² = 1 + ε Δu,  u = 0 on the boundary",
        parameters={"epsilon": Parameter(0.1, "ε, how far the ridges are rounded")},
        methods=_ALL,
        accuracy=1e-3,  # ridges
    ),
    Entry(
        name="poisson",
        summary="Poisson's equation on the unit square with boundary values, linear",
        equation="-Δu = f,  u = g on the boundary",
        parameters={},
        methods=_ALL,
    ),
    Entry(
        name="helmholtz",
        summary="Helmholtz' equation on the unit square, two plane waves",
        equation="Δu + k²u = 0,  u = g on the boundary",
        parameters={"wavenumber": Parameter(12.0, "k, how fast the waves run up and down")},
        methods=_ALL,
    ),
    Entry(
        name="wave",
        summary="wave equation, a string of two tones",
        equation="u_tt = c² u_xx,  u(0, x) = f,  u_t(0, x) = 0,  u(t, 0) = u(t, 1) = 0",
        parameters={"speed": Parameter(1.0, "c, the speed of waves")},
        methods=_ALL,
    ),
    Entry(
        name="elliptic-3d",
        summary="nonlinear elliptic equation on the unit cube",
        equation="-Δu + u³ = f,  u = 0 on the boundary",
        parameters={},
        methods=_ALL,
    ),
    Entry(
        name="elliptic-disk",
        summary="nonlinear elliptic equation on the unit disk with Robin's condition",
        equation="-Δu + u³ = f,  ∂u/∂n + αu = g on the rim",
        parameters={"exchange": Parameter(2.0, "α, how much the rim gives off")},
        methods=_ALL,
    ),
    Entry(
        name="monge-ampere",
        summary="Monge-Ampère equation on the unit square, a convex solution",
        equation="det D²u = f,  u = g on the boundary",
        parameters={},
        methods=_ALL,
    ),
    Entry(
        name="bratu",
        summary="Bratu's equation, its parameter unknown and its height given: both branches",
        equation="u'' + λ eᵘ = 0,  λ' = 0,  u(0) = u(1) = 0,  u(½) = s",
        parameters={"height": Parameter(2.0, "s, small on the lower branch, beyond 1.187 on the upper one")},
        methods=_ALL,
    ),
    Entry(
        name="kovasznay",
        summary="Kovasznay flow, the steady Navier-Stokes equations with pressure",
        equation="(u·∇)u = -∇p + Δu/Re,  ∇·u = 0,  u = g on the boundary",
        parameters={"reynolds": Parameter(40.0, "Re, the Reynolds number")},
        methods=_ALL,
    ),
    Entry(
        name="cavity",
        summary="lid-driven cavity, the steady Navier-Stokes equations by their stream function",
        equation="ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ/Re,  ψ = 0 and no slip,  ψ_y = 16x²(1 - x)² on the lid",
        parameters={"reynolds": Parameter(100.0, "Re, the Reynolds number")},
        methods=("full-batch",),
        accuracy=1e-3,  # corners
    ),
    Entry(
        name="allen-cahn",
        summary="Allen-Cahn equation on a circle, phases that part",
        equation="u_t = ν u_xx + 5(u - u³),  u(0, x) = f,  periodic",
        parameters={"diffusion": Parameter(0.02, "ν, the square of the width of fronts")},
        methods=_ALL,
        accuracy=1e-3,  # fronts
    ),
    Entry(
        name="gray-scott",
        summary="Gray-Scott equations on a circle, two substances that react",
        equation="u_t = D u_xx - uv² + F(1 - u),  v_t = E v_xx + uv² - (F + k)v,  periodic",
        parameters={"feed": Parameter(0.04, "F, how fast u is fed"), "kill": Parameter(0.06, "k, how fast v is taken away")},
        methods=_ALL,
        accuracy=1e-3,  # fronts
    ),
    Entry(
        name="kuramoto-sivashinsky",
        summary="Kuramoto-Sivashinsky equation on a circle, of fourth order",
        equation="u_t + u u_x + u_xx + u_xxxx = 0,  u(0, x) = f,  periodic",
        parameters={"duration": Parameter(4.0, "T, the last time")},
        accuracy=1e-3,  # fronts
    ),
    Entry(
        name="heat-l-shape",
        summary="heat equation on an L, in time",
        equation="u_t - Δu = f,  u = g at the start and on the boundary",
        parameters={},
        methods=_ALL,
    ),
    Entry(
        name="eikonal-hole",
        summary="regularised eikonal equation on a polygon with a hole, the first arrival of three fronts",
        equation="|∇u|² = 1 + ε Δu,  u = g on the boundary",
        parameters={"epsilon": Parameter(0.2, "ε, how far the ridges are rounded")},
        methods=_ALL,
    ),
    Entry(
        name="burgers-inverse",
        summary="Burgers' equation, its viscosity unknown and 100 noisy values of u given",
        equation="u_t + u u_x - ν u_xx = 0,  ν unknown,  u(0, x) = -sin πx,  u(t, ±1) = 0,  u(t_i, x_i) = y_i ± 0.01",
        parameters={
            "viscosity": Parameter(0.1, "ν in truth, which only the data know"),
            "draw": Parameter(0.0, "which data: the seed of their places and noise"),
        },
        methods=_ALL,
        accuracy=None,
    ),
    Entry(
        name="darcy-inverse",
        summary="Darcy flow on the unit square, its permeability unknown and 60 noisy values of u given",
        equation="-∇·(eᵃ ∇u) = 1,  a unknown,  u = 0 on the boundary,  u(x_i) = y_i ± 0.001",
        parameters={"draw": Parameter(0.0, "which data: the seed of their places and noise")},
        methods=("full-batch",),
        accuracy=None,
    ),
)
GALLERY: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def get(name: str) -> Entry:
    """The entry of that name."""
    if name in GALLERY:
        return GALLERY[name]
    close = difflib.get_close_matches(name, GALLERY, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise ValueError(f"there is no problem '{name}' in the gallery.{hint} It has {', '.join(GALLERY)}.")
