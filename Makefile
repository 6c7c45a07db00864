# Each target installs its dependencies first. The machine needs Python 3.11 or newer with the venv module.
# `make run PYTHON=pypy3`, and likewise the other targets: PyPy has an environment of its own, beside CPython's.

PYTHON ?= python3
ON_PYPY := $(shell $(PYTHON) -c 'import sys; print("yes" if sys.implementation.name == "pypy" else "")' 2>/dev/null)
VENV ?= $(if $(ON_PYPY),.venv-pypy,.venv)
BIN := $(VENV)/bin
# On PyPy: what runs the tools, the report and the real clients.
CPYTHON ?= python3
ON_CPYTHON = $(MAKE) --no-print-directory PYTHON=$(CPYTHON) VENV=.venv
DATA_DIR ?= kafka-data
ACCESS_LOG ?= $(DATA_DIR)/access
REPORT ?= report.html
# Writes byte code even if the environment disables it: without byte code, each start compiles two hundred modules.
COMPILE = $(BIN)/python -m compileall -q twisted_kafka spark pytest_plugin twisted
PYTEST = TMPDIR=$(TEST_TMPDIR) PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q
# Caches the test modules with rewritten assertions, which takes 13 s of a processor.
CACHE_TESTS = find tests -name 'test_*.py' | xargs -P 2 -n 250 env $(PYTEST) -qq --collect-only >/dev/null || true
# Tests write and sync thousands of small files: in shared memory, if 4 GB are free there, they do not wait for a disk.
TEST_TMPDIR ?= $(shell test "$$(df --output=avail -m /dev/shm 2>/dev/null | tail -n 1)" -ge 4096 2>/dev/null && \
	echo /dev/shm || echo "$${TMPDIR:-/tmp}")
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint etc/pypy-constraints.txt

.PHONY: install run test-unit test test-again test-all test-subset test-served lint smoke docs dist mutants world bench report demo-report
.DEFAULT_GOAL := install

install: $(VENV)/.installed $(if $(ON_PYPY),,$(VENV)/.spark-installed)

$(BIN)/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer with venv is required; set it with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The checkout itself is put on the path (setup.py says how): changes take effect at once, and twistd finds twisted/plugins.
$(VENV)/.run-installed: pyproject.toml setup.py etc/pypy-constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	$(COMPILE)
	touch $@

# python-gssapi is built here, if there are the headers. The tests of Kerberos are skipped without it, and without a KDC. On Debian:
# apt-get install libkrb5-dev krb5-kdc krb5-admin-server krb5-user libsasl2-modules-gssapi-mit (the last one is for kcat)
KERBEROS := $(shell command -v krb5-config >/dev/null && echo ,kerberos)

$(VENV)/.installed: pyproject.toml setup.py spark/pyproject.toml pytest_plugin/pyproject.toml etc/pypy-constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test$(KERBEROS)]' --editable ./pytest_plugin
	$(INSTALL) --no-deps --editable ./spark
	$(COMPILE)
	$(CACHE_TESTS)
	touch $@

# To run a broker, the tests' packages are not required; an environment that has them will do.
RUN_INSTALLED := $(or $(wildcard $(VENV)/.installed),$(VENV)/.run-installed)

# Includes a Java runtime for machines without one.
$(VENV)/.spark-installed: $(RUN_INSTALLED)
	$(INSTALL) --editable './spark[jdk]'
	touch $@

# mypy checks the report against Spark's own types: without pyspark, it would find other errors.
$(VENV)/.dev-installed: $(VENV)/.installed $(VENV)/.spark-installed
	$(INSTALL) 'twisted_kafka[dev]'
	touch $@

run: $(RUN_INSTALLED)
	@$(COMPILE)
	$(BIN)/twistd --pidfile= -n kafka --console --data-dir $(DATA_DIR)

# Hypothesis explores in make test-all only: what it finds there must not fail somebody's unrelated change.
CORES := $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)))' 2>/dev/null || echo 2)
# Three workers more than there are processors: tests of threads and programs wait a part of the time.
WORKERS ?= $(shell expr $(CORES) + 3)
# On macOS, libraries of the system do not work in a forked process.
WITH_WORKERS = $(if $(filter Darwin,$(shell uname -s)),-n $(1) --dist loadscope,--forks $(1))
QUICKLY = $(call WITH_WORKERS,$(WORKERS)) --hypothesis-seed=0

# All of what tests enumerate. A wait counts as a hang only after five times as long: no test fails because the machine is busy.
ALL := TEST_SHARE=1 TEST_PATIENCE=5

INSIDE := --ignore tests/clients --ignore tests/cluster --ignore tests/oracle --ignore tests/spark

