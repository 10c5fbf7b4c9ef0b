"""Solutions in files: arrays in an `.npz`, everything else as JSON beside them. Reading a file runs no code from it."""

import dataclasses
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from gpde.domains import AbstractDomain, Box
from gpde.kernels import AbstractKernel, FunctionKernel
from gpde.linalg import AbstractLinearSolver
from gpde.machine.arrays import on_device
from gpde.solution.fingerprint import fingerprint

FORMAT = 4
_HEADER = "header"

Arrays = dict[str, np.ndarray]


def encode(tree: Any, arrays: Arrays) -> Any:
    """A tree of equinox modules, containers, numbers, strings and arrays as JSON; its arrays are put into `arrays`."""
    match tree:
        case None | bool() | int() | str():
            return tree
        case np.generic():
            return encode(tree.item(), arrays)
        case float():
            return tree if math.isfinite(tree) else {"float": str(tree)}
        case jax.Array() | np.ndarray():
            key = f"array{len(arrays)}"
            arrays[key] = np.asarray(tree)
            return {"jax" if isinstance(tree, jax.Array) else "numpy": key}
        case list():
            return [encode(item, arrays) for item in tree]
        case tuple() if type(tree) is tuple:
            return {"tuple": [encode(item, arrays) for item in tree]}
        case Mapping():
            return {"dict": [[encode(key, arrays), encode(value, arrays)] for key, value in tree.items()]}
        case FunctionKernel():
            raise ValueError(
                "`save`: a kernel given as a Python function cannot be written to a file. Keep the numbers you need with "
                "`numpy.savez(path, points=points, values=solution(points))`, or use a kernel of gpde, a sum or a product."
            )
        case AbstractDomain():
            return _encode_domain(tree, arrays)
        case eqx.Module() if _savable(type(tree)):
            fields = {f.name: encode(getattr(tree, f.name), arrays) for f in dataclasses.fields(tree)}
            return {"class": class_name(type(tree)), "fields": fields}
    raise ValueError(f"`save`: {type(tree).__name__} cannot be written to a file; came {tree!r}.")


