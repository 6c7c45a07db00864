"""Apache Kafka's ConfigCommand changes settings and quotas of the running broker, and they act."""

import socket
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import java_tool
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually

WAIT_S = patient(30)
pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.usefixtures("java")]


class Configured:
    """A broker whose settings Kafka's tool changes."""

    def __init__(self, broker: ServedBroker) -> None:
        self.broker = broker

    def alter(self, *words: str) -> str:
        return self("--alter", *words)

    def __call__(self, *words: str) -> str:
        return java_tool("kafka.admin.ConfigCommand", "--bootstrap-server", self.broker.bootstrap, *words)

    def threads(self) -> int:
        assert self.broker.process is not None
        return len(list(Path(f"/proc/{self.broker.process.pid}/task").iterdir()))

    def connects(self, count: int) -> list[bool]:
        """Connect so often and tell which were served."""
        served = []
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.broker.port), timeout=WAIT_S) as client:
                client.settimeout(WAIT_S)
                try:
                    client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
                    served.append(client.recv(64) != b"")
                except ConnectionError:
                    served.append(False)
        return served


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Configured]:
    broker = ServedBroker(tmp_path / "data", "broker.id=1", "password.encoder.secret=the secret")
    broker.start()
    yield Configured(broker)
    assert broker.stop() == 0


def test_threads_limits_and_passwords_of_a_broker(configured: Configured) -> None:
    before = configured.threads()
    configured.alter("--entity-type", "brokers", "--entity-name", "1", "--add-config", "num.network.threads=2,num.io.threads=6")
    # One network thread and two handlers more.
    eventually(lambda: configured.threads() >= before + 3, configured.threads, WAIT_S)
    told = configured("--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert "num.io.threads=6 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=6" in told
    with pytest.raises(AssertionError, match="value should not be greater than double the current value 6"):
        configured.alter("--entity-type", "brokers", "--entity-name", "1", "--add-config", "num.io.threads=13")
    with pytest.raises(AssertionError, match="Cannot update these configs dynamically"):
        configured.alter("--entity-type", "brokers", "--entity-default", "--add-config", "broker.rack=r")
    secret = "listener.name.x.ssl.keystore.password=open-sesame"
    configured.alter("--entity-type", "brokers", "--entity-name", "1", "--add-config", secret)
    assert configured.broker.stop() == 0  # it keeps others out of its metadata
    with sqlite3.connect(configured.broker.log_dir / "metadata.sqlite") as metadata:
        dump = "\n".join(metadata.iterdump())
    assert "ssl.keystore.password" in dump or b"ssl.keystore.password".hex() in dump.lower()
    assert "open-sesame" not in dump
    assert b"open-sesame".hex() not in dump.lower()


def test_a_quota_on_how_often_an_address_connects(configured: Configured) -> None:
    words = ("--entity-type", "ips", "--entity-name", "127.0.0.1")
    configured.alter(*words, "--add-config", "connection_creation_rate=3")
    assert "connection_creation_rate=3.0" in configured("--describe", *words)
    served = configured.connects(45)
    assert all(served[:20]), "thirty may come at once, ten seconds' worth; some were the tool's"
    assert served.count(False) >= 5
    configured.alter(*words, "--delete-config", "connection_creation_rate")
    assert all(configured.connects(60))


def test_connections_of_an_address(configured: Configured) -> None:
    words = ("--entity-type", "brokers", "--entity-default")
    configured.alter(*words, "--add-config", "max.connections.per.ip=5")
    held = [socket.create_connection(("127.0.0.1", configured.broker.port), timeout=WAIT_S) for _ in range(5)]
    assert configured.connects(3) == [False] * 3
    for each in held:
        each.close()
    eventually(lambda: configured.connects(1) == [True], wait_s=WAIT_S)
    assert configured.connects(3) == [True] * 3
