# What contributors run; `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Where Java 17 or newer is missing, the extra `java` brings one. The same order as runtime/spark/java.py.
EXTRAS = $(shell \
  for java in "$${JAVA_HOME:-/none}/bin/java" java; do \
    version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
    if [ "$${version:-0}" -ge 17 ]; then echo dev; exit; fi; \
  done; \
  echo dev,java)

SHORT_LIVED := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
CLASSES := $(CURDIR)/build/spark-classes.jsa

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast check bench docs figures test-size test-deep test-faults soak clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(STAMP) ## create .venv with everything installed (PYTHON=python3.12 to choose another)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Anabranch needs Python 3.10 or newer, and '$(PYTHON)' is not."; \
	  echo "Install one, or name another: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments: ensurepip or venv is missing."; \
	  echo "On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $(STAMP)

demo: setup ## the main job from end to end on Spark, with a check of its own result
	@$(BIN)/anabranch demo

# A Spark per process, and the tests of a file in one process. Most of these Sparks live too short
# for what a JVM compiles thoroughly; and many short processes import the same modules.
test: export ANABRANCH_HYPOTHESIS ?= ci
test: export SPARK_SUBMIT_OPTS ?= $(SHORT_LIVED)
test: export PYTHONDONTWRITEBYTECODE =
test: setup $(CLASSES) ## all tests but those marked faults, size, deep or slow
	$(BIN)/pytest -q -m 'not spark and not faults and not slow and not deep and not size' -n 2
	SPARK_SUBMIT_OPTS="$$SPARK_SUBMIT_OPTS $$(test -s $(CLASSES) && echo -XX:SharedArchiveFile=$(CLASSES))" \
	$(BIN)/pytest -q -m 'spark and not faults and not slow and not size' -n 2 \
	  --dist loadfile --no-loadscope-reorder --durations=15

test-fast: export ANABRANCH_HYPOTHESIS ?= fast
test-fast: setup ## the tests without Spark with few examples, for the inner loop; below 3 minutes
	$(BIN)/pytest -q -n 2 --ignore tests/e2e --ignore tests/bench --ignore tests/size \
	  -m 'not spark and not faults and not slow and not deep and not size and not commands'

# What Spark loads at every start is loaded once and kept: a start takes three quarters of the time.
# It is kept for one class path, which begins with the home that sessions get.
$(CLASSES): $(STAMP) src/anabranch/runtime/spark/spark_home.py
	@mkdir -p $(@D)
	@SPARK_SUBMIT_OPTS="$(SHORT_LIVED) -XX:ArchiveClassesAtExit=$@" \
	  $(BIN)/python -m tests.spark_classes > $(@D)/spark-classes.log 2>&1 || true
	@touch $@

check: setup ## formatting, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## benchmarks in their quick form; NAME=tumbling runs that one in full
	@for name in $(or $(NAME),$$($(BIN)/anabranch bench | cut -d " " -f 1)); do \
	  $(BIN)/anabranch bench $$name $(if $(NAME),,--quick) --json || exit 1; \
	done

# These write a page and drawings as well: table and pages are of one run.
PAGES := nexmark peers migration revisions merge pipes

figures: setup ## every benchmark in full, hours on a quiet machine; writes docs/benchmarks
	@mkdir -p build/figures
	@for name in $$($(BIN)/anabranch bench | cut -d " " -f 1); do \
	  case " $(PAGES) " in *" $$name "*) plots="--plots docs/benchmarks/$$name" ;; *) plots= ;; esac; \
	  echo $$name; $(BIN)/anabranch bench $$name --json $$plots > build/figures/$$name.json || exit 1; \
	done
	@$(BIN)/python -m anabranch.bench.figures build/figures $$(git rev-parse --short HEAD) \
	  > docs/benchmarks/figures.md

docs: setup ## the documentation as HTML in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

test-size: setup ## queries over millions of rows on Spark against an independent evaluator
	$(BIN)/pytest -q -m size tests/size

test-deep: export ANABRANCH_HYPOTHESIS ?= nightly
test-deep: setup ## all tests with many examples, 100,000 per operator, the slow ones too; hours
	ANABRANCH_HYPOTHESIS=ci NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/build/numba-with-bounds \
	$(BIN)/pytest -q -m 'not deep and not slow' -n 2 tests/kernels
	$(BIN)/pytest -q -m 'not spark and not faults and not size' -n 2
	$(BIN)/pytest -q -m 'spark and not faults and not size'

test-faults: setup ## an hour of kills, full disks, damaged files; MINUTES=5 FAULTS=9 for less
	$(BIN)/pytest -q -m 'faults and not slow'
	$(BIN)/python -m tests.faults.campaign --minutes $(or $(MINUTES),30)
	$(BIN)/python -m tests.faults.campaign --minutes $(or $(MINUTES),30) --cluster
	$(BIN)/python -m tests.faults.availability --faults $(or $(FAULTS),50)

soak: setup ## only the slow tests: long runs with flat memory and disk
	$(BIN)/pytest -q -m slow

clean: ## remove what the other targets wrote, except .venv
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
