# Targets explain themselves: `make` lists them. POSIX make, a POSIX shell and Python are all that is needed.
.POSIX:
.SUFFIXES:

VENV = .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/installed
PYTHON = python3
SUITES =
TESTS =
WORKERS = 2
RUNS = 20000
REQUEST = On-time arrivals fell in June compared with May. Find the cause and recommend what to do.

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make .venv with duly, the demo's data and the tools; offline and instant when nothing changed
	@:

$(STAMP): pyproject.toml
	@PYTHON="$(PYTHON)" sh .ci/make-venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: setup ## Run the flagship request on real flights, from data to report
	@if $(BIN)/duly status >/dev/null 2>&1; then up=yes; else up=no; fi; code=0; \
	$(BIN)/duly run examples/flights "$(REQUEST)" || code=$$?; \
	if [ $$up = no ]; then $(BIN)/duly down >/dev/null; fi; \
	exit $$code

test: setup ## Run all tests (SUITES=DIR adds the public suites, TESTS=tests/protocol picks a part)
	@suites="$(SUITES)"; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $${suites:+"--suites=$$suites"} $(TESTS)

kill-matrix: setup ## Kill every process at every journal boundary of real runs, count effects, write docs/kill-matrix.md
	@$(BIN)/python tests/recovery/kill_matrix.py --write docs/kill-matrix.md

simulation: setup ## Play 20,000 stories of the machine by chance (RUNS=N plays others)
	@$(BIN)/python -m pytest -n $(WORKERS) tests/simulation --simulation-runs=$(RUNS)

check: setup ## Lint, formatting, types and layers
	@status=0; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; \
	$(BIN)/lint-imports || status=1; \
	exit $$status

docs: setup ## Write the generated documents again
	@$(BIN)/python docs/generate.py

format: setup ## Format the source
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## Remove .venv and everything built
	rm -rf $(VENV) build dist src/duly.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.PHONY: help setup demo test kill-matrix check docs format clean
