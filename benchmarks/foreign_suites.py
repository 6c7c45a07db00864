"""Functional tests of Python clients against this broker in place of their set-up, and against Apache Kafka started once.

    python -m benchmarks.foreign_suites [--no-kafka] [--select EXPRESSION] [--checkout DIRECTORY]

kafka-python's are in the source distribution of the one that is installed, which is downloaded. aiokafka's are in none of its
distributions: with ``--checkout``, a checkout of its repository at the release that is installed, they are run instead. Nothing of
either is kept.

Here each module of kafka-python's tests starts a broker inside pytest (``benchmarks/foreign_plugin.py``); Apache Kafka runs before
pytest does, and its start is told apart. The tests of SASL and TLS need a broker of their own, which they only get here: they are a
run of their own. aiokafka's tests start one broker, either, inside pytest (``benchmarks/foreign_docker.py``), with all four
protocols; GSSAPI and OAUTHBEARER are left out.

The time is from ``pytest`` to the end. Requires Java and Maven for Apache Kafka, and keytool and openssl for TLS.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scratch import scratch
from tests.support.oracle.apache_kafka import ApacheKafka

KAFKA_PYTHON = "kafka-python"
TESTS = "test/integration"
AIOKAFKA_TESTS = "aiokafka_tests"
"""What their package is called here: ``tests`` is this project's."""
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
    start_s: float = 0.0
    """The part of it in which the tests' broker started."""

    def __str__(self) -> str:
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped in {self.seconds:.1f} s"


def fetch(directory: Path) -> Path:
    """Download and unpack the source distribution; return its directory."""
    wanted = f"{KAFKA_PYTHON}=={version(KAFKA_PYTHON)}"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "download",
        "--no-deps",
        "--no-binary",
        KAFKA_PYTHON,
    ]
    subprocess.run([*pip, "--dest", directory, wanted], check=True, timeout=RUN_S)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    source = directory / archive.name.removesuffix(".tar.gz")
    (source / "test" / "__init__.py").touch()  # left out of it; without it, `test` is the standard library's
    return source


