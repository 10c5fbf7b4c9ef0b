"""Side-by-side tables: `gpde bench [NAME ...] [--quick]`.

A benchmark is a module here with a function `main(quick: bool)` that prints its tables and may return what is to be written;
every ratio compares two things measured in the same run. `quick` takes small sizes: it shows that the benchmark works and says
nothing about speed.
"""

# What there is, in the order in which it runs; `mini-batch` is the module `bench_mini_batch`.
BENCHMARKS = {
    "methods": "error against time for each method",
    "scaling": "time and memory against the number of points",
    "gallery": "every problem of the gallery with its defaults",
    "statements": "what comes of a statement alone, with nothing that would help",
    "error-bars": "estimates and 95 % bands beside true errors, over the gallery and draws of its points",
    "inverse": "the inverse problems of the gallery for five draws of their data",
    "march": "how the error grows over ten windows",
    "clock": "where the seconds of `gpde solve` go, the first time and the second",
    "between-points": "true errors beside what a result says of itself",
    "consensus": "patches beside dense linear algebra, and errors against their size",
    "full-batch": "the full GP beside SciPy",
    "gram": "Gram matrices beside nested automatic differentiation",
    "adaptive": "points added where the equations are off, against as many drawn at once",
    "learning": "what learning a kernel costs against one solve with it",
    "hard-equations": "how runs on equations far from linear end, from zero and from their own start",
    "linear-solvers": "the linear solvers of consensus beside sparse libraries",
    "mini-batch": "a step beside a plain port and bare LAPACK",
}
