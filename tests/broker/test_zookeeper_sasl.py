"""SASL/DIGEST-MD5 to a real ZooKeeper, with the settings of a broker, in plain text and over TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kazoo.client import KazooClient

from tests.broker.zookeeper_over_tls import CA, tls_server_settings
from tests.support.budget import patient
from tests.support.certificates import PASSWORD
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.zookeeper import ZooKeeper, needs_zookeeper, proxied
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.broker.registration.zookeeper_settings import zookeeper_settings
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.store import AccessDeniedError
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore

pytest.importorskip("puresasl")
pytestmark = pytest.mark.slow

SECRETS = {"kafka": 'kafka, "the" \\secret', "other": "other-secret"}


def module(name: str, **options: str) -> str:
    """Return a login module with its options, as in a JAAS file."""
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()}
    text = " ".join(f'{key}="{value}"' for key, value in quoted.items())
    return f"org.apache.zookeeper.server.auth.{name} required {text};"


@pytest.fixture(scope="module")
def secure_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(secure_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper that lets nobody in without SASL."""
    needs_zookeeper()
    directory = tmp_path_factory.mktemp("sasl")
    jaas = directory / "jaas.conf"
    jaas.write_text("Server {" + module("DigestLoginModule", **{f"user_{name}": each for name, each in SECRETS.items()}) + "};")
    settings = {
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "sasl",
        "ssl.clientAuth": "none",
    }
    server = ZooKeeper(directory / "server", **settings, **tls_server_settings(directory, secure_port))
    server.java_options = [f"-Djava.security.auth.login.config={jaas}"]
    server.start()
    yield server
    server.kill()


def properties(address: str, user: str = "kafka", password: str | None = None, **more: str) -> dict[str, object]:
    """Return the settings of a broker."""
    return {
        "zookeeper.connect": f"{address}/sasl",
        "zookeeper.connection.timeout.ms": "10000",
        "zookeeper.sasl.jaas.config": module("DigestLoginModule", username=user, password=password or SECRETS[user]),
        "zookeeper.set.acl": "true",
        **{f"zookeeper.{key.replace('_', '.')}": value for key, value in more.items()},
    }


def connect(address: str, user: str = "kafka", **more: str) -> ZooKeeperStore:
    settings = {key: str(value) for key, value in properties(address, user, **more).items()}
    return ZooKeeperStore(zookeeper_settings(KafkaConfig.from_properties(settings)))


@contextmanager
def administration(server: ZooKeeper) -> Iterator[KazooClient]:
    admin = KazooClient(server.address, sasl_options={"mechanism": "DIGEST-MD5", "username": "kafka", "password": SECRETS["kafka"]})
    admin.start()
    yield admin
    admin.stop()
    admin.close()


def test_a_user_is_an_identity_for_acls(server: ZooKeeper) -> None:
    store = connect(server.address)
    store.create("/config/users/alice", b"secret", make_parents=True)
    assert store.get("/config/users/alice")[0] == b"secret"
    store.close()
    other = connect(server.address, "other")
    with pytest.raises(AccessDeniedError):
        other.get("/config/users/alice")
    other.close()
    with administration(server) as admin:
        acls = admin.get_acls("/sasl/config/users/alice")[0]
    assert [(acl.id.scheme, acl.id.id, acl.perms) for acl in acls] == [("sasl", "kafka", 31)]


def test_over_tls(server: ZooKeeper, secure_port: int, tmp_path: Path) -> None:
    trust = {"ssl_truststore_location": str(CA.write_trust_pkcs12(tmp_path / "trust.p12")), "ssl_truststore_password": PASSWORD}
    netty = {"ssl_client_enable": "true", "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty"}
    store = connect(f"localhost:{secure_port}", **netty, **trust)
    store.create("/config/users/bob", b"x" * 200_000, make_parents=True)
    assert store.get("/config/users/bob")[0] == b"x" * 200_000
    store.close()


def test_a_broker_is_whole_again_after_lost_connections_and_an_expired_session(server: ZooKeeper, tmp_path: Path) -> None:
    with proxied(server) as proxy, administration(server) as admin:
        settings = {**properties(proxy.address, session_timeout_ms="2000"), "broker.id": 1}
        with Broker(settings, data_dir=tmp_path) as broker:
            create(broker, "first")
            proxy.cut()
            proxy.mend()
            create(broker, "second")
            proxy.cut()
            eventually(lambda: not admin.exists("/sasl/brokers/ids/1"))
            proxy.mend()
            eventually(lambda: admin.exists("/sasl/brokers/ids/1"))
            create(broker, "third")


def create(broker: Broker, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])
        except RuntimeError:  # no controller, or no answer from ZooKeeper yet
            return topic in admin.list_topics()
        return True

    eventually(is_created, wait_s=patient(60))
    admin.close()


def test_wrong_credentials_are_said_in_one_line(server: ZooKeeper, tmp_path: Path) -> None:
    broker = Broker({**properties(server.address, password="wrong"), "broker.id": 1}, data_dir=tmp_path)
    with pytest.raises(StartError, match="it rejects the credentials") as refused:
        broker.start()
    assert "wrong" not in str(refused.value)
