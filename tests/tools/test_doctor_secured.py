"""``twisted-kafka doctor`` with a client's settings, against listeners with TLS and SASL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import twisted_kafka
from tests.support.certificates import Authority
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.tools.main import main

_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret" user_admin="secret";'
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _JAAS}


def with_sasl(protocol: str) -> dict[str, str]:
    return {
        "security.inter.broker.protocol": protocol,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": _JAAS,
    }


class Stores:
    """What a broker with TLS has, and what its clients trust."""

    def __init__(self, directory: Path) -> None:
        authority, other = Authority(), Authority("CN=Other CA,O=Tests")
        self._key = authority.issue("CN=broker", hosts=["localhost", "127.0.0.1"]).write_pem(directory / "broker.pem")
        self._elsewhere = authority.issue("CN=broker", hosts=["elsewhere"]).write_pem(directory / "elsewhere.pem")
        self.trust = authority.write_trust(directory / "trust.pem")
        self.other = other.write_trust(directory / "other.pem")
        self.client = authority.issue("CN=client").write_pem(directory / "client.pem")

    def of_broker(self, *, is_elsewhere: bool = False) -> dict[str, str]:
        key = str(self._elsewhere if is_elsewhere else self._key)
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": key, **self.of_client(), "ssl.client.auth": "none"}

    def of_client(self, *, is_other: bool = False) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.other if is_other else self.trust)}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


class Doctor:
    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = directory / "client.properties"
        self._capsys = capsys

    def __call__(self, address: str, **settings: object) -> tuple[int, list[str], str]:
        """Return the exit status, the lines, and what is on stderr; settings with _ for a dot."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self._path.write_text("".join(f"{name}={value}\n" for name, value in named.items()))
        status = main(["doctor", address, *(["--command-config", str(self._path)] if named else [])])
        out, err = self._capsys.readouterr()
        return status, out.splitlines(), err


@pytest.fixture
def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(tmp_path, capsys)


