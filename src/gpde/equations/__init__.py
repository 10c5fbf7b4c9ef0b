"""An equation, understood: which linear operators of the unknown it looks at, and what it makes of their values."""

from gpde.equations.kinds import Kind
from gpde.equations.programs import run_compiled
from gpde.equations.reading import Reading, read
from gpde.equations.statements import Equation, Site, Statement, applied, check_operator, equation_name, stated, with_means
from gpde.equations.tracing import requested_derivatives, require_double_precision

__all__ = [
    "Equation",
    "Kind",
    "Reading",
    "Site",
    "Statement",
    "applied",
    "check_operator",
    "equation_name",
    "read",
    "requested_derivatives",
    "require_double_precision",
    "run_compiled",
    "stated",
    "with_means",
]
