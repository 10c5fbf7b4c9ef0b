"""Algorithm 1 of the paper: a batch of neighbouring points at a time."""
