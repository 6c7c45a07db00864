"""``twisted-kafka certificates``: what it makes is what a broker and its clients take, in all three kinds of store."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.budget import first_of, patient
from tests.support.development_certificates import SUFFIXES, make, properties, stores
from tests.support.two_brokers import port_of
from twisted_kafka import Broker
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.client.errors import AuthenticationError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.main import EXIT_USAGE, main

pytestmark = pytest.mark.medium

TIMEOUT_S = 30
FILES = {
    "ca.pem",
    "ca-key.pem",
    "password",
    *(f"{name}.{kind}" for name in ("broker", "client") for kind in ("pem", "p12", "jks")),
    *("truststore.p12", "truststore.jks"),
    *("broker.properties", "client.properties", "librdkafka.properties"),
}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates") / "new"
    make(directory)
    return directory


def test_it_prints_what_it_makes_for_the_owner_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    assert {Path(line) for line in capsys.readouterr().out.splitlines()} == {tmp_path / name for name in FILES}
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("kind", SUFFIXES)
def test_a_broker_and_a_client_with_each_kind_of_store(made: Path, kind: str, tmp_path: Path) -> None:
    written = {key: value for key, value in properties(made / "broker.properties").items() if not key.endswith("password")}
    settings = written | stores(made, "broker", kind) | {"listeners": "SSL://localhost:0"}
    with Broker(settings, data_dir=tmp_path) as broker:
        node = Node(1, "localhost", port_of(broker, "SSL"), None)
        for name in ("client", "another"):
            other = made if name == "client" else tmp_path / "another"
            if name == "another":
                make(other)
            mine = {
                "listeners": "SSL://localhost:0",
                "inter.broker.listener.name": "SSL",
                **stores(other, "client", kind),
                "ssl.truststore.location": stores(made, "client", kind)["ssl.truststore.location"],
            }
            if kind != "PEM":
                mine["ssl.truststore.password"] = (made / "password").read_text()
            client = InterBrokerClient(KafkaConfig.embedded(mine), "client", "test", SystemClock())
            answer = client.send(node, MetadataRequest(topics=[]))
            if name == "client":
                assert answer.result(TIMEOUT_S).cluster_id == broker.cluster_id
            else:  # of an authority that the broker does not trust
                with pytest.raises(AuthenticationError):
                    answer.result(TIMEOUT_S)
            client.stop()


def test_an_authority_that_is_there_signs_new_certificates(tmp_path: Path) -> None:
    make(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    make(tmp_path, "--days", "90")
    after = {name: (tmp_path / name).read_bytes() for name in FILES}
    stays = {"ca.pem", "ca-key.pem", "password", *(name for name in FILES if name.endswith(".properties"))}
    assert {name for name in FILES if before[name] == after[name]} == stays
    authority, broker = certificate(tmp_path / "ca.pem"), x509.load_pem_x509_certificates(after["broker.pem"])[0]
    broker.verify_directly_issued_by(authority)
    assert (broker.not_valid_after_utc - broker.not_valid_before_utc).days == 90
    assert x509.load_pem_x509_certificates(before["broker.pem"])[0].subject == broker.subject


def test_the_brokers_names_and_addresses(tmp_path: Path) -> None:
    make(tmp_path, "--host", "kafka.example", "--host", "10.0.0.7", "--host", "bücher.example")
    broker = x509.load_pem_x509_certificates((tmp_path / "broker.pem").read_bytes())[0]
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kafka.example", "xn--bcher-kva.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--days", "0"], "--days must be from 1 to 3650, not 0"),
        (["--host", "a..b"], "'a..b' is neither a host name nor an address"),
    ],
)
def test_what_it_cannot_make(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: str) -> None:
    assert main(["certificates", str(tmp_path / "new"), *options]) == EXIT_USAGE
    assert capsys.readouterr().err == f"twisted-kafka: {expected}\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("damage", ["no key", "torn", "another key"])
def test_an_authority_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    make(tmp_path)
    key = tmp_path / "ca-key.pem"
    if damage == "no key":
        key.unlink()
    elif damage == "torn":
        key.write_bytes(b"torn")
    else:
        make(tmp_path / "other")
        key.write_bytes((tmp_path / "other" / "ca-key.pem").read_bytes())
    assert main(["certificates", str(tmp_path)]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("twisted-kafka: ")


@pytest.fixture
def keytool() -> str:
    found = shutil.which("keytool")
    if found is None:
        pytest.skip("needs keytool")
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", first_of(["broker.p12", "broker.jks", "truststore.jks", "truststore.p12"]))
def test_keytool_reads_the_stores(made: Path, name: str, keytool: str) -> None:
    password = (made / "password").read_text()
    done = subprocess.run(
        [keytool, "-list", "-keystore", str(made / name), "-storepass", password],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert "contains 1 entry" in done.stdout, done.stdout + done.stderr
    assert ("PrivateKeyEntry" if name.startswith("broker") else "trustedCertEntry") in done.stdout