def decode(data: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What `encode` was given, bit by bit."""
    match data:
        case list():
            return [decode(item, arrays) for item in data]
        case {"float": text}:
            return float(text)
        case {"jax": key}:
            return on_device(arrays[key])
        case {"numpy": key}:
            return arrays[key]
        case {"tuple": items}:
            return tuple(decode(item, arrays) for item in items)
        case {"dict": items}:
            return {decode(key, arrays): decode(value, arrays) for key, value in items}
        case {"domain": name, "arguments": arguments, "box": box}:
            cls = _class(name)
            if cls is None and box is None:
                raise ValueError(_unknown(name))
            if cls is None or arguments is None:
                return decode(box, arrays)
            return cls(**{key: decode(value, arrays) for key, value in arguments.items()})
        case {"class": name, "fields": fields}:
            cls = _class(name)
            if cls is None or {f.name for f in dataclasses.fields(cls)} != set(fields):
                raise ValueError(_unknown(name))
            module = object.__new__(cls)
            for field, value in fields.items():
                # Past `__init__`, which would convert and check what was converted and checked before.
                object.__setattr__(module, field, decode(value, arrays))
            return module
    return data


def _encode_domain(domain: AbstractDomain, arrays: Arrays) -> dict[str, Any]:
    """A domain by its arguments; one that is not gpde's also by the box around it, in case its class is not at hand."""
    arguments = domain.arguments()
    try:
        given = None if arguments is None else {name: encode(value, arrays) for name, value in arguments.items()}
    except ValueError:  # an argument that only its author could read back, such as a function
        given = None
    name, box = class_name(type(domain)), None
    if given is None or not _is_ours(name):
        box = encode(Box(domain.lower, domain.upper, domain.coordinates), arrays)
    return {"domain": name, "arguments": given, "box": box, "text": repr(domain)}


def lost_domain(data: Any) -> str | None:
    """The first domain that `decode` will take the box around for, because its class is not at hand; in words."""
    match data:
        case {"domain": name, "arguments": arguments, "text": text}:
            if arguments is None or _class(name) is None:
                return text
            return next(filter(None, map(lost_domain, arguments.values())), None)
    return None


def class_name(cls: type) -> str:
    """`gpde:Gaussian` wherever it stands in gpde, `module:qualname` for a class from elsewhere."""
    module = "gpde" if cls.__module__.partition(".")[0] == "gpde" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def _savable(cls: type) -> bool:
    """Ours by identity: a class of that name is found again. Of the user's, kernels and linear solvers."""
    name = class_name(cls)
    return _class(name) is cls if _is_ours(name) else issubclass(cls, AbstractKernel | AbstractLinearSolver)


def _is_ours(name: str) -> bool:
    return name.startswith("gpde:")


def _class(name: str) -> Any:
    """The class of that name that may be in a file: a module or domain of gpde, or a kernel, linear solver or domain that the
    user has defined; None if there is none. Of two of one name, the one that was defined last."""

    def below(cls: type) -> Iterator[type]:
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    roots = (eqx.Module, AbstractDomain) if _is_ours(name) else (AbstractKernel, AbstractLinearSolver, AbstractDomain)
    found = [cls for root in roots for cls in below(root) if class_name(cls) == name]
    return found[-1] if found else None


def _unknown(name: str) -> str:
    module, _, qualname = name.rpartition(":")
    if not module or _is_ours(name):
        return f"the file holds a {qualname} that this version of gpde does not know."
    return (
        f"the file holds a `{qualname}` of the module `{module}`, which is not at hand: import or define that class, as it was "
        "when the file was written, and load the file again."
    )


def save(solution: Any, path: str | os.PathLike[str]) -> None:
    """Writes a solution. The file appears whole or not at all."""
    arrays: Arrays = {}
    result, points = solution.result, dict(solution.points)
    known = solution.fingerprint if solution.problem is None else fingerprint(solution.problem)
    header = {
        "format": FORMAT,
        "gpde": version("gpde"),
        "name": solution.name,
        "fields": list(solution.fields),
        "needs_problem": not getattr(solution.fields, "plain", True),
        "domain": encode(solution.domain, arrays),
        "fingerprint": encode(known, arrays),
        "predictor": encode(solution.predictor, arrays),
        "points": encode(points, arrays),
        "latent": encode(solution.latent, arrays),
        "resume": encode(solution.resume, arrays),
        "kernels": encode(dict(solution.kernels), arrays),
        "history": encode(_columns(solution.history), arrays),
        "result": encode({**_fields(result), "outcome": result.outcome.name}, arrays),
        "seconds": _fields(solution.seconds),
        "parameters": {name: estimate._asdict() for name, estimate in solution.parameters.items()},
        "settings": encode({name: _plain(value) for name, value in solution.settings.items()}, arrays),
    }
    write(path, header, arrays)


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Writes a header and arrays to an `.npz` file, through a file beside it that then takes its name."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ValueError(f"`save`: there is no directory '{target.parent}'; make it first.")
    text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_HEADER: np.frombuffer(text.encode(), np.uint8)}, **arrays)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file that `write` wrote."""
    if not Path(path).is_file():
        raise ValueError(f"`load`: there is no file '{path}'.")
    try:
        # Opened here, since NumPy leaves a file open that turns out to be no archive.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            if _HEADER not in file:
                raise ValueError("it has no header")
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        known = header["format"]
    # A file cut short or from elsewhere can break in each of these places.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"`load`: '{path}' is damaged, or was not written by `Solution.save` ({error}). Solve again and save."
        ) from error
    if known != FORMAT:
        raise ValueError(
            f"`load`: '{path}' has format {known}, written by gpde {header.get('gpde')}; this version reads {FORMAT}."
        )
    return header, arrays


def _columns(history: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [info.get(name) for info in history] for name in dict.fromkeys(n for info in history for n in info)}


def rows(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """A history again: a step has the entries that are not None."""
    num_steps = max(map(len, columns.values()), default=0)
    return [{name: column[i] for name, column in columns.items() if column[i] is not None} for i in range(num_steps)]


def _fields(data: Any) -> dict[str, Any]:
    return {f.name: getattr(data, f.name) for f in dataclasses.fields(data)}


def _plain(value: Any) -> Any:
    """A setting as it is, or in words where only its author could read it back."""
    try:
        encode(value, {})
    except ValueError:
        return str(value)
    return value
