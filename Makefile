# Everything a fresh clone needs, in a virtual environment of its own.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: demo test slow check clean

# A plan becomes scripts, and one of them runs on two ranks of this machine, on random weights.
demo: $(VENV)/.demo
	$(BIN)/planc build plans/flux2.yaml
	$(BIN)/planc run plans/flux2.yaml --target cpu --tiny --output demo.png
	@echo "the image is $(CURDIR)/demo.png; it was made by generated/flux2/cpu.py on two ranks, with random weights"

# Everything but what takes minutes.
test: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow"

# What takes minutes.
slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Style, types, and that everything generated is in step with its source.
check: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/planc lint plans
	$(BIN)/planc build --check plans
	$(BIN)/planc sync --check

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[verify]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis demo.png
