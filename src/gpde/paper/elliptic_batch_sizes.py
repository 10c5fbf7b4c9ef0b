"""The elliptic equation with batches of several sizes: a figure of the paper's source for Sec. 4.1."""

from gpde.paper.batch_sizes import Settings, run

__all__ = ["FULL", "QUICK", "run"]

FULL = Settings(
    problem="elliptic",
    functionals="minimal",  # u and Δu, the paper's
    num_interior=900,
    num_boundary=300,
    batch_sizes=(12, 24, 48),
    num_steps=10_000,  # ours, for M = 12: the paper does not say
    max_inner_steps=30,
)
QUICK = Settings(
    problem="elliptic",
    functionals="minimal",
    num_interior=400,
    num_boundary=120,
    batch_sizes=(12, 24, 48),
    num_steps=1_000,
    max_inner_steps=30,
    realizations=2,
)
