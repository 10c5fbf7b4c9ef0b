"""The full GP: all points at once."""
