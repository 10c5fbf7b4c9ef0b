"""Side-by-side tables: `python -m benchmarks [NAME ...] [--quick]`.

A benchmark is a module here with a function `main(quick: bool)` that prints its tables; every ratio compares two things
measured in the same run. `quick` takes small sizes: it shows that the benchmark works and says nothing about speed.
"""
