# A bare machine needs python3 (3.11 or newer), pip and make. Everything else goes into $(VENV).
#   make verify ARGS='--manager retry_on_promotion'     make test ARGS='-k tour'

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

# The constraints are the tested versions; a user of the package is not bound by them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help verify test coverage coverage-reached core-mutants lint format spec docs clean
.DELETE_ON_ERROR:

help:
	@echo 'make verify    prove the table, tour and fuzz the manager (base and kit only, no torch)'
	@echo 'make test      every test (installs everything, with the pinned torch)'
	@echo 'make coverage  the same, with branch coverage and what it must reach'
	@echo 'make core-mutants  break the core by cosmic-ray; survivors are listed'
	@echo 'make lint      ruff, mypy --strict, import-linter'
	@echo 'make format    let ruff rewrite what it can'
	@echo 'make spec      regenerate the pages under docs/'
	@echo 'make docs      build the site from README, ARCHITECTURE and docs/ into site/'
	@echo 'make clean     remove the environment and everything built'

verify: $(VENV)/.stamp-kit
	$(BIN)/tierproof verify $(ARGS)

test: $(VENV)/.stamp-all
	$(BIN)/python -m pytest $(ARGS)

# The core: the modules that decide answers, phases, slots and pins (ARCHITECTURE.md names them).
CORE := manager lookups claims primary blocks requests stores transfers cascades secondary jobs \
	step external plans undecided arguments closing usage
empty :=
comma := ,
space := $(empty) $(empty)
CORE_FILES := $(subst $(space),$(comma),$(CORE:%=impl/%.py))

coverage: $(VENV)/.stamp-all
	$(BIN)/python -m pytest --cov --cov-report= $(ARGS)
	$(MAKE) coverage-reached

coverage-reached:
	$(BIN)/coverage report --include='model/*' --fail-under=100
	$(BIN)/coverage report --include='$(CORE_FILES)' --fail-under=100
	$(BIN)/coverage report --include='impl/*' --fail-under=95

# Goes on where it was interrupted. ARGS='claims jobs' names modules.
core-mutants: $(VENV)/.stamp-mutation
	$(BIN)/python -m tests.mutants.core.measure $(ARGS)

lint: $(VENV)/.stamp-all
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.stamp-all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

spec: $(VENV)/.stamp-kit
	$(BIN)/tierproof spec $(ARGS)

# The site's pages are the repository's own: README becomes the index, and links between the root
# and docs/ are shortened because the site has one folder.
PAGES := build/pages
docs: $(VENV)/.stamp-docs
	rm -rf $(PAGES) && mkdir -p $(PAGES)
	if [ -d docs ]; then cp -R docs/. $(PAGES)/; fi
	cp README.md $(PAGES)/index.md
	for page in ARCHITECTURE CONTRIBUTING CHANGELOG; do \
	    if [ -f $$page.md ]; then cp $$page.md $(PAGES)/; fi; done
	sed -i -e 's#](docs/#](#g' -e 's#](\.\./#](#g' -e 's#](README\.md#](index.md#g' $(PAGES)/*.md
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .coverage .hypothesis .mypy_cache \
	    .pytest_cache .ruff_cache .import_linter_cache

# A stamp says what is installed, so that the second run of a target starts at once.
$(VENV)/.stamp-kit: $(BIN)/python $(INPUTS)
	@echo 'installing tierproof and its kit into $(VENV) ...'
	$(PIP_INSTALL) -e '.[kit]'
	@touch $@

$(VENV)/.stamp-mutation: $(BIN)/python $(INPUTS)
	@echo 'installing tierproof, its kit and cosmic-ray into $(VENV) ...'
	$(PIP_INSTALL) -e '.[kit,mutation]'
	@touch $@ $(VENV)/.stamp-kit

$(VENV)/.stamp-docs: $(BIN)/python $(INPUTS)
	@echo 'installing the site builder into $(VENV) ...'
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.stamp-all: $(BIN)/python $(INPUTS)
	@echo 'installing everything the tests need into $(VENV), torch too: some minutes ...'
	$(PIP_INSTALL) -e '.[all,dev,docs]'
	@touch $@ $(VENV)/.stamp-kit $(VENV)/.stamp-docs

# Some distributions ship python3 without ensurepip; the system's pip then fills the environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "TierProof needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." \
	         "Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV) && \
	    $(PYTHON) -m venv --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