def run_tests(directory: Path, plugin: str, *arguments: str, **environment: str) -> Outcome:
    """Run some of their functional tests in a pytest of its own, with a plugin of ours."""
    results = directory / "results.xml"
    results.unlink(missing_ok=True)
    plugins = ["-p", f"benchmarks.{plugin}", "-p", "no:twisted_kafka", "-p", "no:random_order"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--timeout", "120", f"--junitxml={results}", *arguments]
    started = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    seconds = time.perf_counter() - started
    if not results.exists():
        raise SystemExit(done.stdout[-3000:])
    start = re.search(r"^the broker started in ([0-9.]+) s$", done.stdout, re.MULTILINE)
    return read_outcome(seconds, results)._replace(start_s=0.0 if start is None else float(start[1]))


def read_outcome(seconds: float, results: Path) -> Outcome:
    """Return what pytest has written of a run."""
    outcome = Outcome(seconds, [], {}, [])
    for case in ET.parse(results).iter("testcase"):
        module = case.get("classname", "").removeprefix("test.integration.").removeprefix(f"{AIOKAFKA_TESTS}.")
        name = f"{module}::{case.get('name')}"
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failure is not None:
            outcome.failed[name] = " ".join((failure.get("message") or "").split())[:200]
        elif case.find("skipped") is not None:
            outcome.skipped.append(name)
        else:
            outcome.passed.append(name)
    return outcome


def run_kafka_python(directory: Path, select: str, *, kafka: bool) -> tuple[Outcome, Outcome | None]:
    """Run kafka-python's tests; return what came of those for any broker, here and with Apache Kafka."""
    source = fetch(directory)
    files = [f"{TESTS}/{path.name}" for path in sorted((source / TESTS).glob("test_*.py"))]
    secured = [f"{TESTS}/{name}" for name in NEED_THEIR_OWN_BROKER]
    arguments = ["-k", select, *(path for path in files if path not in secured)]
    environment = {"KAFKA_VERSION": KAFKA_VERSION, "KAFKA_ROOT": str(source)}
    ours = run_tests(source, "foreign_plugin", *arguments, **environment)
    print(f"{source.name}, this broker: {ours}", flush=True)
    theirs = run_beside_kafka(source, arguments, environment) if kafka else None
    own = run_tests(source, "foreign_plugin", "-k", select, *secured, **environment)
    print(f"{source.name}, this broker, SASL and TLS: {own}", flush=True)
    return ours, theirs


def run_beside_kafka(source: Path, arguments: list[str], environment: dict[str, str]) -> Outcome:
    """Run kafka-python's tests against an Apache Kafka that is started once."""
    directory = source / "kafka-data"
    directory.mkdir()
    kafka = ApacheKafka(directory, **LIKE_THEIRS)
    started = time.perf_counter()
    kafka.start()
    start_s = time.perf_counter() - started
    try:
        outcome = run_tests(source, "foreign_plugin", *arguments, KAFKA_URI=f"kafka://127.0.0.1:{kafka.port}", **environment)
    finally:
        kafka.stop()
    print(f"{source.name}, Apache Kafka {KAFKA_VERSION}: {outcome}, after a start of {start_s:.1f} s", flush=True)
    return outcome


def run_aiokafka(directory: Path, checkout: Path, select: str, *, kafka: bool) -> tuple[Outcome, Outcome | None]:
    """Run aiokafka's tests that need a broker; return what came of them, here and with Apache Kafka."""
    tests = shutil.copytree(checkout / "tests", directory / AIOKAFKA_TESTS, ignore=shutil.ignore_patterns("ssl_cert", "keytab"))
    files = [f"{AIOKAFKA_TESTS}/{each.name}" for each in sorted(tests.glob("test_*.py")) if "KafkaIntegration" in each.read_text()]
    certificates = directory / "tests" / "ssl_cert"
    certificates.mkdir(parents=True)
    subprocess.run(["bash", checkout.resolve() / "gen-ssl-certs.sh"], cwd=certificates, check=True, capture_output=True, timeout=60)
    arguments = ["--docker-image", f"kafka:2.13_{KAFKA_VERSION}", "--no-pull", "-m", "not oauthbearer"]
    arguments += ["-k", f"not gssapi and ({select})" if select else "not gssapi", *files]
    name = f"aiokafka-{version('aiokafka')}"
    ours = run_tests(directory, "foreign_docker", *arguments)
    print(f"{name}, this broker: {ours}, {ours.start_s:.1f} s of it until the broker has started", flush=True)
    if not kafka:
        return ours, None
    theirs = run_tests(directory, "foreign_docker", *arguments, FOREIGN_BROKER="apache")
    print(f"{name}, Apache Kafka {KAFKA_VERSION}: {theirs}, {theirs.start_s:.1f} s of it until it has started", flush=True)
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="leave Apache Kafka out")
    parser.add_argument("--select", default="", help="of the tests, as pytest's -k")
    parser.add_argument("--checkout", type=Path, help="of aiokafka's repository: run its tests")
    options = parser.parse_args()
    with scratch() as directory:
        if options.checkout is None:
            ours, theirs = run_kafka_python(directory, options.select, kafka=options.kafka)
        else:
            ours, theirs = run_aiokafka(directory, options.checkout, options.select, kafka=options.kafka)
    for name, why in ours.failed.items():
        also = " (with Apache Kafka, too)" if theirs is not None and name in theirs.failed else ""
        print(f"this broker: {name}{also}: {why}")
    for name, why in (theirs.failed if theirs is not None else {}).items():
        if name not in ours.failed:
            print(f"Apache Kafka alone: {name}: {why}")


if __name__ == "__main__":
    main()
