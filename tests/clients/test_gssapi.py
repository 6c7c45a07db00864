"""GSSAPI with real clients and a real KDC: right and wrong tickets, and sessions that end under load."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.logins import REFUSED_S, can_list_topics, succeeds
from tests.support.budget import patient
from tests.support.certificates import KEY_PASSWORD, Authority
from tests.support.clients.clients import READERS, SENDERS, java_command, java_tool, kcat, new_group
from tests.support.clients.go_programs import go_program
from tests.support.clients.served import ServedBroker
from tests.support.eventually import WAIT_S
from tests.support.kdc import REALM
from tests.support.ports import free_port
from tests.support.security.kerberos_realm import Realm, running_realm

pytestmark = pytest.mark.clients

PYTHON_CLIENTS = ("kafka-python", "aiokafka")
"""confluent-kafka's wheels have no GSSAPI; kcat is librdkafka with it."""
VALUES = [b"value %d" % number for number in range(200)]
SHORT_TICKET_S = 2
CLOCK_SKEW_S = 1
"""How long after its end a ticket is still accepted."""
SESSION_MS = 2_000


class Kerberized(NamedTuple):
    """A broker with GSSAPI, and its realm."""

    broker: ServedBroker
    realm: Realm
    folder: Path
    plain_text: str
    tls: str

    @property
    def trusted(self) -> Path:
        return self.folder / "ca.pem"


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    folder = tmp_path_factory.mktemp("gssapi")
    with running_realm(folder / "realm", clock_skew_s=CLOCK_SKEW_S) as realm:
        authority = Authority()
        authority.write_trust(folder / "ca.pem")
        authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pem(folder / "broker.pem", KEY_PASSWORD)
        settings = {
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 2,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "broker.pem",
            "ssl.key.password": KEY_PASSWORD,
            **realm.settings("sasl_plaintext"),
            "listener.name.sasl_ssl.gssapi.sasl.jaas.config": realm.jaas(),
            "listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms": SESSION_MS,
        }
        broker = ServedBroker(folder / "data", *(f"{key}={value}" for key, value in settings.items()))
        port, tls_port = free_port(), free_port()
        broker.listeners += f",SASL_PLAINTEXT://localhost:{port},SASL_SSL://localhost:{tls_port}"
        broker.start()
        yield Kerberized(broker, realm, folder, f"localhost:{port}", f"localhost:{tls_port}")
        assert broker.stop() == 0
        text = broker.output.read_text()
        assert "Traceback" not in text, text


