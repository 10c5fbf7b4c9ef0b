from . import gallery as gallery
from .domains import Box as Box
from .domains import SpaceTime as SpaceTime
from .kernels import FunctionKernel as FunctionKernel
from .kernels import Gaussian as Gaussian
from .kernels import Matern as Matern
from .kernels import Offset as Offset
from .methods import Consensus as Consensus
from .methods import FullBatch as FullBatch
from .methods import MiniBatch as MiniBatch
from .operators import biharmonic as biharmonic
from .operators import directional as directional
from .operators import divergence as divergence
from .operators import gradient as gradient
from .operators import hessian as hessian
from .operators import laplacian as laplacian
from .operators import partial as partial
from .problem.problem import Defaults as Defaults
from .problem.problem import Observations as Observations
from .problem.problem import Problem as Problem
from .solution._solve import continuation as continuation
from .solution._solve import solve as solve
from .solution.solution import Solution as Solution
from .solution.solution import load as load

__version__: str
