r"""Symmetric positive definite systems that are sums of small dense blocks: $H = \sum_c R_c^T B_c R_c$."""

from gpde.linalg.block_sum import AbstractLinearSolver as AbstractLinearSolver
from gpde.linalg.block_sum import BlockSum as BlockSum
from gpde.linalg.block_sum import Solved as Solved
from gpde.linalg.direct import Direct as Direct
from gpde.linalg.schwarz import Schwarz as Schwarz
