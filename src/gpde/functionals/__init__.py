r"""Functionals $\phi = \delta \circ L$ on points: their values on functions, and their covariances."""
