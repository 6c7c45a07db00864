"""What a broker says of real clients' mistakes."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.eventually import WAIT_S
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.testing import Broker

confluent_kafka = pytest.importorskip("confluent_kafka")

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'
    ),
}


def producer(broker: Broker, **settings: object) -> Any:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "log_level": 0, **named})


def told(broker: Broker, words: str) -> None:
    broker.wait_for(lambda: broker.diagnoses, lambda lines: any(words in line for line in lines), words)


def send(broker: Broker, data: bytes) -> None:
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), WAIT_S) as connection:
        connection.sendall(data)
        connection.recv(1)


def framed(request: Message, version: int) -> bytes:
    frame = encode_request_header(request.KEY, version, 1, "shop") + request.encode(version)
    return len(frame).to_bytes(4, "big") + frame


def test_tls_against_plain_text() -> None:
    with Broker() as broker:
        client = producer(broker, security_protocol="SSL")
        told(broker, "A client at 127.0.0.1 was disconnected: Invalid receive")
        assert "the client speaks TLS, but this listener is plain text" in broker.diagnoses[0]
        del client


def test_plain_text_against_tls(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.issue("CN=broker").write_pem(tmp_path / "broker.pem")
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.write_trust(tmp_path / "trust.pem"),
    }
    with Broker(settings) as broker:
        send(broker, framed(ApiVersionsRequest(), 0))
        told(broker, "the client speaks Kafka without TLS")


def test_sasl_that_is_missing() -> None:
    with Broker(SASL) as broker:
        client = producer(broker)
        client.poll(0)
        send(broker, framed(MetadataRequest(topics=[]), 1))
        told(broker, "set security.protocol=SASL_PLAINTEXT, sasl.mechanism and a password")
        del client


def test_sasl_where_there_is_none_and_a_wrong_password() -> None:
    secrets = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "wrong"}
    with Broker() as broker, Broker(SASL) as secured:
        clients = producer(broker, **secrets), producer(secured, **secrets)
        told(broker, "wants to authenticate, but listener PLAINTEXT is PLAINTEXT")
        told(secured, "cannot log in on listener SASL_PLAINTEXT")
        del clients


def test_a_version_that_is_not_served() -> None:
    with Broker(persona="2.8") as broker:
        send(broker, framed(MetadataRequest(topics=[]), 12))
        told(
            broker, "Client 'shop' at 127.0.0.1 was disconnected: Metadata v12 is not supported, only v0 to v11. Let the client ask"
        )


def test_a_topic_that_nobody_creates() -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        client = producer(broker)
        for _ in range(3):
            client.list_topics("nothing", 10)
        told(broker, "asks for topic nothing, which does not exist")


def test_a_message_that_is_too_large_and_a_clock_that_is_wrong() -> None:
    with Broker() as broker:
        broker.create_topic("orders", max_message_bytes=1000, message_timestamp_before_max_ms=1000)
        client = producer(broker)
        client.produce("orders", b"x" * 5000)
        client.flush(30)
        client.produce("orders", b"x", timestamp=1)
        client.flush(30)
        told(broker, "larger than max.message.bytes of topic orders")
        told(broker, "sends records to topic orders whose time is too far from the broker's")


def test_a_producer_that_is_fenced() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        first, second = (producer(broker, transactional_id="till") for _ in range(2))
        first.init_transactions(20)
        first.begin_transaction()
        first.produce("orders", b"x")
        first.flush(30)
        second.init_transactions(20)
        first.produce("orders", b"y")
        with pytest.raises(confluent_kafka.KafkaException):
            first.flush(30)
        told(broker, "is fenced: a newer producer has transactional id till")


def test_a_member_that_was_away_for_too_long() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": "shop", "log_level": 0}
        )
        consumer.subscribe(["orders"])
        while not consumer.assignment():  # librdkafka's close may hang before
            consumer.poll(0.05)
        with broker.faults.inject(api="Heartbeat", group="g", close="before"):  # not handled: that would begin a new session
            broker.clock.advance(seconds=46)
            broker.wait_for_group("g", "Empty")
            with pytest.raises(confluent_kafka.KafkaException):
                consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 0)], asynchronous=False)
        told(broker, "is no member of group g any more")
        consumer.close()
