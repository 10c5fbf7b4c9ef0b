"""An equation, understood: which linear operators of the unknown it looks at, and what it makes of their values."""

from gpde.equations.kinds import Kind
from gpde.equations.reading import Reading, read
from gpde.equations.tracing import (
    Equation,
    check_arguments,
    check_operator,
    equation_name,
    requested_derivatives,
    require_double_precision,
)

__all__ = [
    "Equation",
    "Kind",
    "Reading",
    "check_arguments",
    "check_operator",
    "equation_name",
    "read",
    "requested_derivatives",
    "require_double_precision",
]