def settings_of(client: str, trusted: Path | None = None, service: str = "kafka") -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT" if trusted is None else "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service,
    }
    if client == "aiokafka":
        settings["sasl_kerberos_domain_name"] = "localhost"
    if trusted is not None and client == "kafka-python":
        settings["ssl_cafile"] = str(trusted)
    elif trusted is not None:
        import ssl

        settings["ssl_context"] = ssl.create_default_context(cafile=str(trusted))
    return settings


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_each_client_writes_and_reads(kerberized: Kerberized, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", kerberized.realm.log_in(kerberized.realm.users_keytab, "alice"))
    for trusted, address in ((None, kerberized.plain_text), (kerberized.trusted, kerberized.tls)):
        settings, topic = settings_of(client, trusted), f"{client}.{address.rpartition(':')[2]}"
        SENDERS[client](address, topic, VALUES, **settings)
        assert READERS[client](address, topic, len(VALUES), new_group(), **settings) == VALUES
    lines = [json.loads(line) for path in kerberized.broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert {line["principal"] for line in lines if line["listener"].startswith("SASL") and line["api"] == "Produce"} <= {
        "User:alice"
    }


@pytest.mark.long
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_wrong_tickets_do_not_get_in(kerberized: Kerberized, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    realm, address = kerberized.realm, kerberized.plain_text
    monkeypatch.setenv("KRB5CCNAME", realm.log_in(realm.users_keytab, "bob"))
    assert can_list(client, address, settings_of(client))
    assert not can_list(client, address, settings_of(client, service="http"), REFUSED_S)
    assert "Failed authentication with" in kerberized.broker.output.read_text()
    monkeypatch.setenv("KRB5CCNAME", realm.log_in(realm.users_keytab, "bob", f"{SHORT_TICKET_S}s"))
    time.sleep(SHORT_TICKET_S + CLOCK_SKEW_S + 0.5)
    assert not can_list(client, address, settings_of(client), REFUSED_S)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberized.folder / 'nothing'}")
    assert not can_list(client, address, settings_of(client), REFUSED_S)


def can_list(client: str, address: str, settings: dict[str, Any], wait_s: float = WAIT_S) -> bool:
    """Whether a client gets in; those that cannot begin raise errors of gssapi's."""
    from gssapi.raw.misc import GSSError

    try:
        return can_list_topics(client, address, settings, wait_s)
    except GSSError:
        return False


@pytest.mark.long
def test_kcat(kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch) -> None:
    if kcat() is None:
        pytest.skip("needs kcat")
    realm = kerberized.realm
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberized.folder / 'kcat.ccache'}")

    def words(protocol: str, address: str, principal: str, service: str) -> list[str]:
        options = {
            "security.protocol": protocol,
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.kerberos.principal": f"{principal}@{REALM}",
            "sasl.kerberos.keytab": realm.users_keytab,
            "ssl.ca.location": kerberized.trusted,
            "log_level": 0,
        }
        return [
            kcat() or "",
            "-b",
            address,
            "-L",
            "-m",
            "5",
            *(word for key in options for word in ("-X", f"{key}={options[key]}")),
        ]

    for protocol, address in (("sasl_plaintext", kerberized.plain_text), ("sasl_ssl", kerberized.tls)):
        assert lists_a_broker(words(protocol, address, "alice", "kafka"))
        assert not lists_a_broker(words(protocol, address, "alice", "http"))
    (kerberized.folder / "kcat.ccache").unlink()
    assert not lists_a_broker(words("sasl_plaintext", kerberized.plain_text, "nobody", "kafka"))


def lists_a_broker(command: list[str]) -> bool:
    done = subprocess.run(command, capture_output=True, timeout=patient(60), check=False)
    missing = b"No worthy mechs found"
    if missing in done.stderr + done.stdout:
        pytest.skip("kcat needs libsasl2-modules-gssapi-mit")
    return b"1 brokers" in done.stdout


def test_franz_go(kerberized: Kerberized) -> None:
    program, realm = go_program(kerberized.folder, "kerberos"), kerberized.realm

    def words(service: str, user: str) -> list[str]:
        return [program, kerberized.plain_text, service, user, REALM, str(realm.users_keytab)]

    assert succeeds(words("kafka", "alice"), str(realm.krb5_conf), b"1\n")
    assert not succeeds(words("http", "alice"), str(realm.krb5_conf), b"1\n")
    assert not succeeds(words("kafka", "nobody"), str(realm.krb5_conf), b"1\n")


def java_settings(kerberized: Kerberized, name: str, protocol: str, user: str = "alice", service: str = "kafka") -> Path:
    path = kerberized.folder / f"{name}.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name={service}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={kerberized.trusted}\n"
        f"sasl.jaas.config={kerberized.realm.jaas(user)}\n"
    )
    return path


@pytest.mark.long
def test_java(kerberized: Kerberized, java: None) -> None:
    tool = "org.apache.kafka.tools.TopicCommand"
    for protocol, address in (("SASL_PLAINTEXT", kerberized.plain_text), ("SASL_SSL", kerberized.tls)):
        right = java_settings(kerberized, "right", protocol)
        java_tool(tool, "--bootstrap-server", address, "--list", "--command-config", str(right))
    for user, service, why in (("alice", "http", b"SaslAuthenticationException"), ("nobody", "kafka", b"LoginException")):
        wrong = java_settings(kerberized, "wrong", "SASL_PLAINTEXT", user, service)
        command = java_command(tool, "--bootstrap-server", kerberized.plain_text, "--list", "--command-config", str(wrong))
        done = subprocess.run(command, capture_output=True, timeout=patient(60), check=False)
        assert why in done.stdout + done.stderr, done


def handshakes(broker: ServedBroker, client_id: str) -> list[int]:
    """Return how often each connection of a client has begun to authenticate."""
    lines = [json.loads(line) for path in broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]
    counts = Counter(line["connection"] for line in lines if line["api"] == "SaslHandshake" and line["client_id"] == client_id)
    return sorted(counts.values())


@pytest.mark.long
def test_java_authenticates_again_under_load(kerberized: Kerberized, java: None) -> None:
    settings = java_settings(kerberized, "producer", "SASL_PLAINTEXT")
    settings.write_text(f"bootstrap.servers={kerberized.plain_text}\nclient.id=java\n{settings.read_text()}")
    rate = 500
    count = rate * 4 * SESSION_MS // 1000
    words = ["--topic", "java", "--num-records", str(count), "--record-size", "100", "--throughput", str(rate)]
    told = java_tool("org.apache.kafka.tools.ProducerPerformance", *words, "--producer.config", str(settings))
    assert f"{count} records sent" in told
    assert "Exception" not in told
    assert handshakes(kerberized.broker, "java")[-1] >= 3
