"""Confluent's Java client with the schema registry of the testing kit."""

import shutil
from pathlib import Path

import pytest

from tests.support.clients.clients import run
from twisted_kafka.testing import Broker, SchemaRegistry

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]
_PROGRAM = Path(__file__).parent / "java" / "registry"
_TIMEOUT_S = 800


def test_confluents_java_client(tmp_path: Path) -> None:
    maven, java = shutil.which("mvn"), shutil.which("java")
    if maven is None or java is None:
        pytest.skip("needs Maven and Java")
    path = tmp_path / "classpath"
    options = ("-B", "-q", "-ntp", "-f", str(_PROGRAM / "pom.xml"), f"-Dmdep.outputFile={path}")
    run([maven, *options, "dependency:build-classpath"], timeout_s=_TIMEOUT_S)
    with Broker() as broker, SchemaRegistry(broker) as registry:
        printed = run([java, "-cp", path.read_text(), str(_PROGRAM / "Registry.java"), registry.url], timeout_s=_TIMEOUT_S)
        assert printed == b"everything is as Confluent's client expects\n", registry.requests
        agents = {request.user_agent for request in registry.requests}
        assert all("Java" in agent for agent in agents)
