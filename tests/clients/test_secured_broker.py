"""The broker of etc/secured.properties, with the commands of docs/operations-security.md."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.budget import patient
from tests.support.clients.clients import new_group
from tests.support.clients.secured import PASSWORDS, client_settings, secured_broker

WAIT_S = patient(30)

pytestmark = pytest.mark.clients


@pytest.fixture
def settings_of(tmp_path: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Starts the broker; returns what a client of a user needs."""
    broker = secured_broker(tmp_path)

    def of(user: str, password: str | None = None) -> dict[str, Any]:
        return client_settings(broker, user, password)

    yield of
    broker.stop()
    secrets = [*PASSWORDS.values(), (tmp_path / "certificates" / "password").read_text().strip()]
    for path in (*broker.data.rglob("*"), broker.output):
        if path.is_file():
            content = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in content], path


def allow(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)
    for done in admin.create_acls([binding]).values():
        done.result(WAIT_S)


def send(settings: dict[str, Any]) -> int | None:
    """Return the error of sending one record, if there is one."""
    errors: list[Any] = []
    producer = Producer(settings | {"message.timeout.ms": 5000, "enable.idempotence": False, "acks": 1})
    producer.produce("orders", b"value", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_S)
    (error,) = errors
    return None if error is None else error.code()


def read(settings: dict[str, Any], group: str) -> object:
    """Return the first value in the topic, or the error."""
    reader = Consumer(settings | {"group.id": group, "auto.offset.reset": "earliest"})
    try:
        reader.subscribe(["orders"])
        message = reader.poll(WAIT_S)
        assert message is not None, "nothing came"
        error = message.error()
        return message.value() if error is None else error.code()
    finally:
        reader.close()


def test_a_user_may_do_what_the_administrator_allows(settings_of: Callable[..., dict[str, Any]]) -> None:
    admin = AdminClient(settings_of("admin"))
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
    alice = settings_of("alice")
    assert send(alice) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert AdminClient(alice).list_topics(timeout=WAIT_S).topics == {}
    allow(admin, ResourceType.TOPIC, "orders", AclOperation.WRITE)
    assert send(alice) is None

    group = new_group()
    allow(admin, ResourceType.TOPIC, "orders", AclOperation.READ)
    assert read(alice, group) == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(admin, ResourceType.GROUP, group, AclOperation.READ)
    assert read(alice, group) == b"value"


@pytest.mark.slow
def test_who_does_not_know_the_password_gets_nothing(settings_of: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN|_AUTHENTICATION"):
        AdminClient(settings_of("admin", "guess")).list_topics(timeout=3)
