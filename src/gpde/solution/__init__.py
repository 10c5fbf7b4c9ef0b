"""What `solve` gives: a function with error bars, how it was found, and what may be claimed of it."""
