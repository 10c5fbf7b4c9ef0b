# make demo    solve the elliptic example: a table, a picture and the solution, in results/
# make test    the tests
# make lint    formatting, lint and types
# make bench   the benchmark tables of this machine
# make mutants deliberate faults in the numerics, one at a time: does a test find each? Takes minutes
# make clean   remove results and caches; `make distclean` the environment too

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin

# What each purpose needs beyond the library itself. Types are checked over the tests too, so linting needs theirs.
extras_run  :=
extras_test := [test]
extras_lint := [test,lint]

# The build backend is installed in an environment of its own: older pips pin it by the first of these, newer by the second.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench mutants clean distclean

demo: $(VENV)/.installed-run
	$(BIN)/gpde solve elliptic --output results/elliptic

# Two processes share a machine better than one whose compilations run one after the other. A file stays in one of them: its
# tests share fixtures and compiled programs.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

bench: $(VENV)/.installed-run
	$(BIN)/gpde bench $(ARGS)

mutants: $(VENV)/.installed-test
	$(BIN)/python -m tests.mutants --workers $(WORKERS) $(ARGS)

clean:
	rm -rf results build dist .pytest_cache .ruff_cache .hypothesis .benchmarks
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	rm -rf $(VENV)

# A stamp per purpose: installed once, and again when the requirements change.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".$(extras_$*)"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpde needs Python 3.11 or newer, not " + sys.version.split()[0] + ": call `make PYTHON=python3.12`, say.")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
