"""Nonlinear partial differential equations solved with Gaussian processes.

Names are imported when they are first used (jax takes a second, and help does not wait for it); `__init__.pyi` lists them.
"""

from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("gpde")
    return _attribute(name)
