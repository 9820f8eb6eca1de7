# Everything a fresh machine with Python 3.11 needs: `make demo` and `make test` set up what they use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints/ci.txt
BENCH := .venv-bench
LOWEST := .venv-lowest
WORKERS ?= 2
# Where PyTorch's CPU build comes from, if not from the usual index: https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=

.PHONY: help demo test test-slow test-torch test-lowest lint format bench docs reproduce clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "fenchel needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.use: $(VENV)/.made pyproject.toml constraints/ci.txt
	$(PIP) -e ".[plots]"
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml constraints/ci.txt
	$(PIP) -e ".[plots,parquet,test]"
	@touch $@

$(VENV)/.torch: $(VENV)/.test
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -e ".[plots,parquet,test,torch]"
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml constraints/ci.txt
	$(PIP) -e ".[plots,parquet,test,lint]"
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints/ci.txt
	$(PIP) -e ".[plots,docs]"
	@touch $@

demo: $(VENV)/.use  ## train and compare projection losses on built-in data; a table, a saved model and a picture
	$(BIN)/fenchel demo --out build/demo --overwrite

test: $(VENV)/.test  ## the whole suite but for what needs PyTorch
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow and not torch" tests

test-slow: $(VENV)/.test  ## what takes longer than CI should
	$(BIN)/python -m pytest -q -n $(WORKERS) -m slow tests

test-torch: $(VENV)/.torch  ## what needs PyTorch (the CPU build; TORCH_INDEX names another index to take it from)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "torch and not slow" tests
	$(BIN)/python -m pytest -q -p no:cacheprovider --doctest-modules src/fenchel/nn

test-lowest: pyproject.toml constraints/lowest.txt  ## the suite with the oldest versions that pyproject.toml allows
	test -d $(LOWEST) || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints/lowest.txt -e ".[plots,parquet,test]"
	$(LOWEST)/bin/python -m pytest -q -n $(WORKERS) -m "not slow and not torch" tests

lint: $(VENV)/.lint  ## style, types, import direction, doctests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider --doctest-modules --ignore=src/fenchel/nn src/fenchel

format: $(VENV)/.lint  ## put the code into its one style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: pyproject.toml benchmarks/requirements.txt  ## compare with other libraries, side by side in one process
	test -d $(BENCH) || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt -e .
	$(BENCH)/bin/python -m benchmarks.run $(ARGS)

docs: $(VENV)/.docs  ## build the site into build/site
	$(BIN)/python -m mkdocs build --strict --quiet

reproduce: $(VENV)/.use  ## run every experiment, going on where the last run was stopped; DATA=folder names the data sets
	mkdir -p build
	$(BIN)/fenchel reproduce all --json build/experiments.json --overwrite $(if $(DATA),--data $(DATA)) $(ARGS)

clean:  ## remove what make has made
	rm -rf $(VENV) $(BENCH) $(LOWEST) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
