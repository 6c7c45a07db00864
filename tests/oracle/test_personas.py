"""The tables of the personas against those of Apache Kafka's own clients."""

import shutil
from pathlib import Path

import pytest

from tests.clients.clients import java_library, run
from twisted_kafka.broker.personas import persona_of

PROGRAM = Path(__file__).parent / "java" / "ApiTable.java"


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="needs Java and Maven")
@pytest.mark.parametrize(
    ("name", "version", "mode"),
    [("0.11", "0.11.0.3", "zookeeper"), ("2.8", "2.8.2", "zookeeper"), ("3.9", "3.9.2", "zookeeper"), ("4.1", "4.1.0", "kraft")],
)
def test_a_personas_table_is_its_kafkas(name: str, version: str, mode: str) -> None:
    class_path = java_library("kafka-clients", version)
    assert class_path is not None
    printed = run(["java", "-cp", class_path, str(PROGRAM), mode]).decode()
    theirs = {key: (low, high) for key, low, high in (map(int, line.split()) for line in printed.splitlines())}
    assert persona_of(name).served == theirs
