# Every target that needs Python first sees to .venv, which is made anew when the dependencies change.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_DOCS := .venv/.installed-docs
INSTALLED_EXTRAS := .venv/.installed-extras
# What pip leaves behind: Inspect takes this folder for the installed package, and then finds no tasks of ours.
EGG_INFO := drest_torch.egg-info
# Tests that compare floats: they run once more on an older processor.
NUMERICAL := tests/algos tests/transforms tests/envs/exact tests/test_reward.py
# A worker for each core, and one thread for each: the tensors are small. One after the other: PYTEST_ARGS=
PYTEST_ARGS ?= -n auto --dist worksteal
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations=10 $(PYTEST_ARGS)

# The Pythons on which the oldest and the newest packages are tried: a version, or the path of an interpreter.
OLDEST_PYTHON ?= 3.10
NEWEST_PYTHON ?= 3.13
UV := build/uv/bin/uv

.DEFAULT_GOAL := help
.PHONY: help install train test test-slow test-turn test-all lint check format docs bench chaos golden mutants \
	oldest newest clean

help:
	@echo "make train     train an agent on random levels with PPO and the DReST reward (two to four minutes)"
	@echo "make test      the fast tests"
	@echo "make test-turn what a submission has to pass besides: golden runs, three studies in turn, another processor"
	@echo "make test-slow the slow tests"
	@echo "make test-all  everything, with all extras installed, faults and chaos (an hour); before an issue is resolved"
	@echo "make oldest    the fast tests with the oldest packages that pyproject.toml allows, in a venv of their own (4 GB)"
	@echo "make newest    the same with the newest packages"
	@echo "make check     formatting, lint, types and the fast tests"
	@echo "make format    format the code and repair what ruff can repair"
	@echo "make docs      build the documentation into build/docs"
	@echo "make bench     measure speed and write docs/benchmarks.md; a missed target fails (ten minutes)"
	@echo "make chaos     kill runs, damage files, fill disks; write what came of it (half an hour)"
	@echo "make clean     remove what builds, tests and tools left behind (not .venv, not runs/)"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/pip \
	|| $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	|| { echo "Python 3.10 or newer is needed, and '$(PYTHON)' is not: name one, as in 'make test PYTHON=python3.12'." >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (the first time this takes some minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@rm -rf $(EGG_INFO)
	@touch $@

$(INSTALLED_EXTRAS): $(INSTALLED_DOCS)
	@echo "Installing what else a test may need ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[envs,gym,hub,ray,search,tensorboard,language,dev]'
	@rm -rf $(EGG_INFO)
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	@echo "Installing what the documentation needs ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@rm -rf $(EGG_INFO)
	@touch $@

train: $(INSTALLED)
	$(BIN)/python -m drest_torch.train algo=ppo

test: $(INSTALLED)
	$(PYTEST) -m "not slow and not gpu and not benchmark"

test-slow: $(INSTALLED)
	$(PYTEST) -m "slow and not gpu and not benchmark"

test-turn: $(INSTALLED)
	$(PYTEST) --turn tests/golden/test_golden.py tests/studies/test_studies.py
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m "not slow and not gpu and not benchmark" $(NUMERICAL)

test-all: $(INSTALLED_EXTRAS)
	$(PYTEST) -m "not gpu and not benchmark"
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m "not slow and not gpu and not benchmark" $(NUMERICAL)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos --share 0.1

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(INSTALLED_DOCS)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "The documentation is in build/docs/index.html"

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.run

mutants: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants

golden: $(INSTALLED)
	$(BIN)/python -m tests.golden

chaos: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos --out docs/explanation/reliability.json; status=$$?; \
	$(BIN)/python docs/tables.py && exit $$status

$(UV):
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv

# The lower bounds of the packages that a user installs; tools of development are the newest.
oldest: $(UV)
	$(UV) venv --quiet --clear --python $(OLDEST_PYTHON) build/oldest
	$(UV) pip compile --quiet --python build/oldest/bin/python --resolution lowest-direct --no-header --no-annotate \
	--extra train --output-file build/oldest.txt pyproject.toml
	$(UV) pip install --quiet --python build/oldest/bin/python --constraints build/oldest.txt -e '.[dev]'
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest $(PYTEST_ARGS) -m "not slow and not gpu and not benchmark"

newest: $(UV)
	$(UV) venv --quiet --clear --python $(NEWEST_PYTHON) build/newest
	$(UV) pip install --quiet --python build/newest/bin/python -e '.[dev]'
	OMP_NUM_THREADS=1 build/newest/bin/python -m pytest $(PYTEST_ARGS) -m "not slow and not gpu and not benchmark"

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
