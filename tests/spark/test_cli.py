"""What the command line loads."""

import subprocess
import sys

import pytest

from tests.support.budget import patient

LARGE = {"numpy", "pandas", "pyarrow", "pyspark"}


@pytest.mark.parametrize("command", ["audit", "follow", "report", "rollup"])
def test_help_loads_no_large_package(command: str) -> None:
    program = f"""
import sys
from twisted_kafka_spark.cli import main
try:
    main([{command!r}, "--help"])
except SystemExit:
    print("loaded", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=patient(60))
    help_text, loaded = done.stdout.rsplit("loaded ", 1)
    assert f"{command} [-h]" in help_text
    assert LARGE.isdisjoint(loaded.split())
