# Everything works on a machine that has only make and Python 3.11 or newer.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin

.PHONY: help setup demo test sanitize lint type format docs bench measure clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(VENV)/.ready-base $(VENV)/.ready-test $(VENV)/.ready-lint  ## Create .venv with everything for development

demo: $(VENV)/.ready-base  ## Train the demo translator, report, write its attention page (a few minutes)
	$(BIN)/regard demo

test: $(VENV)/.ready-test  ## Run the whole test suite
	$(BIN)/pytest -n auto --dist loadfile

sanitize: $(VENV)/.ready-test  ## Check the C kernels with AddressSanitizer and UBSan, in every variant
	$(BIN)/python tests/kernels/sanitize.py

lint: $(VENV)/.ready-lint  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(VENV)/.ready-lint  ## Check types
	$(BIN)/mypy

format: $(VENV)/.ready-lint  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready-docs  ## Build the site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# In an environment of its own: peers bring a torchvision made for another build of torch, which tests must not meet.
bench:  ## Say which benchmarks there are; JOB=translate runs one of speed
	@$(MAKE) --no-print-directory VENV=$(VENV)-bench measure

measure: $(VENV)/.ready-bench
	@$(BIN)/python $(if $(JOB),-m benchmarks $(JOB),benchmarks/list.py)

clean:  ## Remove the virtual environments and caches (runs stay)
	rm -rf $(VENV) $(VENV)-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis site

# One stamp per extra; a second run starts at once. constraints.txt pins torch to a build that needs no GPU packages.
$(VENV)/.ready-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.$(if $(filter-out base,$*),[$*])'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

.PRECIOUS: $(VENV)/.ready-%
