# Two commands do everything on a machine that has only Python: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test lint types unit format benchmark pages clean

install: $(VENV)/installed

# The stamps make a second run skip the installation.
$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[viewer]'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: install
	$(BIN)/sgrl demo

test: lint types unit

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-test
	$(BIN)/mypy

# One thread for each of the two processes: PyTorch's threads stall when they outnumber the cores.
unit: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/installed-test
	$(BIN)/python benchmarks/env_speed.py

# The pages that are made from code, cards and result files.
pages: $(VENV)/installed-test
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist demo .mypy_cache .pytest_cache .ruff_cache
