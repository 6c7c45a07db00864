"""Certificates changed while the broker runs, in the metadata store as Kafka's own tools write them there."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from tests.broker.test_dynamic_configs import Running
from tests.certificates import Authority
from tests.eventually import eventually
from twisted_kafka.broker.broker import Broker

CA = Authority()
FIRST = CA.issue("CN=broker,O=Tests", ["localhost"])
SECOND = CA.issue("CN=broker,O=Tests", ["localhost"])
ANOTHER = CA.issue("CN=another,O=Tests", ["localhost"])
KEY = "listener.name.ssl.ssl.keystore.location"


def serial(running: Running, listener: str = "SSL") -> int:
    pem = ssl.get_server_certificate(("127.0.0.1", running.port(listener)), timeout=10)
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
