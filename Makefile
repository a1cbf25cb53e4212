# Everything one does with a checkout of Hermes. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
# Without compiled modules every process of the tests takes seconds longer to start.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip

# One stamp for each set of dependencies; `test` contains `all`.
INSTALLED := $(VENV)/.installed-$(if $(wildcard $(VENV)/.installed-test),test,all)
TESTABLE := $(VENV)/.installed-test

# Without the image Hermes still works: it takes another sandbox and says which.
IMAGE_IF_ENGINE = if $(BIN)/python -c 'import docker; docker.from_env(timeout=2).ping()' 2>/dev/null; \
  then $(BIN)/python docker/sandbox-image || true; fi
# In a terminal, one line that shows what is being done; else nothing.
ON_ONE_LINE = while IFS= read -r line; do if [ -t 1 ]; then printf '\r\033[K%.76s' "$$line"; fi; \
  done; if [ -t 1 ]; then printf '\r\033[K'; fi
LATEST_RELEASE := git describe --tags --abbrev=0 --match 'v*' 2>/dev/null

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED) ## create .venv and install Hermes into it

.PHONY: up
up: install ## start Hermes and open a chat; first makes the sandbox image where Docker runs, and asks for a model
	@$(IMAGE_IF_ENGINE)
	@$(BIN)/hermes setup --if-needed || true
	@exec $(BIN)/hermes up

.PHONY: sandbox-image
sandbox-image: install ## make the image in which commands run, if the Docker engine lacks it
	@$(BIN)/python docker/sandbox-image

.PHONY: browser-image
browser-image: install ## make the image of sandboxes with a browser
	@$(BIN)/python docker/browser-image

.PHONY: images
images: sandbox-image ## make the images of the four services, and of sandboxes; ARGS="agent" for one
	@$(BIN)/python docker/service-images $(ARGS)

.PHONY: compose-up
compose-up: install ## start the stack of docker/compose.yaml; ENGINE=socket names the sandboxes' engine
	@settings=$$($(BIN)/python docker/compose-prepare $(if $(ENGINE),--engine "$(ENGINE)")); \
	$(MAKE) images; \
	stack=(docker compose --env-file "$$settings" --file docker/compose.yaml); \
	"$${stack[@]}" up --detach && "$${stack[@]}" up --detach --wait agent executor gateway scheduler

# Without what measures a promised time, which needs the machine for itself.
TESTS := $(BIN)/pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

.PHONY: test
test: $(TESTABLE) ## run the tests in about ten minutes; ARGS="-k name" selects
	@$(IMAGE_IF_ENGINE)
	@$(TESTS) -m 'not slow and not alone' $(ARGS)

.PHONY: test-all
test-all: $(TESTABLE) ## run every test, also the long ones and those of rare parts
	@$(IMAGE_IF_ENGINE)
	@$(TESTS) -m 'not alone' $(ARGS)
	@$(BIN)/pytest -m alone $(ARGS)
	@$(MAKE) soak MINUTES=$(or $(MINUTES),10)

.PHONY: test-parts
test-parts: $(TESTABLE) ## install the rare parts that `make test-all` can use; needs root and Debian
	@tests/install-parts

.PHONY: check
check: $(TESTABLE) ## what every change must pass: lint, types, contracts, architecture and unit tests
	@$(MAKE) --jobs=2 --keep-going --output-sync=target check-types check-lint check-protos check-rules

.PHONY: check-lint
check-lint: $(TESTABLE)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

.PHONY: check-types
check-types: $(TESTABLE)
	@$(BIN)/pyright services *_service

.PHONY: check-test-types
check-test-types: $(TESTABLE) ## check the types of the tests as well
	@$(BIN)/pyright tests

.PHONY: check-protos
check-protos: $(TESTABLE)
	@$(BIN)/buf lint protos
	@if release=$$($(LATEST_RELEASE)); then \
	  $(BIN)/buf breaking protos --against ".git#tag=$$release,subdir=protos"; \
	else \
	  echo 'The contracts have no release yet that they could break.'; \
	fi

