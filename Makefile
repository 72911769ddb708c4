# Everything a developer needs, on a machine with Python 3.11 or newer and make. `make` lists it.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The interpreter of a new environment; without it the first one that is new enough.
PYTHON ?=
PYTHONS = $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)

.NOTPARALLEL:
.PHONY: help demo test test-unit test-cluster test-node test-node-needs lint generated format crds bench image kind-up deploy undeploy kind-down cluster-up cluster-down lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Take a PodCliqueSet to nine running pods, on a Kubernetes of this machine
	@$(BIN)/grove demo

test: lint test-unit test-cluster ## Run all checks and tests; the first time this builds Kubernetes

test-unit: $(READY) ## Run the tests that need no cluster
	@echo "==> unit tests"
	@$(BIN)/python -m pytest tests/unit

test-cluster: $(READY) ## Run the tests against a real Kubernetes of this machine
	@echo "==> cluster tests"
	@$(BIN)/python -m pytest tests/cluster

test-node: $(READY) ## Run the tests that need real containers (Linux, root, Debian's containerd)
	@echo "==> tests with real containers"
	@$(BIN)/python -m pytest tests/node

test-node-needs: $(READY) ## Say what these tests lack on this machine
	@$(BIN)/python -m tests.node

lint: $(READY) ## Check style, types, the floors of the house, and that generated files are up to date
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy
	@echo "==> import-linter"
	@$(BIN)/lint-imports --no-logo
	@echo "==> generated files"
	@$(MAKE) --no-print-directory generated

generated: $(READY)
	@$(BIN)/grove crds --check
	@$(BIN)/grove rules --check -o docs/admission-rules.md
	@$(BIN)/grove reference --check -o docs/api-reference.md

format: $(READY) ## Format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

crds: $(READY) ## Write crds/ and the reference pages in docs/ from the code
	@$(BIN)/grove crds
	@$(BIN)/grove rules -o docs/admission-rules.md
	@$(BIN)/grove reference -o docs/api-reference.md

bench: $(READY) ## Measure speed, CPU, memory and API writes
	@$(BIN)/python -m tests.bench

image: $(READY) ## Make the operator's image, build/grove-image.tar (IMAGE=name of the image)
	@$(BIN)/grove image -o build/grove-image.tar $(if $(IMAGE),--name $(IMAGE))

kind-up: $(READY) ## Make a kind cluster with fake GPUs and KAI (KAI=off: without), needs a container engine
	@$(BIN)/grove kind up $(if $(filter off,$(KAI)),--no-kai)

deploy: $(READY) ## Run the operator in it, from its image and its chart
	@$(BIN)/grove kind deploy

undeploy: $(READY) ## Uninstall the operator from it
	@$(BIN)/grove kind undeploy

kind-down: $(READY) ## Delete the kind cluster
	@$(BIN)/grove kind down

cluster-up: $(READY) ## Start the Kubernetes of this machine
	@$(BIN)/grove cluster up

cluster-down: $(READY) ## Stop it, and the operator that `make demo` started; nothing is left
	@$(BIN)/grove cluster down

# Versions that the lock has stay, as far as pyproject.toml allows; with UPGRADE=1 the newest are taken.
lock: $(READY) ## Write requirements.lock from pyproject.toml (UPGRADE=1: with the newest versions)
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--quiet --output-file requirements.lock

clean: ## Remove the environment and everything that tools have left
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that exists and works is kept, and brought to the lock.
$(READY): requirements.lock pyproject.toml
	@if ! $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		for python in $(PYTHONS); do \
			if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
				echo "==> new environment $(VENV) with $$("$$python" --version)"; \
				"$$python" -m venv --clear $(VENV) && exit 0; \
				echo "make: $$python cannot make an environment, see above; on Debian and Ubuntu the package" \
					"python3-venv is missing" >&2; \
				exit 1; \
			fi; \
		done; \
		echo "make: no Python 3.11 or newer among: $(PYTHONS)." \
			"Install one, or name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi
	@echo "==> installing what requirements.lock pins into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
