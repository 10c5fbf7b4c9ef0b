"""A study of the suite itself: deliberate faults in the numerics, one at a time, and whether the tests find them."""