.PHONY: check-rules
check-rules: $(TESTABLE)
	@$(TESTS) --quiet --numprocesses=2 -m 'not slow' tests/architecture tests/unit

.PHONY: format
format: $(TESTABLE) ## format the code and apply the safe fixes
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

.PHONY: protos
protos: $(TESTABLE) ## generate protos/gen from the contracts
	@$(BIN)/python protos/generate

.PHONY: docs
docs: $(TESTABLE) ## draw the pictures, and write what the documentation has from the code
	@$(BIN)/python docs/pictures/generate
	@$(BIN)/python -m tests.unit.docs_reference
	@$(BIN)/python -m tests.unit.services.test_config_docs

.PHONY: bench
bench: $(TESTABLE) ## measure latency, throughput and memory; JSON=file writes the figures as well
	@$(BIN)/python -m tests.bench $(if $(JSON),--json "$(JSON)")

.PHONY: bench-scheduler
bench-scheduler: $(TESTABLE) ## measure the scheduler: 10,000 jobs in a minute, kills, 100,000 jobs stored; JSON=file as well
	@$(BIN)/python -m tests.bench.scheduler $(if $(JSON),--json "$(JSON)")

.PHONY: chart
chart: $(TESTABLE) ## check the Helm chart: schemas, security standards, network policies, settings
	@tests/helm/make-checkov
	@HERMES_REQUIRE=$${HERMES_REQUIRE:-checkov} $(BIN)/pytest --quiet tests/helm $(ARGS)

.PHONY: fuzz
fuzz: $(TESTABLE) ## give the command classes 100,000 inputs that nobody meant, and each platform half as many; INPUTS=n for as many, SEED=n for others
	@HERMES_FUZZ_INPUTS=$(or $(INPUTS),100000) HERMES_FUZZ_SEED=$(or $(SEED),1) HERMES_FUZZED=$(or $(INPUTS),50000) \
	  $(BIN)/pytest --quiet --numprocesses=auto tests/security/commands/test_fuzz.py \
	  tests/security/test_platform_updates.py

.PHONY: soak
soak: $(TESTABLE) ## a turn a second for a day: do memory and descriptors stay as they are? MINUTES=n for as many
	@$(IMAGE_IF_ENGINE)
	@$(BIN)/python -m tests.bench.soak $(if $(MINUTES),--minutes "$(MINUTES)") $(if $(JSON),--json "$(JSON)")

.PHONY: soak-attacks
soak-attacks: $(TESTABLE) ## attack the executor at full size, for hours; JUnit XML in build/soak-attacks.xml
	@$(IMAGE_IF_ENGINE)
	@HERMES_SCALE=$${HERMES_SCALE:-full} $(BIN)/python -m pytest --timeout=7200 --junit-xml=build/soak-attacks.xml tests/security \
	  tests/contract/test_backends.py tests/integration/test_executor_output.py \
	  tests/unit/executor/test_docker.py $(ARGS)

.PHONY: soak-chaos
soak-chaos: $(TESTABLE) ## kill, cut off and fill up at full size, for hours: a thousand kills, 200 rounds
	@HERMES_SCALE=$${HERMES_SCALE:-full} $(BIN)/pytest -n0 --verbose --timeout=7200 \
	  tests/chaos tests/integration/test_profiles_of_replicas.py $(ARGS)

.PHONY: clean
clean: ## remove caches and build output; .venv stays
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV)/.installed-%: pyproject.toml | $(PIP)
	@echo 'Installing Hermes into $(VENV); the first time takes a minute or two.'
	@$(PIP) install --disable-pip-version-check --editable '.[$*]' | { $(ON_ONE_LINE); }
	@touch $@

# pip is the last thing that venv makes, so an interrupted creation is taken up again.
$(PIP):
	@echo 'Creating $(VENV) …'
	@for python in python3.13 python3.12 python3.11 python3; do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then exec $$python -m venv --upgrade-deps $(VENV); fi; \
	done; \
	echo 'Hermes needs Python 3.11 or newer with venv; on Debian: apt install python3-venv' >&2; \
	exit 1