# Quick tests, without Spark, Java, real clients and the testing kit.
test-unit: $(VENV)/.installed
	$(PYTEST) $(QUICKLY) -m 'not slow and not long and not medium' $(INSIDE) --ignore tests/testing

# Wire format, log formats, metadata, network and handlers: what .ci/run runs on PyPy.
test-subset: $(VENV)/.installed
	$(PYTEST) $(QUICKLY) -m 'not slow and not long' tests/protocol tests/metadata tests/network tests/server

ifeq ($(ON_PYPY),)
test: install
	$(PYTEST) $(QUICKLY) -m 'not slow and not oracle'

# For .ci/run: what failed runs once more, one by one. A test that passes now is unsteady, which is a fault of its own: the summary of
# both runs names it.
test-again:
	$(PYTEST) --last-failed --last-failed-no-failures none -n 0 -rfEp

# Everything, and all of what tests enumerate: real clients, comparisons with Apache Kafka, long runs. Tests that need missing programs
# (Java, node, kcat, a KDC) are skipped. Tests that need the machine for themselves come after the others, one by one.
test-all: install $(VENV)/.browser-installed
	rm -f build/test-all/*.xml
	-$(ALL) $(PYTEST) $(call WITH_WORKERS,$(WORKERS)) -m 'not alone' --junitxml build/test-all/together.xml
	-$(ALL) $(PYTEST) -m alone --junitxml build/test-all/alone.xml
	$(BIN)/python -m tests.support.summary build/test-all/together.xml build/test-all/alone.xml
else
# Real clients have no wheels for PyPy: they run on CPython, and the brokers that they are tested with on PyPy.
test: install
	$(PYTEST) $(QUICKLY) -m 'not slow and not oracle' $(INSIDE)
	$(ON_CPYTHON) test-served BROKER_PYTHON=$(abspath $(BIN)/python) SERVED='-m "not slow" tests/clients tests/cluster'

test-all: install
	$(ALL) $(PYTEST) $(INSIDE)
	$(ON_CPYTHON) test-served BROKER_PYTHON=$(abspath $(BIN)/python) SERVED='tests/clients tests/cluster tests/oracle'

lint smoke docs dist mutants report demo-report:
	$(ON_CPYTHON) $@ SMOKE_PYTHON=$(PYTHON)
endif

$(VENV)/.browser-installed: $(VENV)/.installed
	$(INSTALL) 'twisted_kafka[browser]'
	touch $@

# Simulated hours of three brokers under faults and mixed load. A later call continues after the seeds in build/world/results.jsonl.
WORLD_MINUTES ?= 10
world: $(VENV)/.installed
	$(BIN)/python -m tests.world.hours --minutes $(WORLD_MINUTES)

bench: $(VENV)/.installed
	@$(COMPILE)
	$(BIN)/python -m benchmarks

# For make test on PyPy.
test-served: install
	BROKER_PYTHON=$(BROKER_PYTHON) $(PYTEST) $(SERVED)

ifeq ($(ON_PYPY),)
lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config import-linter-runtime.toml

$(VENV)/.docs-installed: $(VENV)/.dev-installed
	$(INSTALL) 'twisted_kafka[docs]'
	touch $@

# The documents and the reference as one site, in build/docs.
docs: $(VENV)/.docs-installed
	$(BIN)/mkdocs build --quiet

# Wheels and sdists of the three distributions, as an index takes them if the checkout is a clean tag (RELEASING.md).
dist: $(VENV)/.dev-installed
	rm -rf dist
	$(BIN)/python -m build --outdir dist spark
	$(BIN)/python -m build --outdir dist pytest_plugin
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

# Installs the wheel and the sdist each in an empty environment of SMOKE_PYTHON and uses them.
SMOKE_PYTHON ?= $(PYTHON)
smoke: $(VENV)/.dev-installed
	$(BIN)/python .ci/smoke.py --python $(SMOKE_PYTHON)

# Tests a sample of mutants of eight packages (benchmarks/mutants.py); for others: MUTANTS="--packages log --sample 100 --seed 2".
mutants: $(VENV)/.dev-installed
	$(BIN)/python -m benchmarks.mutants $(MUTANTS)

report: $(VENV)/.spark-installed
	$(BIN)/python -m twisted_kafka_spark report $(ACCESS_LOG) --out $(REPORT)

# The report of a synthetic day with eight incidents.
demo-report: $(VENV)/.spark-installed
	$(BIN)/python -m twisted_kafka_spark demo $(DATA_DIR)/demo
	$(BIN)/python -m twisted_kafka_spark report $(DATA_DIR)/demo --out demo-report.html
endif
