"""The mini-batch objective minimised over all patches at once."""
