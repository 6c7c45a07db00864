"""TLS with real clients: OpenSSL, librdkafka, kafka-python, aiokafka and the Java tools, with good and bad certificates."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.logins import is_refused
from tests.support.budget import patient
from tests.support.certificates import KEY_PASSWORD, PASSWORD, Authority, Identity
from tests.support.clients.clients import READERS, SENDERS, java_command, new_group
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port

pytestmark = pytest.mark.clients

VALUES = [b"value %d " % number * (number % 50 + 1) for number in range(2000)]
ALICE = "User:CN=alice,OU=Engineering,O=Tests"


class Tls(NamedTuple):
    """A broker with TLS listeners, and what its clients need."""

    broker: ServedBroker
    folder: Path
    authority: Authority
    address: str
    other_name: str

    def client(self, name: str, identity: Identity | None) -> Path | None:
        return None if identity is None else identity.write_pem(self.folder / f"{name}.pem")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """SSL asks for certificates; OTHER does not, and its own certificate is for another host."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    authority.write_trust(folder / "ca.pem")
    Authority("CN=Strangers").write_trust(folder / "strangers.pem")
    authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pem(folder / "broker.pem", KEY_PASSWORD)
    authority.issue("CN=other,O=Tests", ["other.example"]).write_pkcs12(folder / "other.p12")
    port, other_port = free_port(), free_port()
    broker = ServedBroker(
        folder / "data",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=2",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,OTHER:SSL",
        "ssl.client.auth=required",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={folder / 'broker.pem'}",
        f"ssl.key.password={KEY_PASSWORD}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={folder / 'ca.pem'}",
        "listener.name.other.ssl.client.auth=none",
        "listener.name.other.ssl.keystore.type=PKCS12",
        f"listener.name.other.ssl.keystore.location={folder / 'other.p12'}",
        f"listener.name.other.ssl.keystore.password={PASSWORD}",
    )
    broker.listeners += f",SSL://localhost:{port},OTHER://localhost:{other_port}"
    broker.start()
    yield Tls(broker, folder, authority, f"localhost:{port}", f"localhost:{other_port}")
    assert broker.stop() == 0
    text = broker.output.read_text()
    assert "Failed authentication with" in text
    assert not any(secret in text for secret in (PASSWORD, KEY_PASSWORD, "PRIVATE KEY")), text
    assert "Traceback" not in text, text


def settings_of(client: str, trusted: Path, identity: Path | None) -> dict[str, object]:
    if client == "confluent-kafka":
        settings: dict[str, object] = {"security.protocol": "ssl", "ssl.ca.location": str(trusted)}
        if identity is not None:
            settings |= {"ssl.certificate.location": str(identity), "ssl.key.location": str(identity)}
        return settings
    if client == "kafka-python":
        mine = None if identity is None else str(identity)
        return {"security_protocol": "SSL", "ssl_cafile": str(trusted), "ssl_certfile": mine, "ssl_keyfile": mine}
    context = ssl.create_default_context(cafile=str(trusted))
    if identity is not None:
        context.load_cert_chain(identity)
    return {"security_protocol": "SSL", "ssl_context": context}


