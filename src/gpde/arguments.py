"""What is said of a call whose arguments do not fit: which ones there are, and which was meant."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)


def named_arguments(function: Callable[P, T], name: str | None = None) -> Callable[P, T]:
    """The function, with a sentence for arguments that it does not take: `solve(problem, n_interior=100)`."""
    signature = inspect.signature(function)
    call_name = name or function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(_sentence(call_name, signature, kwargs, str(error))) from None
        return function(*args, **kwargs)

    return call


def named_constructor(cls: C) -> C:
    """The same for a class: its constructor."""
    cls.__init__ = named_arguments(cls.__init__, cls.__name__)
    return cls


def _sentence(call: str, signature: inspect.Signature, given: dict[str, Any], error: str) -> str:
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items() if name != "self"}
    names = [name for name, kind in kinds.items() if kind is not inspect.Parameter.VAR_KEYWORD]
    takes = f"It takes {', '.join(names)}{'' if len(names) == len(kinds) else ' and more'}."
    unknown = [name for name in given if name not in names and len(names) == len(kinds)]
    if not unknown:
        return f"`{call}`: {error}. {takes}"
    close = difflib.get_close_matches(unknown[0], names, n=1)
    hint = f" Did you mean `{close[0]}`?" if close else ""
    return f"`{call}`: there is no argument `{unknown[0]}`.{hint} {takes}"
