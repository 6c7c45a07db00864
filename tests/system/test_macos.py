"""The broker on a Python that lacks what CPython on macOS lacks (``tests/support/macos``)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budget import patient

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("tests/log", "tests/broker", "tests/tap", "tests/tools", "tests/metadata", "tests/network", "tests/access_log")
QUICK = ("tests/log/test_log_segment.py", "tests/log/test_unified_log.py", "tests/log/test_meta_properties.py")
NEEDS_LINUX = ("tests/log/test_full_disk.py",)
"""Its disk replaces functions that macOS lacks."""
TWICE = """
import os, sys
from twisted_kafka import Broker

def produce(broker):
    from kafka import KafkaProducer
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    offset = producer.send("topic", b"value").get(timeout=30).offset
    producer.close()
    return offset

assert not hasattr(os, "fdatasync") and sys.platform == "darwin"
settings = {"log.flush.interval.messages": 1, "log.preallocate": "true", "access.log.dir": sys.argv[1] + "/access"}
for expected in (0, 1):
    with Broker(settings, data_dir=sys.argv[1]) as broker:
        assert produce(broker) == expected
print("started twice")
"""


def run(*command: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT / "tests" / "support" / "macos"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def run_tests(*paths: str, timeout_s: float) -> None:
    # The plug-ins take part in each test, and look for the platform's own libraries.
    options = ["-q", "-p", "no:hypothesispytest", "-p", "no:xdist", "-m", "not slow and not oracle and not long"]
    options += [f"--ignore={path}" for path in NEEDS_LINUX]
    done = run("-m", "pytest", *options, *paths, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.long
def test_a_broker_starts_again_in_its_directory(tmp_path: Path) -> None:
    done = run("-c", TWICE, str(tmp_path), timeout_s=patient(60))
    assert "started twice" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_log_is_durable() -> None:
    run_tests(*QUICK, timeout_s=patient(100))


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes(suite: str) -> None:
    run_tests(suite, timeout_s=patient(900))
