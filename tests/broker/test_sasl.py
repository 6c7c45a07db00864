"""SASL on a real broker: its start, what it shows of its secrets, how a failure looks on the wire."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.sasl.wire import Wire
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header
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


def wire_to(broker: Broker) -> Wire:
    return Wire(int(broker.bootstrap_servers.rpartition(":")[2]))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker({**SETTINGS, "access.log.dir": tmp_path_factory.mktemp("access")}) as running:
        yield running


def test_the_authenticated_are_served_and_others_are_not(broker: Broker) -> None:
    wire = wire_to(broker)
    wire.log_in(ALICE)
    assert wire.send(MetadataRequest(), 1).brokers
    assert wire_to(broker).send(MetadataRequest(), 1) is None


def test_a_failure_is_answered_before_the_connection_is_closed(broker: Broker) -> None:
    wire = wire_to(broker)
    wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = encode_request_header(36, 2, 7, "wire") + SaslAuthenticateRequest(auth_bytes=b"\0alice\0no").encode(2)
    # Behind the token: the broker does not read it, and must not reset the connection because of it.
    wire.socket.sendall((struct.pack(">i", len(token)) + token) * 2)
    assert b"Invalid username or password" in wire.receive()
    assert wire.receive() is None


def test_tokens_without_headers(broker: Broker) -> None:
    wire = wire_to(broker)
    wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert wire.frame(ALICE) == b""
    assert wire.send(MetadataRequest(), 1).brokers
    refused = wire_to(broker)
    refused.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert refused.frame(b"\0alice\0no") is None


def test_secrets_are_hidden(broker: Broker) -> None:
    wire = wire_to(broker)
    wire.log_in(ALICE)
    resource = DescribeConfigsResource(resource_type=4, resource_name=str(broker.config.broker_id), configuration_keys=None)
    configs = wire.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results[0].configs
    assert "s3cret" not in str(configs) + repr(broker.config) + str(vars(broker))
    for each in configs:
        if each.name.endswith("jaas.config"):
            assert (each.value, each.is_sensitive) == (None, True)


def test_plain_text_listeners_say_that_there_is_nothing_to_authenticate() -> None:
    with Broker() as plain:
        wire = wire_to(plain)
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
