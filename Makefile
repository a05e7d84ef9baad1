# The two commands of the README are `make demo` and `make test`; each sets up all that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint types unit clean

demo: $(VENV)/ready
	$(BIN)/qkv demo

test: lint types unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready
	$(BIN)/mypy

unit: $(VENV)/ready
	$(BIN)/pytest

# Learning runs on real data that take minutes each.
test-slow: $(VENV)/ready
	$(BIN)/pytest -m slow

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist
