"""ACLs with real clients: Kafka's own tool makes them, certificates say who is who, and the access log has who was refused what."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.support.certificates import PASSWORD, Authority
from tests.support.clients.clients import JAVA_TOOLS, LATER_KAFKA
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.usefixtures("java")]

TOOLS = {"3.9": "kafka.admin.AclCommand", LATER_KAFKA: "org.apache.kafka.tools.AclCommand"}
MESSAGE_TIMEOUT_MS = 20_000


class Guarded:
    """A broker with TLS and an authorizer, and clients' ways to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = Authority()
        authority.write_trust(folder / "ca.pem")
        authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pkcs12(folder / "broker.p12")
        for name in ("admin", "alice", "bob"):
            authority.issue(f"CN={name},O=Tests").write_pem(folder / f"{name}.pem")
        port = free_port()
        self.address = f"localhost:{port}"
        self.broker = ServedBroker(
            folder / "data",
            "group.initial.rebalance.delay.ms=0",
            "offsets.topic.num.partitions=2",
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "super.users=User:ANONYMOUS;User:admin",
            "ssl.client.auth=required",
            "ssl.principal.mapping.rules=RULE:^CN=([^,]+),.*$/$1/",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.location={folder / 'broker.p12'}",
            f"ssl.keystore.password={PASSWORD}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={folder / 'ca.pem'}",
        )
        self.broker.listeners += f",SSL://{self.address}"
        settings = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "admin.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": folder / "ca.pem",
        }
        self.config = folder / "admin.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def acls(self, *words: str, version: str = "3.9") -> str:
        return JAVA_TOOLS[version](TOOLS[version], "--bootstrap-server", self.address, "--command-config", str(self.config), *words)

    def settings(self, who: str, **more: Any) -> dict[str, Any]:
        pem = str(self.folder / f"{who}.pem")
        found = {
            "bootstrap.servers": self.address,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": pem,
            "ssl.key.location": pem,
        }
        return found | {key.replace("_", "."): value for key, value in more.items()}

    def send(self, who: str, topic: str) -> str | None:
        """Send a message; return the name of the error, or None."""
        outcome: list[Any] = []
        producer = Producer(self.settings(who, message_timeout_ms=MESSAGE_TIMEOUT_MS))
        producer.produce(topic, b"x", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(MESSAGE_TIMEOUT_MS / 1000)
        return None if outcome[0] is None else str(outcome[0].name())

    def receive(self, who: str, topic: str, group: str) -> str | bytes:
        """Receive a message; return its value, or the name of the error."""
        consumer = Consumer(self.settings(who, group_id=group, auto_offset_reset="earliest"))
        consumer.subscribe([topic])
        try:
            message = consumer.poll(MESSAGE_TIMEOUT_MS / 1000)
            assert message is not None
            value = message.value()
            return str(message.error().name()) if message.error() else value or b""
        except KafkaException as error:
            return str(error.args[0].name())
        finally:
            consumer.close()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in self.broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("acls"))
    made.broker.start()
    yield made
    assert made.broker.stop() == 0
    assert "Traceback" not in made.broker.output.read_text()


@pytest.mark.parametrize("version", TOOLS)
def test_rights_are_given_shown_used_and_taken(guarded: Guarded, version: str) -> None:
    acls = functools.partial(guarded.acls, version=version)
    acls("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders.", "--resource-pattern-type", "prefixed")
    acls("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders.eu", "--group", "billing")
    shown = acls("--list")
    for part in (
        "ResourcePattern(resourceType=TOPIC, name=orders., patternType=PREFIXED)",
        "ResourcePattern(resourceType=GROUP, name=billing, patternType=LITERAL)",
        "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)",
    ):
        assert part in shown
    assert "operation=READ" not in acls("--list", "--principal", "User:alice")

    assert guarded.send("alice", "orders.eu") is None
    assert guarded.send("alice", "other") == "TOPIC_AUTHORIZATION_FAILED"
    assert guarded.send("bob", "orders.eu") == "TOPIC_AUTHORIZATION_FAILED"
    assert guarded.receive("bob", "orders.eu", "billing") == b"x"
    assert guarded.receive("bob", "orders.eu", "another") == "GROUP_AUTHORIZATION_FAILED"

    acls("--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", "orders.eu")
    assert guarded.send("alice", "orders.eu") == "TOPIC_AUTHORIZATION_FAILED"
    assert guarded.send("alice", "orders.us") is None
    acls("--remove", "--force", "--topic", "orders.", "--resource-pattern-type", "match")
    assert guarded.send("alice", "orders.us") == "TOPIC_AUTHORIZATION_FAILED"
    for resource in (("--group", "billing"), ("--topic", "orders.eu")):
        acls("--remove", "--force", *resource)
    assert "billing" not in acls("--list")


def test_the_access_log_has_who_was_refused_what(guarded: Guarded) -> None:
    assert guarded.send("alice", "elsewhere") == "TOPIC_AUTHORIZATION_FAILED"
    assert guarded.receive("bob", "elsewhere", "nobodys") == "GROUP_AUTHORIZATION_FAILED"
    guarded.broker.stop()
    refused = {(line["principal"], line["error"]) for line in guarded.lines() if line["error"]}
    assert {("User:alice", "TOPIC_AUTHORIZATION_FAILED"), ("User:bob", "GROUP_AUTHORIZATION_FAILED")} <= refused
    assert "Denied Describe on Group:LITERAL:nobodys to User:bob" in guarded.broker.output.read_text()
    guarded.broker.start()
