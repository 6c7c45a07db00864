"""SASL on a real broker: its start, what it shows of its secrets, how a failure looks on the wire."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.security.sasl_wire import Wire
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.client.errors import AuthenticationError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.administration.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.security.scram.formulas import SCRAM_SHA_512, salted_password
from twisted_kafka.timing.clock import SystemClock

KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
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


# Between brokers.


def _speaking(mechanism: str, settings: dict[str, str]) -> KafkaConfig:
    """The settings of a broker that logs in at others with ``mechanism``."""
    mechanisms = {"sasl.enabled.mechanisms": mechanism, "sasl.mechanism.inter.broker.protocol": mechanism}
    return KafkaConfig.embedded({key: SETTINGS[key] for key in SETTINGS if key != KEY} | mechanisms | settings)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "why"),
    [
        ("PLAIN", 'x.PlainLoginModule required username="alice" password="alice-s3cret";', None),
        ("PLAIN", 'x.PlainLoginModule required username="alice" password="no-s3cret";', "Invalid username or password"),
        ("SCRAM-SHA-512", 'x.ScramLoginModule required username="dave" password="dave-s3cret";', None),
        ("SCRAM-SHA-512", 'x.ScramLoginModule required username="dave" password="no-s3cret";', "invalid credentials"),
        ("OAUTHBEARER", 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";', None),
        ("SCRAM-SHA-256", 'x.ScramLoginModule required username="dave" password="dave-s3cret";', "not have the mechanism"),
    ],
)
def test_a_client_of_another_broker_logs_in(between: Broker, mechanism: str, jaas: str, why: str | None) -> None:
    config = _speaking(mechanism, {f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": jaas})
    client = InterBrokerClient(config, "test-client", "test", SystemClock())
    port = int(between.bootstrap_servers.split(",")[0].rpartition(":")[2])
    try:
        answer = client.send(Node(1, "127.0.0.1", port, None), MetadataRequest(topics=[]))
        if why is None:
            assert answer.result(30).brokers
        else:
            with pytest.raises(AuthenticationError, match=why) as raised:
                answer.result(30)
            assert "s3cret" not in str(raised.value)
    finally:
        client.stop()


@pytest.fixture(scope="module")
def between() -> Iterator[Broker]:
    settings = {
        **SETTINGS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.jaas.config": "x.ScramLoginModule required; x.OAuthBearerLoginModule required;",
    }
    with Broker(settings) as running:
        (port,) = (each.port for each in running.listeners if each.listener_name == "PLAINTEXT")
        salted = salted_password(SCRAM_SHA_512, b"dave-s3cret", b"salt", 4096)
        upsertion = ScramCredentialUpsertion(name="dave", mechanism=2, iterations=4096, salt=b"salt", salted_password=salted)
        Wire(port).send(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        yield running


@pytest.mark.parametrize(
    ("mechanism", "jaas", "why"),
    [
        ("DIGEST-MD5", "", "Invalid value 'DIGEST-MD5' for sasl.mechanism.inter.broker.protocol"),
        ("PLAIN", "x.PlainLoginModule required;", "must have username and password"),
        ("OAUTHBEARER", "x.OAuthBearerLoginModule required;", "unsecuredLoginStringClaim_sub"),
    ],
)
def test_settings_that_are_of_no_use_between_brokers_are_named(mechanism: str, jaas: str, why: str) -> None:
    config = _speaking(mechanism, {"sasl.jaas.config": jaas})
    client = InterBrokerClient(config, "test-client", "test", SystemClock())
    with pytest.raises(ConfigError, match=why):
        client.send(Node(1, "127.0.0.1", 1, None), MetadataRequest(topics=[])).result(30)
    client.stop()


# Settings that change while the broker runs.


def test_users_of_plain_change_while_the_broker_runs(tmp_path: Path) -> None:
    settings = {**SETTINGS, "password.encoder.secret": "encoder-s3cret"}
    with Broker(settings, data_dir=tmp_path) as running:
        old = wire_to(running)
        old.log_in(ALICE)
        for jaas, error in (("nonsense", ErrorCode.INVALID_REQUEST), ('x.PlainLoginModule required user_erin="erin-s3cret";', 0)):
            config = IncrementalAlterConfigsRequestAlterableConfig(name=KEY, config_operation=0, value=jaas)
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=4, resource_name=str(running.config.broker_id), configs=[config]
            )
            answer = old.send(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == error, answer
            assert "s3cret" not in str(answer)

        def can_log_in() -> bool:
            wire = wire_to(running)
            wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            return bool(wire.send(SaslAuthenticateRequest(auth_bytes=b"\0erin\0erin-s3cret"), 2).error_code == 0)

        eventually(can_log_in)
        late = wire_to(running)
        late.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert late.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert old.send(MetadataRequest(), 1).brokers
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"erin-s3cret" not in stored
