"""SASL on a real broker: its start, what it shows of its secrets, how a failure looks on the wire."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    KEY: 'x.PlainLoginModule required user_alice="alice-s3cret";',
    "connection.failed.authentication.delay.ms": "20",
}
ALICE = b"\0alice\0alice-s3cret"


class Wire:
    """A client that speaks over a socket."""

    def __init__(self, broker: Broker) -> None:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def frame(self, data: bytes) -> bytes | None:
        """Send a frame; return the next one from the broker, None if it has closed the connection."""
        self.socket.sendall(struct.pack(">i", len(data)) + data)
        return self.receive()

    def receive(self) -> bytes | None:
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                return None
            found += more
        return found

    def send(self, request: Message, version: int) -> Any:
        data = self.frame(encode_request_header(request.KEY, version, 7, "wire") + request.encode(version))
        if data is None:
            return None
        _, offset = parse_response_header(request.KEY, version, data)
        return response_class(request.KEY).decode(data, version, offset)

    def log_in(self) -> None:
        assert self.send(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert self.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == 0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker({**SETTINGS, "access.log.dir": tmp_path_factory.mktemp("access")}) as running:
        yield running


def test_the_authenticated_are_served_and_others_are_not(broker: Broker) -> None:
    wire = Wire(broker)
    wire.log_in()
    assert wire.send(MetadataRequest(), 1).brokers
    assert Wire(broker).send(MetadataRequest(), 1) is None


def test_a_failure_is_answered_before_the_connection_is_closed(broker: Broker) -> None:
    wire = Wire(broker)
    wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = encode_request_header(36, 2, 7, "wire") + SaslAuthenticateRequest(auth_bytes=b"\0alice\0no").encode(2)
    # Behind the token: the broker does not read it, and must not reset the connection because of it.
    wire.socket.sendall((struct.pack(">i", len(token)) + token) * 2)
    assert b"Invalid username or password" in wire.receive()
    assert wire.receive() is None


def test_tokens_without_headers(broker: Broker) -> None:
    wire = Wire(broker)
    wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert wire.frame(ALICE) == b""
    assert wire.send(MetadataRequest(), 1).brokers
    refused = Wire(broker)
    refused.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert refused.frame(b"\0alice\0no") is None


def test_secrets_are_hidden(broker: Broker) -> None:
    wire = Wire(broker)
    wire.log_in()
    resource = DescribeConfigsResource(resource_type=4, resource_name=str(broker.config.broker_id), configuration_keys=None)
    configs = wire.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results[0].configs
    assert "s3cret" not in str(configs) + repr(broker.config) + str(vars(broker))
    for each in configs:
        if each.name.endswith("jaas.config"):
            assert (each.value, each.is_sensitive) == (None, True)


def test_plain_text_listeners_say_that_there_is_nothing_to_authenticate() -> None:
    with Broker() as plain:
        wire = Wire(plain)
        assert wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert wire.send(SaslAuthenticateRequest(), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({KEY: None}, f"^{KEY} must be set"),
        ({KEY: "x.PlainLoginModule required s3cret"}, f"^Invalid value for {KEY}: "),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "^Invalid value 'DIGEST-MD5' in sasl.enabled.mechanisms"),
    ],
)
def test_bad_settings_refuse_the_start_in_one_line(changes: dict[str, str], why: str, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=why) as raised:
        Broker(SETTINGS | changes, data_dir=tmp_path).start()
    assert "\n" not in str(raised.value)
    assert "s3cret" not in str(raised.value)
