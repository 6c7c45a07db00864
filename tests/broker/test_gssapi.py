"""GSSAPI on a real broker, and between brokers."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.kdc import REALM
from tests.support.security.kerberos_realm import LOGIN_MODULE, NO_LAYER, SERVICE, GssapiClient, Realm, running_realm
from tests.support.security.sasl_wire import Wire
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.client.errors import AuthenticationError, ConnectError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.system.installation import install_command
from twisted_kafka.timing.clock import SystemClock

LISTENERS = {"listeners": "SASL_PLAINTEXT://localhost:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
SHORT_TICKET_S = 4


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm"), clock_skew_s=1) as running:
        yield running


@pytest.fixture(scope="module")
def broker(realm: Realm) -> Iterator[Broker]:
    with Broker({**LISTENERS, **realm.settings("sasl_plaintext"), "connection.failed.authentication.delay.ms": "20"}) as running:
        yield running


def client_with(realm: Realm, **changed: str) -> InterBrokerClient:
    settings = {"sasl.mechanism.inter.broker.protocol": "GSSAPI", **LISTENERS, **realm.settings("sasl_plaintext")}
    return InterBrokerClient(KafkaConfig.embedded({**settings, **changed}), "test-client", "test", SystemClock())


def ask(client: InterBrokerClient, broker: Broker) -> "Future[Any]":
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    return client.send(Node(1, "localhost", port, None), MetadataRequest(topics=[]))


def test_a_client_of_another_broker_logs_in(realm: Realm, broker: Broker) -> None:
    client = client_with(realm)
    try:
        assert ask(client, broker).result(30).brokers
        client.disconnect(1)
        assert ask(client, broker).result(30).brokers
    finally:
        client.stop()


def test_many_log_in_at_once(realm: Realm, broker: Broker) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])

    def log_in(number: int) -> int:
        client, wire = GssapiClient(realm, ("alice", "bob")[number % 2]), Wire(port)
        wire.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        told = wire.send(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
        told = wire.send(SaslAuthenticateRequest(auth_bytes=client.second(bytes(told.auth_bytes))), 2)
        assert client.offered(bytes(told.auth_bytes)) == NO_LAYER
        assert wire.send(SaslAuthenticateRequest(auth_bytes=client.choose()), 2).error_code == 0
        return len(wire.send(MetadataRequest(topics=[]), 1).brokers)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(log_in, range(80))) == [1] * 80


@pytest.mark.parametrize(
    ("settings", "error", "why"),
    [
        ({"sasl.kerberos.service.name": "http"}, AuthenticationError, "invalid credentials with SASL mechanism GSSAPI"),
        ({"sasl.kerberos.service.name": "ftp"}, ConnectError, "no ticket for ftp@localhost: Server ftp/localhost@"),
    ],
)
def test_a_client_that_cannot_log_in_says_why(
    realm: Realm, broker: Broker, settings: dict[str, str], error: type[Exception], why: str
) -> None:
    client = client_with(realm, **settings)
    try:
        with pytest.raises(error, match=why) as raised:
            ask(client, broker).result(30)
        assert "\n" not in str(raised.value)
    finally:
        client.stop()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('useKeyTab=true keyTab="/no/such" principal=x', "x cannot log in with /no/such"),
        ('useKeyTab=true keyTab="/no/such" principal=x isInitiator=false', "isInitiator=false"),
        ('keyTab="/no/such" principal=x', "useKeyTab=true"),
    ],
)
def test_settings_that_are_of_no_use_between_brokers_are_named(realm: Realm, broker: Broker, options: str, why: str) -> None:
    client = client_with(realm, **{JAAS: f"{LOGIN_MODULE} required {options};"})
    with pytest.raises(ConfigError, match=why):
        ask(client, broker).result(30)
    client.stop()


@pytest.mark.long
def test_a_ticket_that_has_expired_is_replaced(realm: Realm, broker: Broker) -> None:
    keytab = realm.add("hasty", lifetime=f"{SHORT_TICKET_S} seconds")
    client = client_with(realm, **{JAAS: realm.jaas("hasty", keytab)})
    try:
        for _ in range(3):
            assert ask(client, broker).result(30).brokers
            client.disconnect(1)
            time.sleep(SHORT_TICKET_S * 0.7)  # at first it is renewed, then it has expired
    finally:
        client.stop()


@pytest.mark.long
def test_clients_of_several_brokers_are_accepted_while_the_kdc_is_down(realm: Realm, broker: Broker) -> None:
    """The broker itself asks no KDC, and who has a ticket still gets in."""
    client = client_with(realm)
    try:
        assert ask(client, broker).result(30).brokers
        realm.stop()
        client.disconnect(1)
        assert ask(client, broker).result(30).brokers
        late = client_with(realm)
        with pytest.raises(ConnectError, match="Cannot contact any KDC"):
            ask(late, broker).result(40)
        late.stop()
    finally:
        client.stop()
        realm.run()


def test_without_python_gssapi_the_start_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    settings = {
        **LISTENERS,
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        JAAS: f'{LOGIN_MODULE} required useKeyTab=true storeKey=true keyTab="x" principal="{SERVICE}@{REALM}";',
    }
    with pytest.raises(StartError) as raised:
        Broker(settings, data_dir=tmp_path).start()
    text = str(raised.value)
    assert text.startswith("GSSAPI (listener SASL_PLAINTEXT) needs python-gssapi")
    assert install_command("kerberos") in text
    assert "\n" not in text
