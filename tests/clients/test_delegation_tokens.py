"""Apache Kafka's tool gets delegation tokens, and its clients log in with them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.clients import JAVA_TOOLS, java_tool
from tests.support.clients.served import ServedBroker

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
MODULES = "org.apache.kafka.common.security"
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
SECRET_KEY = "the-key-of-all-brokers"

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.usefixtures("java")]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    started = ServedBroker(
        tmp_path / "data",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULES}.plain.PlainLoginModule required {users};",
        f"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={MODULES}.scram.ScramLoginModule required;",
        f"delegation.token.secret.key={SECRET_KEY}",
    )
    started.listeners = f"SASL_PLAINTEXT://{started.bootstrap}"
    started.overrides += ("inter.broker.listener.name=SASL_PLAINTEXT", "sasl.mechanism.inter.broker.protocol=PLAIN")
    started.start()
    yield started
    started.stop()


class Client:
    """Runs tools that authenticate in one way."""

    def __init__(self, broker: ServedBroker, path: Path, version: str, mechanism: str, jaas: str) -> None:
        self.broker = broker
        self._tool = JAVA_TOOLS[version]
        self.path = path
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas};\n")

    def tokens(self, *words: str) -> str:
        return self._tool(TOKENS, "--bootstrap-server", self.broker.bootstrap, "--command-config", str(self.path), *words)


def with_password(broker: ServedBroker, tmp_path: Path, version: str, user: str) -> Client:
    jaas = f'{MODULES}.plain.PlainLoginModule required username="{user}" password="{USERS[user]}"'
    return Client(broker, tmp_path / f"{user}.properties", version, "PLAIN", jaas)


def with_token(broker: ServedBroker, tmp_path: Path, version: str, token_id: str, hmac: str) -> Client:
    jaas = f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true"'
    return Client(broker, tmp_path / "token.properties", version, "SCRAM-SHA-512", jaas)


def columns(told: str) -> list[str]:
    """The columns of the only token that was told about: id, hmac, owner, requester, renewers and times."""
    (line,) = [line for line in told.splitlines() if re.match(r"\S{22}\s", line)]
    return line.split()


@pytest.mark.parametrize("version", JAVA_TOOLS)
def test_a_token_from_its_creation_to_its_end(broker: ServedBroker, tmp_path: Path, version: str) -> None:
    alice, bob = (with_password(broker, tmp_path, version, user) for user in USERS)
    token_id, hmac, owner, requester, renewers = columns(
        alice.tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    )[:5]
    assert (owner, requester, renewers) == ("User:alice", "User:alice", "[User:bob]")
    assert columns(bob.tokens("--describe", "--owner-principal", "User:alice"))[:2] == [token_id, hmac]
    assert "Completed renew operation" in bob.tokens("--renew", "--renew-time-period", "86400000", "--hmac", hmac)

    worker = with_token(broker, tmp_path, version, token_id, hmac)
    lines = b"".join(b"%d\n" % number for number in range(100))
    at = ["--bootstrap-server", broker.bootstrap, "--topic", "worked"]
    java_tool("kafka.tools.ConsoleProducer", *at, "--producer.config", str(worker.path), stdin=lines)
    words = [*at, "--from-beginning", "--max-messages", "100", "--consumer.config", str(worker.path)]
    assert java_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words).encode() == lines
    with pytest.raises(AssertionError, match="Delegation Token requests are not allowed"):
        worker.tokens("--describe")

    alice.tokens("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with pytest.raises(AssertionError, match="Authentication failed"):
        worker.tokens("--describe")
    broker.stop()
    for path in (*tmp_path.rglob("*.out"), *tmp_path.rglob("*.jsonl"), *tmp_path.rglob("*.sqlite")):
        content = path.read_bytes()
        for secret in (*USERS.values(), hmac, SECRET_KEY):
            assert secret.encode() not in content, (path, secret)
