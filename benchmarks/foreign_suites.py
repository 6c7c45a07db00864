"""kafka-python's own functional tests against this broker in place of their set-up, and against Apache Kafka started once.

    python -m benchmarks.foreign_suites [--no-kafka] [--select EXPRESSION]

Downloads the source distribution of the kafka-python that is installed, which has the tests; nothing of it is kept. (aiokafka's has
none.) Here each module of tests starts a broker inside pytest (``benchmarks/foreign_plugin.py``); Apache Kafka runs before pytest
does, and its start is told apart. The tests of SASL and TLS need a broker of their own, which they only get here: they are a run of
their own. The time is from ``pytest`` to the end. Requires Java and Maven for Apache Kafka, and keytool and openssl for the tests
of TLS.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scratch import scratch
from tests.oracle.apache_kafka import ApacheKafka

NAME = "kafka-python"
TESTS = "test/integration"
KAFKA_VERSION = "3.9.2"
"""What the tests are told, and what Apache Kafka is."""
ROOT = Path(__file__).resolve().parents[1]
RUN_S = 1800
LIKE_THEIRS: dict[str, Any] = {
    "broker.id": 0,
    "num.partitions": 4,
    "group.min.session.timeout.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NEED_THEIR_OWN_BROKER = ("test_ssl_integration.py", "test_sasl_integration.py")


class Outcome(NamedTuple):
    """What came of a run."""

    seconds: float
    passed: list[str]
    failed: dict[str, str]
    skipped: list[str]

    def __str__(self) -> str:
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped in {self.seconds:.1f} s"


def fetch(directory: Path) -> Path:
    """Download and unpack the source distribution; return its directory."""
    wanted = f"{NAME}=={version(NAME)}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps", "--no-binary", NAME]
    subprocess.run([*pip, "--dest", directory, wanted], check=True, timeout=RUN_S)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    source = directory / archive.name.removesuffix(".tar.gz")
    (source / "test" / "__init__.py").touch()  # left out of it; without it, `test` is the standard library's
    return source


def run_tests(source: Path, select: str, paths: list[str], **environment: str) -> Outcome:
    """Run some of their functional tests in a pytest of its own."""
    results = source / "results.xml"
    plugins = ["-p", "benchmarks.foreign_plugin", "-p", "no:twisted_kafka", "-p", "no:random_order"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--timeout", "120"]
    command += [f"--junitxml={results}", "-k", select, *paths]
    started = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=source,
        env={**os.environ, "KAFKA_VERSION": KAFKA_VERSION, "KAFKA_ROOT": str(source), "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    seconds = time.perf_counter() - started
    if not results.exists():
        raise SystemExit(done.stdout[-3000:])
    return read_outcome(seconds, results)


def read_outcome(seconds: float, results: Path) -> Outcome:
    """Return what pytest has written of a run."""
    outcome = Outcome(seconds, [], {}, [])
    for case in ET.parse(results).iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('test.integration.')}::{case.get('name')}"
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failure is not None:
            outcome.failed[name] = " ".join((failure.get("message") or "").split())[:200]
        elif case.find("skipped") is not None:
            outcome.skipped.append(name)
        else:
            outcome.passed.append(name)
    return outcome


def run_beside_kafka(source: Path, select: str, paths: list[str]) -> Outcome:
    """Run the tests against an Apache Kafka that is started once."""
    directory = source / "kafka-data"
    directory.mkdir()
    kafka = ApacheKafka(directory, **LIKE_THEIRS)
    started = time.perf_counter()
    kafka.start()
    start_s = time.perf_counter() - started
    try:
        outcome = run_tests(source, select, paths, KAFKA_URI=f"kafka://127.0.0.1:{kafka.port}")
    finally:
        kafka.stop()
    print(f"{source.name}, Apache Kafka {KAFKA_VERSION}: {outcome}, after a start of {start_s:.1f} s", flush=True)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="leave Apache Kafka out")
    parser.add_argument("--select", default="", help="of the tests, as pytest's -k")
    options = parser.parse_args()
    with scratch() as directory:
        source = fetch(directory)
        files = [f"{TESTS}/{path.name}" for path in sorted((source / TESTS).glob("test_*.py"))]
        secured = [f"{TESTS}/{name}" for name in NEED_THEIR_OWN_BROKER]
        for_any = [path for path in files if path not in secured]
        ours = run_tests(source, options.select, for_any)
        print(f"{source.name}, this broker: {ours}", flush=True)
        theirs = run_beside_kafka(source, options.select, for_any) if options.kafka else None
        print(f"{source.name}, this broker, SASL and TLS: {run_tests(source, options.select, secured)}", flush=True)
    for name, why in ours.failed.items():
        also = " (with Apache Kafka, too)" if theirs is not None and name in theirs.failed else ""
        print(f"this broker: {name}{also}: {why}")
    for name, why in (theirs.failed if theirs is not None else {}).items():
        if name not in ours.failed:
            print(f"Apache Kafka alone: {name}: {why}")


if __name__ == "__main__":
    main()
