"""What 200 tests cost that each have a broker of their own (fixture ``kafka``): in a row, and with xdist's workers.

    python -m benchmarks.isolated_tests [--tests 200] [--workers 0,4]

Each test makes a topic, stores a record and reads it. Processor time is printed, too: it varies less on a busy machine. Measured
beside: tests with topics of their own on one broker (fixture ``kafka_broker``), and tests that do nothing: what pytest costs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(kafka, kafka_topic, number):
    kafka.produce(kafka_topic, ["1"])
    assert [record.value for record in kafka.records(kafka_topic)] == [b"1"]
"""
SHARED = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(kafka_broker, number):
    topic = kafka_broker.create_topic(f"topic-{{number}}")
    kafka_broker.produce(topic, ["1"])
    assert [record.value for record in kafka_broker.records(topic)] == [b"1"]
    kafka_broker.delete_topic(topic)
"""
NOTHING = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(number): ...
"""


def measure(directory: Path, tests: str, workers: int) -> tuple[float, float]:
    """Return the seconds that a pytest took by the clock, and of processors."""
    (directory / "test_isolated.py").write_text(tests)
    plugins = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:twisted"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *(["-n", str(workers)] if workers else [])]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began_s, cpu_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--workers", default="0,4")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory), TESTS.format(count=1), 0)  # modules are compiled once
        for workers in map(int, options.workers.split(",")):
            for what, tests in (("isolated tests", TESTS), ("tests that share a broker", SHARED), ("tests of nothing", NOTHING)):
                clock_s, cpu_s = measure(Path(directory), tests.format(count=options.tests), workers)
                print(f"{options.tests} {what}, {workers} workers: {clock_s:.1f} s, {cpu_s:.1f} s of processors")


if __name__ == "__main__":
    main()
