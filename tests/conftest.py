"""Settings for every test: double precision, no silent broadcasting, the same examples on every run.

The types of `gpde` are checked while the tests run (jaxtyping with beartype): see `addopts` in pyproject.toml.
"""

import functools
import gc
import inspect
import os
import signal
import types
import typing
from pathlib import Path

# The environment, so that the subprocesses of tests do the same. Before jax, which reads it when it is imported.
# Bytecode is kept whatever the user's environment says: two dozen processes import gpde.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
os.environ["MPLBACKEND"] = "Agg"  # draw without a screen
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # small matrices, and the other cores have tests of their own
# Compiled programs are kept for the next run where a folder is named for them: to ask for and to write them takes a twentieth
# of the time of a run, in which one in thirty is found. `JAX_COMPILATION_CACHE_DIR=.pytest_cache/programs make test`, say.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "programs")  # not the user's
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"  # of the others a test has dozens: to keep them costs more
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# A test runs a program a few times, on small arrays: compiling is what takes time, a third of it without optimisation.
# `XLA_FLAGS= make test` compiles as users do.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)

# Where in which file an operation was written is for reading compiled programs; to note it takes a tenth of the time.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

import hypothesis
import jax
import jaxtyping
import pytest
from beartype.roar import BeartypeCallHintViolation
from hypothesis.internal.conjecture import providers
from jax._src.interpreters import mlir

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)
jax.config.update("jax_enable_x64", True)
# An (n,) array that meets an (n, 1) array gives (n, n) without a word: the classic way to lose a factor.
jax.config.update("jax_numpy_rank_promotion", "raise")


def decorated_once(decorate):
    """`jaxtyped`, with which the types of every function of gpde are checked, when a function is first called; those within a
    function once for all calls of the one around them. To decorate one takes a millisecond: half of the time to import gpde,
    and a third of that of some tests."""
    checks = {}

    def is_local(thing):
        return "<locals>" in getattr(thing, "__qualname__", "")

    def decorator(target=None, **options):
        if target is None:
            return functools.partial(decorator, **options)
        # A class within a function is another one with each call, and so are the checks that name it.
        if not inspect.isfunction(target) or any(map(is_local, target.__annotations__.values())):
            return decorate(target, **options)
        if not is_local(target):
            return checked_quickly(target, decorate, **options)
        if target.__code__ not in checks:
            checks[target.__code__] = decorate(caller_of(target), **options)
        checked = checks[target.__code__]

        @functools.wraps(target)
        def function(*arguments, **named):
            return checked(target, *arguments, **named)

        return function

    return decorator


def checked_quickly(target, decorate, *, typechecker):
    """A function whose arguments and value are checked by one call of the type checker and not by the three of `jaxtyped`,
    which is asked for its words where a type is wrong."""
    shapes = jaxtyping.jaxtyped("context")
    checked = None

    @functools.wraps(target)
    def function(*arguments, **named):
        nonlocal checked
        if checked is None:
            checked = typechecker(with_known_names(target))
        with shapes:
            try:
                return checked(*arguments, **named)
            except BeartypeCallHintViolation as error:
                wrong = error
        decorate(target, typechecker=typechecker)(*arguments, **named)
        raise wrong

    return function


def with_known_names(target):
    """The function with types in the place of their names, and without those that are known to a reader alone."""

    def known(annotation):
        try:
            return typing.get_type_hints(types.SimpleNamespace(__annotations__={"it": annotation}), target.__globals__)["it"]
        except NameError:
            return typing.Any

    copy = types.FunctionType(target.__code__, target.__globals__, target.__name__, target.__defaults__, target.__closure__)
    functools.update_wrapper(copy, target)
    del copy.__dict__["__wrapped__"]
    copy.__kwdefaults__ = target.__kwdefaults__
    copy.__annotations__ = {name: known(annotation) for name, annotation in target.__annotations__.items()}
    return copy


def caller_of(target):
    """A function with the types of another one, which gets the one it calls as an argument before the others."""

    @functools.wraps(target, updated=())
    def call(_target, /, *arguments, **named):
        return _target(*arguments, **named)

    signature = inspect.signature(target)
    first = inspect.Parameter("_target", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])  # pyright: ignore
    del call.__wrapped__
    return call


jaxtyping.jaxtyped = decorated_once(jaxtyping.jaxtyped)

# All programs are written in one context of MLIR: to make one for each, as JAX does, takes a third of the time of a small one.
mlir.make_ir_context = functools.cache(mlir.make_ir_context)

# Deterministic: a failure seen once is seen again. No deadline, since the first example pays for compilation.
hypothesis.settings.register_profile("gpde", derandomize=True, deadline=None, max_examples=25, database=None)
hypothesis.settings.load_profile("gpde")
# Nor may examples depend on the numbers in the sources that happen to be imported, which take seconds to read.
providers.is_local_module_file = lambda path: False


# A file stays in one process (see the Makefile): the longest come first, so that none is left to one process at the end.
LONGEST = (
    "test_benchmarks", "test_mini_batch", "test_examples", "test_consensus", "test_nested_derivatives", "test_kernels",
    "test_reproduce", "test_gallery", "test_cli", "test_checks", "test_march", "test_bad_input", "test_solution", "test_files",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def pytest_collection_finish():
    """Modules and tests stay to the end: the search for garbage passes over them, and JAX makes little else while it traces."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_sessionfinish():
    """Pytest collects garbage five times over at the end; once is enough to see what is left in it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_interrupt_of_another_test():
    """Ctrl-C in one test must not keep the first solve of the next one from starting."""
    yield
    from gpde.machine import interrupts

    interrupts.forget()
