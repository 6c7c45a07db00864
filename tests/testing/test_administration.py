"""Topics, groups, ACLs and users that a test changes without a client."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from twisted_kafka.testing import Broker, BrokerError, Cluster, Kafka

confluent_kafka = pytest.importorskip("confluent_kafka")

_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SECURE = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _JAAS,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _JAAS,
}


@pytest.fixture(params=[Broker, Cluster])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with request.param() as running:
        running.create_topic("orders")
        yield running


def send(servers: str, topic: str = "orders", **settings: object) -> str | None:
    """Send a record; return the error, None without one."""
    errors: list[Any] = []
    named = {name.replace("_", "."): value for name, value in settings.items()}
    usual = {"bootstrap.servers": servers, "linger.ms": 0, "message.timeout.ms": 5000, "enable.idempotence": False, "log_level": 0}
    producer = confluent_kafka.Producer({**usual, **named})
    producer.produce(topic, b"x" * 200, on_delivery=lambda error, message: errors.append(error and error.name()))
    producer.flush(30)
    error: str | None = errors[0]
    return error


def test_a_topic_is_altered(kafka: Kafka) -> None:
    assert send(kafka.bootstrap_servers) is None
    kafka.alter_topic("orders", partitions=3, max_message_bytes=100)
    assert kafka.partitions("orders") == [0, 1, 2]
    assert send(kafka.bootstrap_servers, message_max_bytes=2000) == "MSG_SIZE_TOO_LARGE"
    kafka.alter_topic("orders", max_message_bytes=None)
    assert send(kafka.bootstrap_servers) is None
    with pytest.raises(BrokerError, match="topic 'orders' cannot be altered: INVALID_CONFIG, "):
        kafka.alter_topic("orders", retention_mss=1)
    with pytest.raises(BrokerError, match="topic 'orders' cannot have 1 partitions: INVALID_PARTITIONS, "):
        kafka.alter_topic("orders", partitions=1)


def test_the_offsets_of_a_group_are_set(kafka: Kafka) -> None:
    kafka.create_topic("bills")
    kafka.produce("orders", ["1", "2", "3"])
    kafka.wait_for(lambda: kafka.coordinator_id("g"), lambda seen: seen >= 0, "a coordinator")
    kafka.commit("g", {("orders", 0): 2, ("bills", 0): 0})
    assert kafka.committed("g") == {("orders", 0): 2, ("bills", 0): 0}
    kafka.commit("g", {("bills", 0): None})
    assert (kafka.committed("g"), kafka.lag("g")) == ({("orders", 0): 2}, 1)
    reader = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
    reader.subscribe(["orders"])
    assert reader.poll(30).value() == b"3"
    with pytest.raises(BrokerError, match="cannot be set: UNKNOWN_MEMBER_ID, it has members, which commit themselves"):
        kafka.commit("g", {("orders", 0): 0})
    with pytest.raises(BrokerError, match="group 'g' cannot be deleted: NON_EMPTY_GROUP"):
        kafka.delete_group("g")
    reader.close()
    kafka.wait_for_group("g", "Empty")
    kafka.delete_group("g")
    assert kafka.groups() == {}


def test_a_first_commit_needs_no_client() -> None:
    with Broker() as kafka:
        kafka.create_topic("orders")
        kafka.commit("g", {("orders", 0): 0})
        assert kafka.committed("g") == {("orders", 0): 0}


def test_rights_are_given_and_taken() -> None:
    with Broker({"authorizer.class.name": SECURE["authorizer.class.name"]}) as kafka:
        kafka.create_topic("orders")  # the kit itself needs no ACL
        kafka.produce("orders", "1")
        assert len(kafka.records("orders")) == 1
        assert send(kafka.bootstrap_servers) == "TOPIC_AUTHORIZATION_FAILED"
        kafka.allow("ANONYMOUS", "write", topic="ord*")
        assert send(kafka.bootstrap_servers) is None
        kafka.deny("User:ANONYMOUS", "Write", topic="orders", host="127.0.0.1")
        assert send(kafka.bootstrap_servers) == "TOPIC_AUTHORIZATION_FAILED"
        kafka.remove_acls("ANONYMOUS")
        kafka.allow("ANONYMOUS", "All", topic="*")
        assert send(kafka.bootstrap_servers) is None
        kafka.remove_acls()
        assert send(kafka.bootstrap_servers) == "TOPIC_AUTHORIZATION_FAILED"
        kafka.allow("alice", "Describe", group="billing")
        kafka.allow("alice", "IdempotentWrite")


def test_a_right_that_does_not_exist_is_refused_in_one_line() -> None:
    with Broker() as kafka:
        with pytest.raises(ValueError, match=r"^there is no operation 'Wirte' on a topic: did you mean 'Write'\?"):
            kafka.allow("alice", "Wirte", topic="orders")
        with pytest.raises(ValueError, match=r"^there is no operation 'Write' on a group: expected one of Read, Delete, Describe"):
            kafka.allow("alice", "Write", group="g")
        with pytest.raises(ValueError, match=r"^an ACL is about one resource, not about topic and group: make two"):
            kafka.allow("alice", "Read", topic="orders", group="g")
        with pytest.raises(BrokerError, match="no ACL for User:alice: SECURITY_DISABLED"):
            kafka.allow("alice", "Read", topic="orders")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_is_added_and_removed(mechanism: str) -> None:
    with Broker({**SECURE, "allow.everyone.if.no.acl.found": True}) as kafka:
        kafka.create_topic("orders")
        secured = next(each for each in kafka.embedded.listeners if each.listener_name == "SASL_PLAINTEXT")
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": "alice"}
        kafka.add_user("alice", "secret")
        assert send(f"127.0.0.1:{secured.port}", **login, sasl_password="secret") is None
        assert kafka.requests.of("Produce")[-1].principal == "User:alice"
        kafka.add_user("alice", "another")
        assert send(f"127.0.0.1:{secured.port}", **login, sasl_password="secret", message_timeout_ms=500) is not None
        assert send(f"127.0.0.1:{secured.port}", **login, sasl_password="another") is None
        kafka.remove_user("alice")
        assert send(f"127.0.0.1:{secured.port}", **login, sasl_password="another", message_timeout_ms=500) is not None
        with pytest.raises(BrokerError, match="user 'bob' cannot be altered: RESOURCE_NOT_FOUND"):
            kafka.remove_user("bob")


def test_kafka_python_and_aiokafka_see_the_changes() -> None:
    kafka_python, aiokafka = pytest.importorskip("kafka"), pytest.importorskip("aiokafka")
    with Broker({"num.partitions": 2}) as kafka:
        kafka.create_topic("orders")
        kafka.alter_topic("orders", retention_ms=1234, partitions=4)
        admin = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        reader = kafka_python.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
        assert reader.partitions_for_topic("orders") == {0, 1, 2, 3}
        reader.close()
        admin.close()
        kafka.produce("orders", ["1", "2"])
        kafka.commit("g", {("orders", 0): 1})

        async def read() -> bytes:
            settings = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
            async with aiokafka.AIOKafkaConsumer("orders", **settings) as consumer:
                value: bytes = (await consumer.getone()).value
                return value

        assert asyncio.run(read()) == b"2"
