"""Certificates changed while the broker runs, in the metadata store as Kafka's own tools write them there."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from tests.broker.running import Running
from tests.support.certificates import Authority
from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.broker import kafka_server
from twisted_kafka.broker.broker import Broker, StartError

pytestmark = pytest.mark.medium

CA = Authority()
FIRST = CA.issue("CN=broker,O=Tests", ["localhost"])
SECOND = CA.issue("CN=broker,O=Tests", ["localhost"])
ANOTHER = CA.issue("CN=another,O=Tests", ["localhost"])
KEY = "listener.name.ssl.ssl.keystore.location"


def serial(running: Running, listener: str = "SSL") -> int:
    pem = ssl.get_server_certificate(("127.0.0.1", running.port(listener)), timeout=WAIT_S)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(FIRST.write_pem(tmp_path / "key.pem")),
    }
    with Broker(settings, data_dir=tmp_path) as broker:
        yield Running(broker)


def test_a_key_store_at_another_place_and_one_that_is_replaced(running: Running, tmp_path: Path) -> None:
    assert serial(running) == FIRST.certificate.serial_number
    path = SECOND.write_pem(tmp_path / "second.pem")
    running.write({KEY: str(path)})
    eventually(lambda: serial(running) == SECOND.certificate.serial_number)
    FIRST.write_pem(path)
    running.write({KEY: str(path)})  # as kafka-configs does to have a file read anew
    eventually(lambda: serial(running) == FIRST.certificate.serial_number)
    running.write({})
    eventually(lambda: serial(running) == FIRST.certificate.serial_number)


def test_a_file_that_is_replaced_is_noticed_without_being_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_server, "_CERTIFICATES_MS", 20)
    path = FIRST.write_pem(tmp_path / "key.pem")
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    with Broker(settings, data_dir=tmp_path) as broker:
        running = Running(broker)
        assert serial(running) == FIRST.certificate.serial_number
        SECOND.write_pem(path)
        eventually(lambda: serial(running) == SECOND.certificate.serial_number)
        left = broker.metrics.value("kafka.network:SslCertificates", "DaysUntilExpiry", listener="SSL", store="ssl.keystore")
        assert isinstance(left, float)
        assert 29 < left < 30


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"location": "late.pem"}, "The certificate CN=late,O=Tests of ssl.keystore.location .*late.pem has expired"),
        (
            {"location": "absent.pem"},
            "Cannot read ssl.keystore.location .*absent.pem: No such file or directory; twisted-kafka certificates DIR",
        ),
        (
            {"location": "key.p12", "type": "PKCS12", "password": "wrong"},
            "ssl.keystore.location .*key.p12 cannot be read: ssl.keystore.password is wrong, or the file is damaged",
        ),
        (
            {"location": "locked.pem", "key": "wrong"},
            "of ssl.keystore.location .*locked.pem cannot .*ssl.key.password is wrong",
        ),
    ],
)
def test_a_start_with_certificates_of_no_use_is_refused_in_one_line(
    tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    CA.issue("CN=late,O=Tests", ["localhost"], days=(-2, -1)).write_pem(tmp_path / "late.pem")
    FIRST.write_pkcs12(tmp_path / "key.p12")
    FIRST.write_pem(tmp_path / "locked.pem", "secret")
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": settings.get("type", "PEM"),
        "ssl.keystore.location": str(tmp_path / settings["location"]),
        "ssl.keystore.password": settings.get("password"),
        "ssl.key.password": settings.get("key"),
    }
    with pytest.raises(StartError, match=expected) as raised:
        Broker(given, data_dir=tmp_path / "data").start()
    assert "\n" not in str(raised.value)
    assert "wrong" not in str(raised.value).replace("password is wrong", "")


def test_what_cannot_be_used_is_passed_over(running: Running, tmp_path: Path) -> None:
    running.write({KEY: str(ANOTHER.write_pem(tmp_path / "another.pem"))})
    running.write({KEY: str(tmp_path / "absent.pem")})
    running.write({KEY: str(SECOND.write_pem(tmp_path / "second.pem"))})
    eventually(lambda: serial(running) == SECOND.certificate.serial_number)


def test_a_tls_listener_that_comes_later(running: Running, tmp_path: Path) -> None:
    running.write(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,LATER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,LATER:SSL",
            "listener.name.later.ssl.keystore.location": str(ANOTHER.write_pem(tmp_path / "later.pem")),
        }
    )
    eventually(lambda: len(running.broker.listeners) == 3)
    assert serial(running, "LATER") == ANOTHER.certificate.serial_number
    assert serial(running) == FIRST.certificate.serial_number
