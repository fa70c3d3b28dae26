# `make demo` and `make test` need Python 3.10 or newer and make; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiling every file of large packages takes longer than compiling those that are used.
PIP := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

# For the tests of reports: Debian's browser, installed where it is missing and the user may.
ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)
APT := $(ROOT) env DEBIAN_FRONTEND=noninteractive apt-get -qq

# What is imported once is compiled once, whatever the environment says: many tests start processes of their own.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-all browser lint bench faults attack clean

demo: $(VENV)/partita
	$(BIN)/partita demo

test: $(VENV)/test browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal

# Everything that takes longer: repetitions, thousands of random networks, every network as a graph, other instructions
# of the processor, and the faults.
test-all: test
	$(BIN)/pytest -n auto -m slow
	PARTITA_RAY_TOKEN=1 $(BIN)/pytest tests/simulation/test_ray.py
	PARTITA_RANDOM_NETWORKS=5000 $(BIN)/pytest tests/engine/test_random_networks.py
	PARTITA_ALL_GRAPHS=1 $(BIN)/pytest tests/serving/test_graphs.py tests/serving/test_together.py
	for capability in default avx2; do ATEN_CPU_CAPABILITY=$$capability $(BIN)/pytest -n auto || exit 1; done
	$(MAKE) faults

browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
		|| { $(APT) update && $(APT) install --yes --no-install-recommends chromium; } >/dev/null 2>&1 \
		|| echo "Chromium is missing and cannot be installed: tests in a browser will be skipped."

lint: $(VENV)/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

bench: $(VENV)/partita
	$(BIN)/python -m benchmarks --output benchmarks/history/last.json

# Puts known faults into copies of the engine, one at a time; each must be caught by a test.
faults: $(VENV)/test
	$(BIN)/python tests/laws/faults.py

# Kills runs, damages and fills disks, and reads hostile files; counts what held. Some twenty minutes on one core.
attack: $(VENV)/test
	$(BIN)/python -m attacks --output attacks/results
	$(BIN)/python -m attacks.long --output attacks/results/long.json

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/partita: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[serve]'
	touch $@

$(VENV)/test: $(VENV)/partita requirements-test.txt
	$(PIP) --requirement requirements-test.txt
	touch $@
