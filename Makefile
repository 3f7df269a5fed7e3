# Two commands for a newcomer: `make ablation` and `make test`. Both make .venv first.
PYTHON ?= python3
JOBS ?= 2
KILLS ?= 200
AOT ?= tpu
VENV := .venv
VENV5 := .venv-transformers5
VENV_TPU := .venv-tpu
RUN := $(VENV)/bin/python
# Modules are cached as bytecode, whatever the environment says: tests start many processes.
PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: ablation docs test test-ci test-all test-transformers5 test-aot test-faults lint clean

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "zoo needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --disable-pip-version-check --editable . --constraint constraints.txt
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(RUN) -m pip install --disable-pip-version-check --editable '.[test]' --constraint constraints.txt
	@touch $@

# Tests use few of the thousands of modules of these libraries, whose bytecode is made when they are imported.
$(VENV)/.parity: $(VENV)/.test
	$(RUN) -m pip install --disable-pip-version-check --no-compile --editable '.[test,parity,harness]' --constraint constraints.txt
	@touch $@

ablation: $(VENV)/.base  ## pre- against post-norm, with and without warm-up, 3 seeds, on the CPU
	$(VENV)/bin/zoo run experiments/norm_placement.py:quick --jobs $(JOBS)

test: $(VENV)/.test  ## the default tests
	$(PYTEST)

test-ci: $(VENV)/.parity  ## comparisons with other libraries and slow tests that guard a promise (installs PyTorch)
	$(PYTEST) -m "(promise or parity) and not slow and not gpu"

test-all: test $(VENV)/.parity  ## every test except those that need an accelerator
	$(PYTEST) -m "(slow or promise or parity) and not gpu"

$(VENV5)/.ready: pyproject.toml constraints.txt .ci/constraints5
	$(PYTHON) -m venv $(VENV5)
	.ci/constraints5 > $(VENV5)/constraints.txt
	$(VENV5)/bin/python -m pip install --disable-pip-version-check --editable '.[test,transformers5]' --constraint $(VENV5)/constraints.txt
	@touch $@

test-transformers5: $(VENV5)/.ready  ## what transformers 5 writes is read as it is meant, and its own classes are compared, in an environment of its own (installs PyTorch)
	PYTHONDONTWRITEBYTECODE= $(VENV5)/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m transformers5 tests/transformers5

$(VENV_TPU)/.ready-$(AOT): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV_TPU)
	$(VENV_TPU)/bin/python -m pip install --disable-pip-version-check --editable '.[test,$(AOT)]' --constraint constraints.txt
	@touch $@

# With libtpu installed, a program that does not ask for CPUs would look for a TPU.
test-aot: $(VENV_TPU)/.ready-$(AOT)  ## programs compiled for TPUs by their own compiler, in an environment of its own (installs libtpu; needs no TPU); AOT=tpu,cuda for GPUs too
	JAX_PLATFORMS=cpu PYTHONDONTWRITEBYTECODE= $(VENV_TPU)/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m aot tests

test-faults: $(VENV)/.test  ## kills, signals, lost processes and full disks; KILLS=200 kills of a run at random moments
	ZOO_TEST_KILLS=$(KILLS) $(PYTEST) -m "faults and not gpu" -o timeout=7200

$(VENV)/.docs: $(VENV)/.base
	$(RUN) -m pip install --disable-pip-version-check --editable '.[docs]' --constraint constraints.txt
	@touch $@

# --quiet would hide the warnings from --strict.
docs: $(VENV)/.docs  ## the documentation as a site, in site/; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

lint: $(VENV)/.test  ## ruff, hadolint, and docstrings, pages and records against what they describe
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/hadolint Dockerfile
	$(RUN) -m tests.lint

clean:
	rm -rf $(VENV) $(VENV5) $(VENV_TPU) build *.egg-info
