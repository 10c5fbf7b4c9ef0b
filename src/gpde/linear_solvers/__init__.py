r"""Symmetric positive definite systems that are sums of small dense blocks: $H = \sum_c R_c^T B_c R_c$."""

from gpde.linear_solvers.base import AbstractLinearSolver as AbstractLinearSolver
from gpde.linear_solvers.base import BlockSum as BlockSum
from gpde.linear_solvers.base import Solved as Solved
from gpde.linear_solvers.direct import Direct as Direct
from gpde.linear_solvers.schwarz import Schwarz as Schwarz
