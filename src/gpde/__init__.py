"""Nonlinear partial differential equations solved with Gaussian processes. Names are imported when they are first used."""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpde import problems as problems
    from gpde.domains import Box as Box
    from gpde.domains import SpaceTime as SpaceTime
    from gpde.kernels import FunctionKernel as FunctionKernel
    from gpde.kernels import Gaussian as Gaussian
    from gpde.kernels import Matern as Matern
    from gpde.kernels import Offset as Offset
    from gpde.methods import Consensus as Consensus
    from gpde.methods import FullBatch as FullBatch
    from gpde.methods import MiniBatch as MiniBatch
    from gpde.operators import biharmonic as biharmonic
    from gpde.operators import directional as directional
    from gpde.operators import divergence as divergence
    from gpde.operators import gradient as gradient
    from gpde.operators import hessian as hessian
    from gpde.operators import laplacian as laplacian
    from gpde.operators import partial as partial
    from gpde.problem import Defaults as Defaults
    from gpde.problem import Observations as Observations
    from gpde.problem import Problem as Problem
    from gpde.solution import Solution as Solution
    from gpde.solution import load as load
    from gpde.solve import continuation as continuation
    from gpde.solve import solve as solve

    __version__: str

_MODULES = {
    "domains": ("Box", "SpaceTime"),
    "kernels": ("Offset", "FunctionKernel", "Gaussian", "Matern"),
    "methods": ("Consensus", "FullBatch", "MiniBatch"),
    "operators": ("biharmonic", "directional", "divergence", "gradient", "hessian", "laplacian", "partial"),
    "problem": ("Defaults", "Observations", "Problem"),
    "solution": ("Solution", "load"),
    "solve": ("continuation", "solve"),
}
_MODULE_OF = {name: f"gpde.{module}" for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", "problems", *_MODULE_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    # jax takes a second to import: `import gpde` and the command line's help do not wait for it.
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    elif name == "problems":
        value = importlib.import_module("gpde.problems")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("gpde")
    else:
        raise AttributeError(f"module 'gpde' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Importing `gpde.solve`, the module, would put it in the place of `gpde.solve`, the function.
        if not (name in _MODULE_OF and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
