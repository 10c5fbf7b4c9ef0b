"""Covariance functions and their derivatives: what the Gaussian process believes about the unknown."""

from gpde.kernels.base import AbstractKernel, MultiIndex, Terms, common_period, identity, order
from gpde.kernels.compose import Product, Sum
from gpde.kernels.function import FunctionKernel, as_kernel
from gpde.kernels.gaussian import Gaussian
from gpde.kernels.matern import Matern
from gpde.kernels.offset import Offset
from gpde.kernels.radial import AbstractRadial

__all__ = [
    "AbstractKernel",
    "AbstractRadial",
    "FunctionKernel",
    "Gaussian",
    "Matern",
    "MultiIndex",
    "Offset",
    "Product",
    "Sum",
    "Terms",
    "as_kernel",
    "common_period",
    "identity",
    "order",
]
