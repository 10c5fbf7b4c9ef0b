"""Where points lie: regions of space and of space-time, the names of their parts, and points on each part."""

from gpde.domains.base import AbstractDomain
from gpde.domains.box import Box
from gpde.domains.sampling import SAMPLINGS, split
from gpde.domains.spacetime import SpaceTime

__all__ = ["SAMPLINGS", "AbstractDomain", "Box", "SpaceTime", "split"]
