# The commands of this repository. `make help` lists them.
#
# A fresh Debian or Ubuntu machine needs only Python 3.11+ and make: every target installs what it uses into
# $(VENV), once, and again only after pyproject.toml has changed.

PYTHON ?= python3
VENV ?= .venv
DEMO_DIR ?= build/demo
WORKERS ?= 2
BENCH ?= bench

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# The tests start a hundred processes of one thread each, which must not compile all code anew.
TESTS := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
APT := env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=20

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check format scorecard wheel clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/dev.stamp ## install everything that the tests and checks need into .venv

demo: $(VENV)/base.stamp $(VENV)/poppler.stamp ## parse the examples and show their Markdown
	@$(BIN)/docvision parse examples/*.pdf examples/*.png --out $(DEMO_DIR) --format md,html,json; code=$$?; \
	for name in two-columns scanned-letter; do \
	  printf '\n%s.md\n\n' $(DEMO_DIR)/$$name; cat $(DEMO_DIR)/$$name.md; \
	done; exit $$code

test: $(VENV)/dev.stamp $(VENV)/poppler.stamp ## run the tests, without the slow ones (minutes)
	@$(TESTS) -m "not slow" --ignore tests/slow -n $(WORKERS) --dist worksteal

test-slow: $(VENV)/dev.stamp $(VENV)/poppler.stamp ## run the slow tests only
	@$(TESTS) -m slow

check: $(VENV)/dev.stamp ## formatting, lint, types, structure and README
	@$(BIN)/ruff format --check --quiet . || { echo "formatting differs: run make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m pytest tests/test_structure.py tests/test_readme.py tests/test_recipes.py

format: $(VENV)/dev.stamp ## format the code and apply the safe lint fixes
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

scorecard: $(VENV)/peers.stamp $(VENV)/poppler.stamp ## measure docvision beside its peers on BENCH=folder (hours the first time)
	@OMP_NUM_THREADS=1 $(BIN)/docvision bench scorecard --bench $(BENCH) --json build/scorecard.json --markdown docs/scorecard.md

wheel: $(VENV)/base.stamp ## build the wheel into dist/
	@rm -rf build/lib build/bdist.* && $(BIN)/python -m pip wheel -qq --no-deps --wheel-dir dist . && ls dist/*.whl

clean: ## remove what the other targets made, .venv included
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "docvision needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "this Python cannot make virtual environments; run: sudo apt-get install -y python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/base.stamp: pyproject.toml | $(BIN)/python
	@echo "installing docvision into $(VENV) (PyTorch is large, the first time takes minutes)"
	@$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@echo "installing the test and training dependencies into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/peers.stamp: $(VENV)/base.stamp
	@echo "installing the peers into $(VENV); Tesseract is not among them: apt-get install tesseract-ocr"
	@$(PIP) -e '.[peers]'
	@touch $@

# Poppler is the faster rasteriser, not a necessity, so a machine that refuses it is no error.
$(VENV)/poppler.stamp: | $(BIN)/python
	@if ! command -v pdftoppm >/dev/null && command -v apt-get >/dev/null; then \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi; \
	  install="$$sudo $(APT) install -y --no-install-recommends poppler-utils"; \
	  { $$install || { $$sudo $(APT) update && $$install; }; } </dev/null >/dev/null 2>&1; \
	fi; \
	command -v pdftoppm >/dev/null || echo "poppler-utils is not installed: pypdfium2 draws the pages instead"
	@touch $@
