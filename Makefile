# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.
.PHONY: help setup test-setup demo test test-all lint bench clean
VENV := .venv
BIN := $(VENV)/bin
export OHFORGE_TEST_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ohforge-test

# Two files of tests at a time: much of them is waiting for boards, links and deadlines.
TWO := -n 2 --dist loadfile

help:
	@echo "make demo    build llama.cpp for ARM, run a small model on the emulated board, keep the record"
	@echo "make test    run all checks: lint, types, unit and integration tests"
	@echo "make test-all the same and the exhaustive tests (an hour more)"
	@echo "make setup   make the environment only (.venv, with the program .venv/bin/ohforge)"
	@echo "make test-setup the same and what tests need"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make bench   print ratios against named baselines (takes long, run by hand)"

setup:
	@sh scripts/setup.sh $(VENV)

test-setup:
	@sh scripts/setup.sh $(VENV) test

demo: setup
	@# It runs this project's own programs only: where the kernel forbids namespaces, proot will do.
	@OHFORGE_EMULATOR_SANDBOX=$${OHFORGE_EMULATOR_SANDBOX:-any} $(BIN)/invoke demo

test: test-setup lint
	@$(BIN)/python -m pytest $(TWO) -m "not exhaustive" tests/unit tests/contract tests/integration

test-all: test-setup lint
	@$(BIN)/python -m pytest $(TWO) tests/unit tests/contract tests/integration

lint: test-setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: test-setup
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

clean:
	rm -rf build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