@pytest.fixture(scope="module")
def sasl_broker() -> Iterator[twisted_kafka.Broker]:
    with twisted_kafka.Broker({"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **with_sasl("SASL_PLAINTEXT")}) as broker:
        yield broker


@pytest.fixture(scope="module")
def tls_broker(stores: Stores) -> Iterator[twisted_kafka.Broker]:
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL", **stores.of_broker()}
    with twisted_kafka.Broker(settings) as broker:
        yield broker


def kinds(lines: list[str]) -> list[str]:
    return [line.split(":")[0] for line in lines]


@pytest.mark.medium
def test_a_broker_with_tls_and_sasl_is_well(doctor: Doctor, stores: Stores) -> None:
    settings = {"listeners": "SASL_SSL://127.0.0.1:0", **with_sasl("SASL_SSL"), **stores.of_broker()}
    with twisted_kafka.Broker(settings) as broker:
        status, lines, _ = doctor(broker.bootstrap_servers, security_protocol="SASL_SSL", **LOGIN, **stores.of_client())
        assert (status, kinds(lines)) == (0, ["ok", "ok", "ok"])
        _, lines, _ = doctor(broker.bootstrap_servers, security_protocol="SSL", **stores.of_client())
        assert lines[-1].endswith(
            "requires a login with PLAIN: set security.protocol=SASL_SSL, sasl.mechanism and sasl.jaas.config"
        )


@pytest.mark.medium
def test_a_login(doctor: Doctor, sasl_broker: twisted_kafka.Broker) -> None:
    address = sasl_broker.bootstrap_servers
    status, lines, _ = doctor(address, security_protocol="SASL_PLAINTEXT", **LOGIN)
    assert (status, kinds(lines)) == (0, ["ok", "ok", "ok"])
    wrong = {**LOGIN, "sasl.jaas.config": _JAAS.replace("secret", "guessed")}
    status, (line,), _ = doctor(address, security_protocol="SASL_PLAINTEXT", **wrong)
    assert status == 1
    assert line.endswith("check the user name and the password in sasl.jaas.config")
    assert "guessed" not in line
    scram = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": _JAAS.replace("plain.Plain", "scram.Scram")}
    _, (line,), _ = doctor(address, security_protocol="SASL_PLAINTEXT", **scram)
    assert line.endswith("the mechanism SCRAM-SHA-256 enabled, but PLAIN; set sasl.mechanism to one of these")


@pytest.mark.medium
def test_a_login_that_is_missing_is_told_with_what_the_broker_takes(doctor: Doctor, sasl_broker: twisted_kafka.Broker) -> None:
    status, lines, _ = doctor(sasl_broker.bootstrap_servers)
    assert (status, kinds(lines)) == (1, ["ok", "problem"])
    assert lines[-1].endswith(
        "requires a login with PLAIN: set security.protocol=SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config"
    )


def test_a_login_where_there_is_none(doctor: Doctor) -> None:
    with twisted_kafka.Broker() as broker:
        _, (line,), _ = doctor(broker.bootstrap_servers, security_protocol="SASL_PLAINTEXT", **LOGIN)
    assert line.endswith("its listener has no SASL; set security.protocol=PLAINTEXT, or SSL")


@pytest.mark.medium
def test_certificates(doctor: Doctor, stores: Stores, tls_broker: twisted_kafka.Broker) -> None:
    address = tls_broker.bootstrap_servers
    assert doctor(address, security_protocol="SSL", **stores.of_client())[0] == 0
    _, (line,), _ = doctor(address, security_protocol="SSL", **stores.of_client(is_other=True))
    assert line.endswith("set ssl.truststore.location to a store with the authority that signed it")
    _, (line,), _ = doctor(address)
    assert "requires TLS: set security.protocol=SSL" in line


@pytest.mark.medium
def test_a_certificate_for_another_host(doctor: Doctor, stores: Stores) -> None:
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL", **stores.of_broker(is_elsewhere=True)}
    with twisted_kafka.Broker({**settings, "ssl.endpoint.identification.algorithm": ""}) as broker:
        _, (line,), _ = doctor(broker.bootstrap_servers, security_protocol="SSL", **stores.of_client())
        assert "connect with a name in the certificate" in line
        unverified = {**stores.of_client(), "ssl.endpoint.identification.algorithm": ""}
        assert doctor(broker.bootstrap_servers, security_protocol="SSL", **unverified)[0] == 0


@pytest.mark.medium
def test_a_certificate_that_the_broker_wants(doctor: Doctor, stores: Stores) -> None:
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL", **stores.of_broker()}
    key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(stores.client)}
    with twisted_kafka.Broker({**settings, "ssl.client.auth": "required"}) as broker:
        _, (line,), _ = doctor(broker.bootstrap_servers, security_protocol="SSL", **stores.of_client())
        assert line.endswith("set ssl.keystore.location to a certificate that the broker trusts")
        assert doctor(broker.bootstrap_servers, security_protocol="SSL", **stores.of_client(), **key)[0] == 0


def test_tls_against_plain_text(doctor: Doctor, stores: Stores) -> None:
    with twisted_kafka.Broker() as broker:
        _, (line,), _ = doctor(broker.bootstrap_servers, security_protocol="SSL", **stores.of_client())
    assert line.endswith("set security.protocol=PLAINTEXT or SASL_PLAINTEXT")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.jaas.config is missing: security.protocol=SASL_SSL needs a login module"),
        ({"security.protocol": "SASL_PLAINTEXT", **LOGIN, "sasl.mechanism": "PLAN"}, "must be one of"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/such"}, "/no/such"),
    ],
)
def test_settings_that_are_wrong_are_one_line(doctor: Doctor, settings: dict[str, object], told: str) -> None:
    status, _, err = doctor("127.0.0.1:1", **settings)
    assert status == 2
    assert told in err
    assert len(err.splitlines()) == 1


def test_names_and_ports_that_lead_nowhere(doctor: Doctor, stores: Stores) -> None:
    _, (line,), _ = doctor("no-such-host.invalid:9092", security_protocol="SSL", **stores.of_client())
    assert "check the name, or DNS" in line
    _, (line,), _ = doctor("127.0.0.1:1", security_protocol="SSL", **stores.of_client())
    assert "127.0.0.1:1 cannot be reached" in line


@pytest.mark.oracle
@pytest.mark.slow
def test_apache_kafka_is_well_and_its_login_is_asked_for(doctor: Doctor, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka")
    sasl = {"listeners": f"PLAINTEXT://127.0.0.1:{kafka.port},SASL_PLAINTEXT://127.0.0.1:{kafka.port + 1}"}
    kafka.change(**sasl, **{**with_sasl("SASL_PLAINTEXT"), "security.inter.broker.protocol": "PLAINTEXT"})
    kafka.change(**{"auto.create.topics.enable": "false"})
    kafka.start()
    try:
        status, lines, _ = doctor(kafka.bootstrap)
        assert (status, kinds(lines)) == (0, ["ok", "ok", "ok", "note"])
        secured = f"127.0.0.1:{kafka.port + 1}"
        assert doctor(secured, security_protocol="SASL_PLAINTEXT", **LOGIN)[0] == 0
        assert "requires a login with PLAIN" in doctor(secured)[1][-1]
        wrong = {**LOGIN, "sasl.jaas.config": _JAAS.replace("secret", "guessed")}
        assert "check the user name and the password" in doctor(secured, security_protocol="SASL_PLAINTEXT", **wrong)[1][0]
        assert doctor(kafka.bootstrap, security_protocol="SASL_PLAINTEXT", **LOGIN)[1][0].endswith("PLAINTEXT, or SSL")
    finally:
        kafka.kill()
