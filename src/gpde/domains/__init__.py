"""Where points lie: regions of space and of space-time, the names of their parts, and points on each part."""

from gpde.domains.ball import Ball, Ellipsoid
from gpde.domains.base import AbstractDomain
from gpde.domains.box import Box
from gpde.domains.divided import Divided
from gpde.domains.mesh import Mesh
from gpde.domains.parts import WithParts
from gpde.domains.point_cloud import PointCloud
from gpde.domains.polygon import Polygon
from gpde.domains.sampling import SAMPLINGS, split
from gpde.domains.set_operations import Difference, Intersection, Union
from gpde.domains.signed_distance import SignedDistance
from gpde.domains.spacetime import SpaceTime

__all__ = [
    "SAMPLINGS",
    "AbstractDomain",
    "Ball",
    "Box",
    "Difference",
    "Divided",
    "Ellipsoid",
    "Intersection",
    "Mesh",
    "PointCloud",
    "Polygon",
    "SignedDistance",
    "SpaceTime",
    "Union",
    "WithParts",
    "split",
]
