# `make demo` and `make test` do all the set-up they need on a machine with Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo chaos test test-slow test-all test-fast test-browser lint format check-wheels changelog nightly mutants \
	rediscover bench buses \
	bench-runtime bench-overlays bench-pipeline compile wheel wheels fuzz fuzz-member docs clean help

help:
	@echo "make demo      a real cluster: nodes die, come back, and Spark judges what was delivered"
	@echo "make test      everything the tests need, then tests of every kind (minutes)"
	@echo "make test-slow the rest: long campaigns, every planted bug, fuzzing, compiled code too"
	@echo "               (SHARE=1/2: one half of it)"
	@echo "make test-all  both"
	@echo "make test-fast the tests that take a minute"
	@echo "make test-browser  the pages in Chromium, which the system's packages have"
	@echo "make lint      types, style, import contracts"
	@echo "make check-wheels  nothing that these targets install needs a compiler, on any machine"
	@echo "make docs      the documentation as a site, into build/site (PYODIDE=FILE: with the lab)"
	@echo "make nightly   50,000 schedules per causal protocol"
	@echo "make mutants   catch every planted bug again, and write docs/mutants.md"
	@echo "make rediscover  look for our own past bugs, and write docs/rediscovered.md (hours)"
	@echo "make chaos KILLS=200  kill, stop and cut off real nodes of three protocols; judge them"
	@echo "make fuzz-member   a member that attacks, at every protocol (FUZZ_SECONDS in all)"
	@echo "make fuzz      whatever others may send, guided by coverage (FUZZ_SECONDS per target)"
	@echo "make bench     what simulator and nodes cost, beside what was kept last"
	@echo "make bench-runtime  messages between real nodes beside Zenoh, NATS and a bare mesh"
	@echo "make bench-overlays  redundancy and latency of broadcast on overlays that change"
	@echo "make bench-pipeline  the check on Spark beside its floor on the same files"
	@echo "make buses     run every message bus, and write docs/buses.md (half an hour)"
	@echo "make wheel     the package for pip, compiled where there is a C compiler, into dist"
	@echo "make wheels    the same for every Python 3.11 to 3.14 on the path, and the sdist"
	@echo "make compile   that wheel, unpacked into build/compiled"
	@echo "make changelog the news fragments become a section of CHANGELOG.md (at a release)"

demo: $(VENV)/.demo
	$(BIN)/causalcast demo

# Tests run side by side, and who has nothing to do takes some of what the other has left; so those
# that take long come first. Simulations take all of a core. Real nodes and commands wait for one
# another, so they come apart: beside a simulation they would wait longer.
SIMULATED = tests/simulation tests/conformance tests/papers tests/mutants tests/fuzz tests/unit \
	tests/transcripts tests/tidy tests/nodeworld tests/rediscover
REAL = tests/spark tests/docs tests/integration tests/cli

PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal --durations 15

test: $(VENV)/.dev
	$(PYTEST) -m "not slow" $(SIMULATED)
	$(PYTEST) -m "not slow" $(REAL)

test-slow: $(VENV)/.fuzz-where-there-is-a-wheel
	$(PYTEST) -m slow $(if $(SHARE),--share $(SHARE)) $(SIMULATED)
	$(PYTEST) -m slow $(if $(SHARE),--share $(SHARE)) $(REAL)

test-all: test test-slow

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not spark" -n auto

# Where there is no Chromium these tests are skipped, and say so. Pyodide lets protocols run inside
# a page; npm fetches its archive once.
PYODIDE_VERSION := 314.0.7
PYODIDE_ARCHIVE := build/pyodide-$(PYODIDE_VERSION).tgz

test-browser: $(VENV)/.browser $(PYODIDE_ARCHIVE)
	CAUSALCAST_PYODIDE="$$(ls $(abspath $(PYODIDE_ARCHIVE)) 2>/dev/null)" $(PYTEST) tests/browser

$(PYODIDE_ARCHIVE):
	@mkdir -p build
	@npm pack --silent --pack-destination build pyodide@$(PYODIDE_VERSION) >/dev/null 2>&1 || \
		echo "npm could not fetch Pyodide: tests that run Python inside a page will be skipped"

docs: $(VENV)/.dev
	$(BIN)/python scripts/docs_site.py $(if $(PYODIDE),--pyodide $(PYODIDE))

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

MOST_SEEDS ?= 20000

rediscover: $(VENV)/.demo
	$(BIN)/python tests/rediscover/rediscover.py --write --most-seeds $(MOST_SEEDS)

FUZZ_SECONDS ?= 30

fuzz: $(VENV)/.fuzz
	$(BIN)/python tests/fuzz/fuzz.py --all --seconds $(FUZZ_SECONDS) --corpus build/fuzz

fuzz-member: $(VENV)/.dev
	PYTHONPATH=tests/integration $(BIN)/python tests/fuzz/fuzz_members.py --seconds $(FUZZ_SECONDS)

bench: compile
	$(BIN)/python benchmarks/table.py

bench-runtime: compile $(VENV)/.bench
	$(BIN)/python benchmarks/runtime.py

bench-overlays: compile
	$(BIN)/python benchmarks/overlays.py
	$(BIN)/python benchmarks/overlay_churn.py

bench-pipeline: $(VENV)/.dev
	$(BIN)/python benchmarks/verify.py

# Nodes are compiled here, as pip installs them. Servers come from the system's packages.
buses: compile $(VENV)/.bench
	rm -rf build/buses
	PYTHONPATH=build/compiled $(BIN)/causalcast buses --out build/buses --seconds 4
	PYTHONPATH=build/compiled $(BIN)/python scripts/buses_page.py build/buses

wheel: $(VENV)/.made
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls -s --block-size=1K dist

wheels: $(VENV)/.dev
	@set -e; for version in 3.11 3.12 3.13 3.14; do \
		if python$$version -m pip --version >/dev/null 2>&1; then \
			python$$version -m pip wheel --quiet --no-deps --wheel-dir dist .; \
		else echo "python$$version with pip is not on the path: no wheel for it"; fi; \
	done
	$(BIN)/python -c 'import build_backend; build_backend.build_sdist("dist")' >/dev/null
	@ls -s --block-size=1K dist

compile: build/compiled/.made

build/compiled/.made: $(VENV)/.made setup.py build_backend.py $(shell find src -name '*.py')
	@command -v $${CC:-cc} >/dev/null || \
		{ echo "make compile needs a C compiler; install one (on Debian: apt install gcc) or set CC"; exit 2; }
	@rm -rf build/wheel build/compiled
	CAUSALCAST_COMPILE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(BIN)/python -m zipfile -e build/wheel/causalcast-*.whl build/compiled
	@touch $@
	@echo "compiled; use it with PYTHONPATH=build/compiled"

check-wheels: $(VENV)/.made
	$(BIN)/python scripts/check_wheels.py

changelog: $(VENV)/.made
	$(BIN)/python scripts/changelog.py

clean:
	rm -rf $(VENV) build dist demo-run

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "causalcast needs Python 3.11 or later; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spark]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[connect,dev]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[fuzz]' || \
		{ echo "make fuzz needs atheris, which has no wheel here: install clang, so that pip can build it"; exit 2; }
	@touch $@

$(VENV)/.fuzz-where-there-is-a-wheel: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet -c constraints.txt --only-binary atheris -e '.[fuzz]' || \
		echo "atheris has no wheel here: two tests that fuzz by coverage will be skipped"
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[browser]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench,fast]'
	@touch $@
