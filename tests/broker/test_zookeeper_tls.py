"""TLS to a real ZooKeeper, with the settings of a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.zookeeper_over_tls import CA, OTHER_CA, tls_server_settings
from tests.support.certificates import PASSWORD
from tests.support.ports import free_port
from tests.support.zookeeper import ZooKeeper, needs_zookeeper
from twisted_kafka.broker.registration.zookeeper_settings import zookeeper_settings
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.store import AccessDeniedError, StoreUnavailableError
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def secure_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def secure_server(secure_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    needs_zookeeper()
    directory = tmp_path_factory.mktemp("tls")
    x509 = {"authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider"}
    server = ZooKeeper(directory / "server", **tls_server_settings(directory, secure_port), **x509)
    server.start()
    yield server
    server.kill()


def connect(port: int, directory: Path, *, host: str = "localhost", user: str = "kafka", **changed: str) -> ZooKeeperStore:
    """Open a store as a broker does."""
    properties = {
        "zookeeper.connect": f"{host}:{port}",
        "zookeeper.connection.timeout.ms": "10000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(CA.write_trust_pkcs12(directory / "trust.p12")),
        "zookeeper.ssl.truststore.password": PASSWORD,
        "zookeeper.ssl.keystore.location": str(CA.issue(f"CN={user}").write_pkcs12(directory / "key.p12")),
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.set.acl": "true",
        **{f"zookeeper.{key.replace('_', '.')}": value for key, value in changed.items()},
    }
    return ZooKeeperStore(zookeeper_settings(KafkaConfig.from_properties(properties)))


def test_a_certificate_is_an_identity_for_acls(secure_server: ZooKeeper, secure_port: int, tmp_path: Path) -> None:
    protocols = {"ssl_enabled_protocols": "TLSv1.2", "ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    store = connect(secure_port, tmp_path, ssl_enabled_protocols="TLSv1.2,TLSv1.3")
    store.create("/config/users/alice", b"secret", make_parents=True)
    store.close()
    again = connect(secure_port, tmp_path, **protocols)
    assert again.get("/config/users/alice")[0] == b"secret"
    again.close()
    other = connect(secure_port, tmp_path, user="other")
    with pytest.raises(AccessDeniedError):
        other.get("/config/users/alice")
    other.close()


def test_a_server_that_cannot_be_trusted_is_refused(secure_server: ZooKeeper, secure_port: int, tmp_path: Path) -> None:
    soon = {"connection_timeout_ms": "2000"}
    with pytest.raises(StoreUnavailableError, match="certificate verify failed: IP address mismatch"):
        connect(secure_port, tmp_path, host="127.0.0.1", **soon)
    other = str(OTHER_CA.write_trust(tmp_path / "other.pem"))
    with pytest.raises(StoreUnavailableError, match="certificate verify failed: self-signed certificate"):
        connect(secure_port, tmp_path, ssl_truststore_location=other, **soon)
    unchecked = connect(secure_port, tmp_path, host="127.0.0.1", ssl_endpoint_identification_algorithm="")
    assert unchecked.exists("/") is not None
    unchecked.close()
