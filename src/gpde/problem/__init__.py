"""A problem as stated on paper."""
