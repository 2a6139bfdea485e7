# Two commands do everything on a machine that has only Python: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: install demo test lint types unit nightly format benchmark docs pages allowed constraints clean

install: $(VENV)/installed

# The stamps make a second run skip the installation.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[viewer]'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) --editable '.[test]'
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
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --durations 25

# What takes too long for every change.
nightly: $(VENV)/installed-test $(VENV)/installed-docs
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --durations 25 -m nightly

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/installed-test
	$(BIN)/python benchmarks/env_speed.py

$(VENV)/installed-docs: $(VENV)/installed
	$(PIP) --editable '.[docs]'
	touch $@

# The site, in docs/_build/html; opens without a network.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html docs docs/_build/html

# The pages that are made from code, cards and result files.
pages: $(VENV)/installed-test
	$(BIN)/python benchmarks/references.py
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tests.style.picture

# Take what is tidied up from the lists of what breaks a rule of the house.
allowed: $(VENV)/installed-test
	$(BIN)/python -m tests.style.allowed

# The versions in .venv as those to test with; a local version such as +cpu is not a release.
constraints: $(VENV)/installed-test
	$(PIP) --editable '.[dev,docs]'
	{ grep '^#' constraints.txt; $(BIN)/python -m pip list --format freeze --exclude-editable \
		--exclude pip | sed 's/+.*//' | sort --ignore-case; } > constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) build dist demo docs/_build docs/reference/api .mypy_cache .pytest_cache .ruff_cache
