# `make demo` and `make test` do all the set-up they need on a machine with Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo chaos test test-fast lint format nightly mutants bench bench-runtime bench-overlays bench-pipeline compile fuzz clean help

help:
	@echo "make demo      a real cluster: nodes die, come back, and Spark judges what was delivered"
	@echo "make test      everything the tests need, then the whole test suite"
	@echo "make test-fast the tests that take a minute"
	@echo "make lint      types, style, import contracts"
	@echo "make nightly   50,000 schedules per causal protocol"
	@echo "make mutants   catch every planted bug again, and write docs/mutants.md"
	@echo "make chaos KILLS=200  kill, stop and cut off real nodes of three protocols; judge them"
	@echo "make fuzz      whatever others may send, guided by coverage (FUZZ_SECONDS per target)"
	@echo "make bench     the simulator's speed beside a plain loop"
	@echo "make bench-runtime  messages between real nodes beside Zenoh, NATS and a bare mesh"
	@echo "make bench-overlays  redundancy and latency of broadcast on overlays that change"
	@echo "make bench-pipeline  the check on Spark beside its floor on the same files"
	@echo "make compile   the simulator and the protocols as C, into build/compiled"

demo: $(VENV)/.demo
	$(BIN)/causalcast demo

# Tests run side by side, and who has nothing to do takes some of what the other has left; so those
# that take long come first. Simulations take all of a core. Real nodes and commands wait for one
# another, so they come apart: beside a simulation they would wait longer.
SIMULATED = tests/simulation tests/conformance tests/papers tests/mutants tests/fuzz tests/unit \
	tests/transcripts tests/tidy
REAL = tests/spark tests/docs tests/integration tests/cli

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal $(SIMULATED)
	$(BIN)/python -m pytest -n auto --dist worksteal $(REAL)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not spark" -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

NIGHTLY_SEEDS ?= 50000
CAUSAL = from causalcast.registry import *; print(*(p for p in protocol_names() if "causal_order" in find_protocol(p).guarantees))

nightly: $(VENV)/.demo
	@set -e; for protocol in $$($(BIN)/python -c '$(CAUSAL)'); do \
		$(BIN)/causalcast swarm --protocol $$protocol --seeds 0..$(NIGHTLY_SEEDS); \
	done

KILLS ?= 20

chaos: $(VENV)/.demo
	@set -e; for protocol in locamu cptcast cbcast; do \
		$(BIN)/causalcast chaos --protocol $$protocol --kills $(KILLS); \
	done

mutants: $(VENV)/.demo
	$(BIN)/python tests/mutants/mutant_table.py

FUZZ_SECONDS ?= 30

fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/fuzz.py --all --seconds $(FUZZ_SECONDS) --corpus build/fuzz

bench: compile
	$(BIN)/python benchmarks/run.py

bench-runtime: compile $(VENV)/.bench
	$(BIN)/python benchmarks/runtime.py

bench-overlays: compile
	$(BIN)/python benchmarks/overlays.py
	$(BIN)/python benchmarks/overlay_churn.py

bench-pipeline: $(VENV)/.dev
	$(BIN)/python benchmarks/verify.py

compile: build/compiled/.made

build/compiled/.made: $(VENV)/.dev setup.py $(shell find src -name '*.py')
	@command -v $${CC:-cc} >/dev/null || \
		{ echo "make compile needs a C compiler; install one (on Debian: apt install gcc) or set CC"; exit 2; }
	CAUSALCAST_COMPILE=1 $(BIN)/python setup.py --quiet build --build-base build/mypyc --build-lib build/compiled
	@touch $@
	@echo "compiled; use it with PYTHONPATH=build/compiled"

clean:
	rm -rf $(VENV) build dist demo-run

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "causalcast needs Python 3.11 or later; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spark,plots]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spark,connect,plots,dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench,fast]'
	@touch $@
