# Each target does one thing; `make help` lists them. Continuous integration calls these and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
PROTO_VENV := .venv-proto
PROTO_STAMP := $(PROTO_VENV)/.setup-stamp

# What is installed in editable mode, in the order in which one needs another.
DISTRIBUTIONS := clients/python devcluster .
PROJECTS := clients/python/pyproject.toml devcluster/pyproject.toml pyproject.toml

# pip reads nothing from the user's own configuration or package folders: the locks alone decide what is installed.
PIP := PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --quiet
PROTO_PIP := PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 $(PROTO_VENV)/bin/python -m pip --quiet

# The newest Python that the project supports; name another one with `make setup PYTHON=...`.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)

# How many faults `make chaos` makes; SEED=... draws the same ones again.
FAULTS ?= 1000
# How many examples each fuzzer of `make fuzz` tries, how long `make soak` takes, and where it draws its plot.
EXAMPLES ?= 5000
SECONDS ?= 3600
PLOT ?= docs/images/soak.svg

.PHONY: help setup demo run test chaos fuzz soak lint types proto bench controlplane lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything locked by hash, and the project in editable mode

$(STAMP): requirements/dev.lock $(PROJECTS)
	@if [ -z "$(PYTHON)" ]; then \
		echo "watchcache needs Python 3.11 or later, and none was found on PATH. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ]; then \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
			echo "$(PYTHON) is older than Python 3.11. Name a newer one: make setup PYTHON=/path/to/python3" >&2; exit 1; }; \
		echo "creating $(VENV) with $$($(PYTHON) --version)"; \
		$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
			echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; fi
	@echo "installing what requirements/dev.lock names"
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --no-index $(foreach d,$(DISTRIBUTIONS),-e $(d))
	@touch $@

demo: setup ## start a dev cluster, the service and a client, and show a first snapshot and live changes
	@$(BIN)/python -m tools.demo

run: setup ## serve against the clusters of the current kubeconfig
	@$(BIN)/watchcache-server serve

test: setup ## run every test and check the coverage of each file; ARGS=... is passed to pytest
	$(BIN)/python -m pytest -n 2 --dist loadfile -ra --cov --cov-report= -p tools.coverage_bounds $(ARGS)

chaos: setup controlplane ## let FAULTS=1000 faults rage over a real control plane and its writers; SEED=... repeats a run
	@$(BIN)/python -m tests.chaos.storm --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) $(ARGS)

fuzz: setup ## send EXAMPLES=5000 odd messages, files and streams to each reader of such
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz -n 2 -ra $(ARGS)

soak: setup controlplane ## put a mixed load of days within SECONDS=3600 on the service; writes docs/images/soak.svg
	@$(BIN)/python -m tests.chaos.soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --plot $(PLOT) $(ARGS)

lint: setup $(PROTO_STAMP) ## check style, imports, the contract, generated code and locks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/buf lint
	$(BIN)/buf format -d --exit-code
	$(BIN)/python -m tools.contract_check
	$(BIN)/python -m tools.lock_check

types: setup ## check types
	$(BIN)/mypy

proto: $(PROTO_STAMP) ## generate the Python code of the contract
	@$(PROTO_VENV)/bin/python tools/generate.py

$(PROTO_STAMP): requirements/proto.lock | $(STAMP)
	@[ -x $(PROTO_VENV)/bin/python ] || $(BIN)/python -m venv $(PROTO_VENV)
	@$(PROTO_PIP) install --require-hashes -r requirements/proto.lock
	@touch $@

bench: setup controlplane ## measure against a real API server; writes bench/results.json
	@$(BIN)/python -m bench

controlplane: setup ## build etcd, kube-apiserver and kubectl for the tests, once
	@$(BIN)/python -m tests.controlplane.build

lock: setup ## write requirements/*.lock anew from the pyproject files; UPGRADE=--upgrade takes newer versions
	@$(BIN)/python -m tools.lock $(UPGRADE)

clean: ## remove what the other targets made in this folder
	rm -rf $(VENV) $(PROTO_VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* .demo
