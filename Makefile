# `make demo` and `make test` build .venv/ when it is absent or the dependencies changed.
PYTHON ?= python3
VENV   := .venv
READY  := $(VENV)/.installed
RUN    := $(VENV)/bin/python

.PHONY: demo test tests test-processors lower-bounds wheel mutate faults lint slow pages release notes benchmarks \
	results docs gallery docs-check clean

demo: $(READY)
	$(RUN) diagnose.py vqa=mlb

test: lint tests

# A process a core: small models train hardly faster with more threads.
tests: $(READY)
	OMP_NUM_THREADS=1 $(RUN) -m pytest -m "not slow" -n logical --maxprocesses 4 --dist worksteal

# The learning tests and the tests that compare rounding, under each instruction set of the machine.
# SEEDS: seeds of each learning test. ONLY: default, avx2, avx512, native or other (than native).
test-processors: $(READY)
	$(RUN) tests/processors.py $(if $(ONLY),--only $(ONLY)) -- --learning-seeds $(or $(SEEDS),1)

# Installs the lowest versions that pyproject.toml allows, imports all of ivqa and runs quick tests.
lower-bounds: $(READY)
	$(RUN) tests/lower_bounds.py

# Builds the wheel and uses it in a bare environment of each of PYTHONS: python3.12 python3.13.
wheel: $(READY)
	$(RUN) tests/wheel.py $(or $(PYTHONS),$(PYTHON))

# Small faults in the scoring modules that the tests must find. Not in CI.
# ONLY: pattern of modules, 'metrics.*'. SAMPLE: mutants a module, 0 for all. SURVIVORS=1: those.
mutate: $(READY)
	$(RUN) tests/mutation.py --only '$(or $(ONLY),*)' --sample $(or $(SAMPLE),60) $(if $(SURVIVORS),--survivors)

# Interrupts every long job at random and compares the results. Not in CI.
# JOBS: names of jobs, with commas. ONLY: part of a fault's name.
faults: $(READY)
	$(RUN) tests/faults --rounds $(or $(ROUNDS),50) --seed $(or $(SEED),0) \
		$(if $(JOBS),--jobs $(JOBS)) $(if $(ONLY),--only '$(ONLY)')

# Trains the weights that come with the package, or with CHECK=1 scores them after a change of code.
release: $(READY)
	$(RUN) -m tools.release $(if $(CHECK),--check)

slow: $(READY)
	$(RUN) -m pytest -m slow

# All pages in Chromium: screenshots in outputs/pages/index.html, and faults that it can see.
pages: $(READY)
	$(RUN) tests/pages.py

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

# The notes of a release: its section of CHANGELOG.md. VERSION: 0.1.0
notes:
	@awk '/^## / {on = $$2 == "$(VERSION)"; found += on; next} on; END {exit !found}' CHANGELOG.md || \
		{ echo "error: CHANGELOG.md has no section $(VERSION)" >&2; exit 1; }

benchmarks: $(READY)
	$(RUN) -m benchmarks

# Runs the experiments of conf/results.yaml and writes docs/results.md: hours. After an interruption
# it continues. ONLY: names of experiments. Data: IVQA_VQA_V2 and IVQA_DAQUAR name folders.
results: $(READY)
	$(RUN) -m tools.results $(ONLY)

# The documentation as a site, outputs/site/index.html, with the API reference from the docstrings.
# GALLERY=no leaves out the reports of `make gallery` where they are not there yet.
DOCS := $(VENV)/docs
EXTRA := import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
docs: $(DOCS)/.installed $(if $(filter no,$(GALLERY)),,outputs/gallery/served/report.html)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

# Whole reports for the site, in the minutes of the demo. The one about photographs: IVQA_DAQUAR names their folder.
gallery: $(READY)
	$(RUN) -m tools.gallery

outputs/gallery/served/report.html:
	$(MAKE) gallery

# Runs every command of README and the guides on small data, page by page. ONLY: part of a page's name.
docs-check: $(READY)
	$(RUN) tests/docs_check.py $(if $(ONLY),--only $(ONLY))

$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet $$($(DOCS)/bin/python -c '$(EXTRA); print(*extras["docs"])')
	touch $@

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
