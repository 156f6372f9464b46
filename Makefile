# `make demo` and `make test` build .venv/ when it is absent or the dependencies changed.
PYTHON ?= python3
VENV   := .venv
READY  := $(VENV)/.installed
RUN    := $(VENV)/bin/python

.PHONY: demo test test-processors mutate lint slow release benchmarks clean

demo: $(READY)
	$(RUN) diagnose.py vqa=mlb

# A process a core: small models train hardly faster with more threads.
test: lint
	OMP_NUM_THREADS=1 $(RUN) -m pytest -m "not slow" -n logical --maxprocesses 4 --dist worksteal

# The learning tests and the tests that compare rounding, under each instruction set of the machine.
# SEEDS: seeds of each learning test. ONLY: default, avx2, avx512, native or other (than native).
test-processors: $(READY)
	$(RUN) tests/processors.py $(if $(ONLY),--only $(ONLY)) -- --learning-seeds $(or $(SEEDS),1)

# Small faults in the scoring modules that the tests must find; docs/mutation.md. Not in CI.
# ONLY: pattern of modules, 'metrics.*'. SAMPLE: mutants a module, 0 for all. SURVIVORS=1: those.
mutate: $(READY)
	$(RUN) tests/mutation.py --only '$(or $(ONLY),*)' --sample $(or $(SAMPLE),60) $(if $(SURVIVORS),--survivors)

# Trains the weights that come with the package, or with CHECK=1 scores them after a change of code.
release: $(READY)
	$(RUN) -m ivqa.tasks.release $(if $(CHECK),--check)

slow: $(READY)
	$(RUN) -m pytest -m slow

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

benchmarks: $(READY)
	$(RUN) -m benchmarks

# The lock holds what was tested on Linux x86_64; elsewhere the lower bounds of pyproject.toml apply.
$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
ifeq ($(shell uname -sm),Linux x86_64)
	$(RUN) -m pip install --quiet -r requirements.lock
	$(RUN) -m pip install --quiet --no-deps -e .
else
	$(RUN) -m pip install --quiet -e '.[dev,cluster]'
endif
	touch $@

clean:
	rm -rf outputs artifacts .pytest_cache .mypy_cache .ruff_cache
