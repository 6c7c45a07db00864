# Each target first does what it needs of `install`; a machine with Python 3.11 or newer and its venv module is enough.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DATA_DIR ?= kafka-data
ACCESS_LOG ?= $(DATA_DIR)/access
REPORT ?= report.html
# Byte code is written where the environment says not to, too: without it each start compiles two hundred modules.
COMPILE = $(BIN)/python -m compileall -q twisted_kafka spark twisted
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: install run test test-all lint bench report
.DEFAULT_GOAL := install

install: $(VENV)/.installed $(VENV)/.spark-installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer with venv is needed; name it with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The checkout is put on the path as it is, by a .pth file, and gets its metadata beside it: changes count at once, twistd
# finds twisted/plugins, and no import hook slows each start down as that of an editable installation does.
$(VENV)/.installed: setup.py | $(BIN)/python
	$(PIP) install 'setuptools>=69'
	$(BIN)/python -c 'import pathlib, sysconfig; \
		pathlib.Path(sysconfig.get_path("purelib"), "twisted_kafka_checkout.pth").write_text("$(CURDIR)\n$(CURDIR)/spark\n")'
	$(BIN)/python setup.py --quiet egg_info
	$(PIP) install 'twisted_kafka[test]'
	$(COMPILE)
	touch $@

$(VENV)/.spark-installed: $(VENV)/.installed
	$(PIP) install 'twisted_kafka[spark]'
	touch $@

run: $(VENV)/.installed
	@$(COMPILE)
	$(BIN)/twistd --pidfile= -n kafka --data-dir $(DATA_DIR)

test: $(VENV)/.installed
	$(BIN)/pytest -q -m 'not slow and not oracle'

# Everything: real clients, comparisons with Apache Kafka, long runs. What a machine lacks (Java, node, kcat) is skipped and named.
test-all: install
	$(BIN)/pytest -q

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed
	@$(COMPILE)
	$(BIN)/python -m benchmarks

report: $(VENV)/.spark-installed
	$(BIN)/python -m twisted_kafka_spark report $(ACCESS_LOG) --out $(REPORT)
