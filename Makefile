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

.PHONY: demo test test-all browser lint docs notebook coverage wheel bench bench-quick faults federation-faults attack clean

demo: $(VENV)/partita
	$(BIN)/partita demo

test: $(VENV)/test browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal

# Everything that takes longer: repetitions, thousands of random networks, every network as a graph, other instructions
# of the processor, and the faults.
test-all: test
	$(BIN)/pytest -n auto -m slow
	PARTITA_RAY=1 $(BIN)/pytest tests/experiment/test_ray.py
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

# The documentation, with warnings as errors: site/index.html. It loads nothing from elsewhere.
docs: $(VENV)/test
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo "Read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

# Runs the notebook of the examples and keeps its outputs.
notebook: $(VENV)/test
	$(PIP) nbclient ipykernel
	PYTHONPATH=. $(BIN)/python -m manual.notebook

# Which lines and branches of src do the tests reach? Takes several times as long as `make test`.
coverage: $(VENV)/test
	$(PIP) coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort cover

# Builds the wheel and tries it without the tree, with every supported Python that is found.
PYTHONS ?= $(foreach minor,10 11 12 13,$(shell command -v python3.$(minor)))
wheel: $(VENV)/test
	PYTHONPATH=. $(BIN)/python -m manual.wheel $(PYTHONS)

bench: $(VENV)/partita
	$(BIN)/python -m benchmarks --output benchmarks/history/last.json

# Ratios to the floors at small size; tells a ratio that is worse than the last that was kept by more than 15 %.
bench-quick: $(VENV)/partita
	$(BIN)/python -m benchmarks --quick --repeat 2 --output benchmarks/history/quick/last.json

# Puts known faults into copies of the engine, one at a time; each must be caught by a test.
faults: $(VENV)/test
	$(BIN)/python tests/laws/faults.py

# Kills runs, damages and fills disks, and reads hostile files; counts what held. Some twenty minutes on one core.
attack: $(VENV)/test
	$(BIN)/python -m attacks --output attacks/results
	$(BIN)/python -m attacks.long --output attacks/results/long.json

# Kills, lies, full disks and lost states in a federation; the counts are kept in attacks/results.
federation-faults: $(VENV)/test
	$(BIN)/python -m attacks node_kills server_kills lies node_room node_truncation approvals clocks superlink \
		--output attacks/results/federation.json

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
