"""placeholder while written"""

from typing import ClassVar
from gpde.linear_solvers.direct import Direct


class Schwarz(Direct):
    name: ClassVar[str] = "schwarz"