@pytest.mark.parametrize("client", SENDERS)
def test_each_client_writes_and_reads_with_its_certificate(tls: Tls, client: str) -> None:
    identity = tls.client("alice", tls.authority.issue("CN=alice,OU=Engineering,O=Tests"))
    settings = settings_of(client, tls.folder / "ca.pem", identity)
    topic = f"tls.{client}"
    SENDERS[client](tls.address, topic, VALUES, **settings)
    assert READERS[client](tls.address, topic, len(VALUES), new_group(), **settings) == VALUES
    assert READERS["confluent-kafka"](tls.broker.bootstrap, topic, len(VALUES)) == VALUES  # the same topic, without TLS
    lines = [json.loads(line) for path in tls.broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert ALICE in {line["principal"] for line in lines if line["listener"] == "SSL"}


BAD = ("no certificate", "unknown authority", "expired", "broker not trusted", "wrong host name")
# The two that try again and again until their time is over are asked about one case only among the quick tests.
BAD_OF_CLIENTS = [
    pytest.param(client, case, marks=() if client == "aiokafka" or case == "no certificate" else pytest.mark.slow)
    for client in SENDERS
    for case in BAD
]


@pytest.mark.parametrize(("client", "case"), BAD_OF_CLIENTS)
def test_who_should_not_get_in_does_not(tls: Tls, client: str, case: str) -> None:
    identities: dict[str, Identity | None] = {
        "no certificate": None,
        "unknown authority": Authority("CN=Strangers").issue("CN=mallory"),
        "expired": tls.authority.issue("CN=late", days=(-2, -1)),
    }
    identity = tls.client(case.replace(" ", "-"), identities.get(case, tls.authority.issue("CN=alice")))
    trusted = tls.folder / ("strangers.pem" if case == "broker not trusted" else "ca.pem")
    address = tls.other_name if case == "wrong host name" else tls.address
    assert is_refused(client, address, settings_of(client, trusted, identity))


# OpenSSL's own client


@pytest.fixture
def s_client(tls: Tls) -> Callable[..., tuple[int, str]]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")

    def run(address: str, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        command = [
            "openssl",
            "s_client",
            "-connect",
            address,
            "-CAfile",
            str(tls.folder / "ca.pem"),
            "-verify_return_error",
            *words,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=patient(30), check=False)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    return run


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_with_a_certificate(tls: Tls, s_client: Callable[..., tuple[int, str]], version: str) -> None:
    mine = str(tls.client("alice", tls.authority.issue("CN=alice,OU=Engineering,O=Tests")))
    status, told = s_client(
        tls.address, version, "-cert", mine, "-key", mine, "-servername", "localhost", "-verify_hostname", "localhost"
    )
    assert status == 0, told
    assert "Verify return code: 0 (ok)" in told
    assert "O = Tests, CN = Test CA" in told or "O=Tests, CN=Test CA" in told  # the acceptable authorities are told


def test_openssl_resumes_its_session(tls: Tls, s_client: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    session = str(tmp_path / "session")
    status, told = s_client(tls.other_name, "-tls1_2", "-sess_out", session)
    assert status == 0, told
    assert "New, TLSv1.2" in told
    status, told = s_client(tls.other_name, "-tls1_2", "-sess_in", session)
    assert status == 0, told
    assert "Reused, TLSv1.2" in told


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "certificate required"),
        (("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), "protocol version"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"), "handshake failure"),
    ],
)
def test_openssl_is_told_why_it_is_refused(
    tls: Tls, s_client: Callable[..., tuple[int, str]], words: tuple[str, ...], expected: str
) -> None:
    _, told = s_client(tls.address, *words, "-ign_eof")
    assert expected in told


# Java


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_java_tools_with_a_certificate(tls: Tls, version: str) -> None:
    settings = java_settings(tls, tls.authority.issue("CN=alice,OU=Engineering,O=Tests"), f"ssl.enabled.protocols={version}")
    topic = f"tls.java.{version}"
    data = b"".join(value + b"\n" for value in VALUES)
    words = ["--bootstrap-server", tls.address, "--topic", topic]
    status, told = java("kafka.tools.ConsoleProducer", *words, "--producer.config", str(settings), stdin=data)
    assert status == 0, told
    limits = ["--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", "60000"]
    config = ["--consumer.config", str(settings)]
    status, told = java("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, *limits, *config)
    assert status == 0, told
    assert told.split("\n")[: len(VALUES)] == [value.decode() for value in VALUES]


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("case", ["no certificate", "unknown authority", "expired", "wrong host name"])
def test_java_tools_that_should_not_get_in_do_not(tls: Tls, case: str) -> None:
    identities: dict[str, Identity | None] = {
        "no certificate": None,
        "unknown authority": Authority("CN=Strangers").issue("CN=mallory"),
        "expired": tls.authority.issue("CN=late", days=(-2, -1)),
    }
    identity = identities.get(case, tls.authority.issue("CN=alice"))
    address = tls.other_name if case == "wrong host name" else tls.address
    settings = java_settings(tls, identity, "default.api.timeout.ms=8000", "request.timeout.ms=5000")
    words = ["--bootstrap-server", address, "--command-config", str(settings), "--list"]
    status, told = java("org.apache.kafka.tools.TopicCommand", *words)
    assert status != 0
    assert "SslAuthenticationException" in told, told


def java_settings(tls: Tls, identity: Identity | None, *more: str) -> Path:
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={tls.folder / 'ca.pem'}", *more]
    if identity is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={tls.client('java', identity)}"]
    path = tls.folder / "java.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def java(name: str, *words: str, stdin: bytes | None = None) -> tuple[int, str]:
    done = subprocess.run(java_command(name, *words), input=stdin, capture_output=True, timeout=patient(120), check=False)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")
