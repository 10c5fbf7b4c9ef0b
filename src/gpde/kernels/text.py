"""Kernels for people: as they are written, with their numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpde.kernels.base import AbstractKernel
from gpde.kernels.radial import AbstractRadial


def kernels_text(kernels: Mapping[str, AbstractKernel]) -> str:
    """`Gaussian(lengthscale=0.2)`; one for each field where they differ."""
    texts = {field: kernel_text(kernel) for field, kernel in kernels.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{field}: {text}" for field, text in texts.items())


def kernel_text(kernel: AbstractKernel) -> str:
    """A kernel as it is written, without what is as by default."""
    pieces = []
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name, None)  # a kernel may be half built
        if isinstance(value, AbstractKernel):
            pieces.append(kernel_text(value))
        elif callable(value):
            pieces.append(getattr(getattr(value, "func", value), "__name__", "function"))
        elif field.name == "period" and isinstance(kernel, AbstractRadial):
            circles = ", ".join(f"{axis}: {period:.6g}" for axis, period in kernel.period)
            pieces += [f"period={{{circles}}}"] if circles else []
        elif value is not None and np.size(value) and not (field.name == "amplitude" and np.all(value == 1.0)):
            pieces.append(f"{field.name}={_text(value)}")
    return f"{type(kernel).__name__}({', '.join(pieces)})"


def _text(value: Any) -> str:
    """Numbers to six digits; anything else a kernel may hold as Python prints it."""
    array = np.ravel(value)
    if not np.issubdtype(array.dtype, np.number):
        return repr(value)
    text = ", ".join(f"{number:.6g}" for number in array)
    return text if array.size == 1 else f"({text})"
