"""The same scan of Apache Kafka's TLS listener and of this broker's: nothing is accepted here that Kafka refuses by default."""

from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.clients.clients import java_class_path
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from tests.support.tls_scanner import SSL_3_0, TLS_1_0, TLS_1_1, TLS_1_2, accepted_suites
from twisted_kafka import Broker

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("kind", ["RSA", "ECDSA"])
def test_what_apache_kafka_refuses_is_refused(kind: str, tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    authority = Authority()
    store = authority.issue("CN=broker", ["localhost"], is_rsa=kind == "RSA").write_pem(tmp_path / "broker.pem")
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_trust(tmp_path / "ca.pem")),
    }
    theirs = free_port()
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.change(listeners=f"PLAINTEXT://{kafka.bootstrap},SSL://localhost:{theirs}", **settings)
    try:
        kafka.start()
        with Broker({**settings, "listeners": "SSL://127.0.0.1:0"}, data_dir=tmp_path / "data") as broker:
            mine = broker.listeners[0].port
            for version in (SSL_3_0, TLS_1_0, TLS_1_1):
                assert accepted_suites(theirs, version) == accepted_suites(mine, version) == set()
            ours, accepted = accepted_suites(mine, TLS_1_2), accepted_suites(theirs, TLS_1_2)
    finally:
        kafka.kill()
    assert {hex(suite) for suite in ours - accepted} == set()
    assert ours
