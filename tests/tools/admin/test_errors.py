"""Errors of the connection, each with its remedy in one line; and listeners with TLS and a login."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import twisted_kafka
from tests.support.certificates import Authority
from tests.tools.admin.cli import Cli

pytestmark = pytest.mark.medium

_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{0}" password="{0}-secret" {1};'
_USERS = 'user_admin="admin-secret" user_alice="alice-secret"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority()
    authority.issue("CN=broker", hosts=["localhost", "127.0.0.1"]).write_pem(folder / "broker.pem")
    authority.write_trust(folder / "trust.pem")
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'trust.pem'}\n"
    for protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        for user in ("admin", "alice", "eve"):
            login = f"sasl.mechanism=PLAIN\nsasl.jaas.config={_JAAS.format(user, '')}\n"
            (folder / f"{user}-{protocol}.properties").write_text(f"security.protocol={protocol}\n{login}{trust}")
    return folder


@pytest.fixture(scope="module")
def secured(folder: Path) -> Iterator[twisted_kafka.Broker]:
    jaas = _JAAS.format("admin", _USERS)
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "trust.pem"),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with twisted_kafka.Broker(settings) as broker:
        yield broker


def at(listener: str, broker: twisted_kafka.Broker) -> str:
    (endpoint,) = [each for each in broker.listeners if each.listener_name == listener]
    return f"127.0.0.1:{endpoint.port}"


@pytest.fixture
def plain(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli("127.0.0.1:1", capfdbinary, monkeypatch, "t")


def test_no_broker_at_the_address(plain: Cli) -> None:
    assert (
        plain.fails("topics", "list") == "127.0.0.1:1 cannot be reached: Connection refused; start the broker, or check the address"
    )
    plain.server = "no-such-host.invalid:9092"
    assert plain.fails("topics", "list") == "no-such-host.invalid has no address: check the name, or DNS"
    plain.server = "localhost"
    assert "expected HOST:PORT" in plain.fails("topics", "list", status=2)


def test_the_next_bootstrap_server_is_tried(plain: Cli) -> None:
    with twisted_kafka.Broker() as broker:
        plain.server = f"127.0.0.1:1,{broker.bootstrap_servers}"
        assert plain.ok("topics", "list").lines == ["TOPIC  PARTITIONS  REPLICATION FACTOR"]


def test_a_port_of_something_else(plain: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        plain.server = f"127.0.0.1:{server.getsockname()[1]}"
        assert "does not answer within 0.2 s: check for a firewall" in plain.fails("topics", "list", "--timeout", "0.2")


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_login(protocol: str, plain: Cli, secured: twisted_kafka.Broker, folder: Path) -> None:
    plain.server = at(protocol, secured)
    login = ["--command-config", str(folder / f"admin-{protocol}.properties")]
    topic = f"orders-{protocol}"
    plain.ok("topics", "create", topic, "-p", "2", *login)
    plain.ok("produce", topic, *[str(number) for number in range(2000)], *login)
    assert len(plain.ok("consume", topic, *login).lines) == 2000
    wrong = plain.fails("topics", "list", "--command-config", str(folder / f"eve-{protocol}.properties"))
    assert wrong.endswith("check the user name and the password in sasl.jaas.config")
    assert "eve-secret" not in wrong


def test_settings_that_do_not_fit_the_listener(plain: Cli, secured: twisted_kafka.Broker, folder: Path) -> None:
    plain.server = at("SASL_PLAINTEXT", secured)
    assert plain.fails("topics", "list").endswith(
        "requires a login with PLAIN: set security.protocol=SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config"
    )
    with_tls = ["--command-config", str(folder / "admin-SASL_SSL.properties")]
    assert plain.fails("topics", "list", *with_tls).endswith("set security.protocol=PLAINTEXT or SASL_PLAINTEXT")
    plain.server = at("SASL_SSL", secured)
    assert "requires TLS: set security.protocol=SSL or SASL_SSL" in plain.fails("topics", "list")


def test_rights_that_are_missing(plain: Cli, secured: twisted_kafka.Broker, folder: Path) -> None:
    plain.server = at("SASL_SSL", secured)
    admin, alice = (["--command-config", str(folder / f"{user}-SASL_SSL.properties")] for user in ("admin", "alice"))
    plain.ok("topics", "create", "guarded", *admin)
    remedy = "grant it with twisted-kafka acls create, or log in as another user (--command-config)"
    assert plain.ok("topics", "list", *alice).lines == ["TOPIC  PARTITIONS  REPLICATION FACTOR"]
    for arguments in (
        ["topics", "describe", "guarded"],
        ["topics", "create", "mine"],
        ["produce", "guarded", "a"],
        ["groups", "describe", "g"],
    ):
        assert plain.fails(*arguments, *alice).endswith(remedy)


def test_an_older_broker(plain: Cli) -> None:
    with twisted_kafka.Broker(persona="0.11") as broker:
        plain.server = broker.bootstrap_servers
        plain.ok("topics", "create", "orders", "-p", "1", "-r", "1")
        plain.ok("produce", "orders", "a", "b")
        assert plain.ok("consume", "orders").lines == ["a", "b"]
        plain.ok("groups", "reset", "billing", "orders", "--to", "1", "-y")
        assert plain.json("groups", "describe", "billing")[0]["lag"] == 1
        assert plain.ok("topics", "describe", "orders").lines[0] == "orders: 1 partition"
        said = plain.fails("transactions", "list")
        assert said == f"{plain.server} does not support ListTransactions: the command needs a newer broker"
