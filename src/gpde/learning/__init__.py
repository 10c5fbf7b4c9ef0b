"""Kernels learned from the equations: the marginal likelihood of what they say on patches of neighbouring points."""
