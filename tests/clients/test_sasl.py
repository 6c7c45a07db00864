"""SASL with real clients, over plain text and TLS: right and wrong passwords, mechanisms that are not enabled."""

import json
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.logins import REFUSED_S, can_list_topics, is_refused, succeeds
from tests.support.budget import covering, first_of, patient
from tests.support.certificates import KEY_PASSWORD, Authority
from tests.support.clients.clients import (
    JAVA_TOOLS,
    LATER_KAFKA,
    PROGRAMS,
    READERS,
    SENDERS,
    java_class_path,
    java_command,
    java_tool,
    kafkajs_ready,
    kcat,
    new_group,
)
from tests.support.clients.go_programs import go_program
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port
from tests.support.security.sasl_wire import Wire
from tests.support.security.scram_client import SALT
from tests.support.security.token_endpoint import token_endpoint
from tests.support.security.tokens import Issuer
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, salted_password

pytestmark = pytest.mark.clients

SECURITY = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "alice-s3cret"
WRONG = "wr0ng-s3cret"
CLIENT_SECRET = "client-s3cret"
SESSION_MS = 2_000
VALUES = [b"value %d" % number for number in range(200)]


class Sasl(NamedTuple):
    """A broker with SASL listeners, and what its clients need."""

    broker: ServedBroker
    folder: Path
    plain_text: str
    tls: str
    issuer: Issuer

    def bearer(self, lifetime_s: int = 600) -> str:
        """Return a token of alice's."""
        now_s = int(time.time())
        return self.issuer.sign(sub="alice", aud="kafka", iat=now_s - 1, exp=now_s + lifetime_s)

    def address(self, protocol: str) -> str:
        return self.tls if protocol == "SASL_SSL" else self.plain_text

    @property
    def trusted(self) -> Path:
        return self.folder / "ca.pem"


@pytest.fixture(scope="module")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sasl]:
    """All mechanisms on SASL_PLAINTEXT and SASL_SSL; only PLAIN on ONE."""
    folder = tmp_path_factory.mktemp("sasl")
    authority = Authority()
    authority.write_trust(folder / "ca.pem")
    authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pem(folder / "broker.pem", KEY_PASSWORD)
    issuer = Issuer()
    (folder / "jwks.json").write_text(json.dumps(issuer.jwks))
    port, tls_port = free_port(), free_port()
    broker = ServedBroker(
        folder / "data",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=2",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={folder / 'broker.pem'}",
        f"ssl.key.password={KEY_PASSWORD}",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)},OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={(folder / 'jwks.json').as_uri()}",
        "sasl.oauthbearer.expected.audience=kafka",
        f"sasl.jaas.config={SECURITY}.plain.PlainLoginModule required user_alice={PASSWORD};"
        f" {SECURITY}.scram.ScramLoginModule required; {SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
    )
    broker.listeners += f",SASL_PLAINTEXT://localhost:{port},SASL_SSL://localhost:{tls_port}"
    broker.start()
    add_alice(Wire(broker.port))
    yield Sasl(broker, folder, f"localhost:{port}", f"localhost:{tls_port}", issuer)
    assert broker.stop() == 0
    text = broker.output.read_text()
    assert "Traceback" not in text, text
    written = [text, *(path.read_text() for path in broker.access_dir.rglob("*.jsonl"))]
    assert not any(secret in each for each in written for secret in ("s3cret", KEY_PASSWORD))


def add_alice(wire: Wire) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name="alice",
            mechanism=each.number,
            iterations=4096,
            salt=SALT,
            salted_password=salted_password(each, PASSWORD.encode(), SALT, 4096),
        )
        for each in SCRAM_MECHANISMS
    ]
    assert wire.send(AlterUserScramCredentialsRequest(upsertions=upsertions), 0).results[0].error_code == 0


def settings_of(sasl: Sasl, client: str, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    if client == "confluent-kafka":
        return {
            "security.protocol": protocol.lower(),
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": str(sasl.trusted),
        }
    settings: dict[str, Any] = {
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    if protocol == "SASL_SSL" and client == "kafka-python":
        settings["ssl_cafile"] = str(sasl.trusted)
    elif protocol == "SASL_SSL":
        settings["ssl_context"] = ssl.create_default_context(cafile=str(sasl.trusted))
    return settings


@pytest.mark.parametrize(("client", "protocol"), covering(SENDERS, ["SASL_PLAINTEXT", "SASL_SSL"]))
def test_each_client_writes_and_reads_with_each_mechanism(sasl: Sasl, client: str, protocol: str) -> None:
    for mechanism in MECHANISMS:
        settings = settings_of(sasl, client, protocol, mechanism)
        topic = f"{client}.{protocol}.{mechanism}"
        SENDERS[client](sasl.address(protocol), topic, VALUES, **settings)
        assert READERS[client](sasl.address(protocol), topic, len(VALUES), new_group(), **settings) == VALUES
    lines = [json.loads(line) for path in sasl.broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert {line["principal"] for line in lines if line["listener"] == protocol and line["api"] == "Produce"} <= {"User:alice"}


@pytest.mark.parametrize(("client", "mechanism"), covering(SENDERS, MECHANISMS))
def test_a_wrong_password_and_a_wrong_mechanism_do_not_get_in(sasl: Sasl, client: str, mechanism: str) -> None:
    right = settings_of(sasl, client, "SASL_PLAINTEXT", mechanism)
    assert can_list_topics(client, sasl.plain_text, right)
    assert is_refused(client, sasl.plain_text, settings_of(sasl, client, "SASL_PLAINTEXT", mechanism, WRONG))
    assert "Failed authentication with" in sasl.broker.output.read_text()


@pytest.mark.slow
def test_kcat(sasl: Sasl) -> None:
    """Not SCRAM: librdkafka before 2.6.1 repeats a nonce wrongly, and no broker that checks it (CVE-2024-56128) lets it in."""
    if kcat() is None:
        pytest.skip("needs kcat")
    for protocol in ("sasl_plaintext", "sasl_ssl"):
        options = [f"security.protocol={protocol}", "sasl.mechanism=PLAIN", "sasl.username=alice"]
        options += [f"ssl.ca.location={sasl.trusted}", "log_level=0"]
        words = [word for option in options for word in ("-X", option)]
        command = [kcat(), "-b", sasl.address(protocol.upper()), "-L", *words]
        assert succeeds([*command, "-m", "30", "-X"], f"sasl.password={PASSWORD}", b"1 brokers")
        assert not succeeds([*command, "-m", str(int(REFUSED_S)), "-X"], f"sasl.password={WRONG}", b"1 brokers")


@pytest.mark.parametrize("mechanism", first_of(MECHANISMS[::-1]))
def test_kafkajs(sasl: Sasl, mechanism: str) -> None:
    if not kafkajs_ready():
        pytest.skip("needs node and kafkajs")
    command = ["node", str(PROGRAMS / "kafkajs" / "sasl.js"), sasl.plain_text, mechanism.lower(), "alice"]
    assert succeeds(command, PASSWORD, b"1\n")
    assert not succeeds(command, WRONG, b"1\n")
    over_tls = ["node", str(PROGRAMS / "kafkajs" / "sasl.js"), sasl.tls, mechanism.lower(), "alice", PASSWORD]
    assert succeeds(over_tls, str(sasl.trusted), b"1\n")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go(sasl: Sasl, mechanism: str) -> None:
    program = go_program(sasl.folder, "sasl")
    assert succeeds([program, sasl.plain_text, mechanism, "alice"], PASSWORD, b"1\n")
    assert not succeeds([program, sasl.plain_text, mechanism, "alice"], WRONG, b"1\n")
    assert succeeds([program, sasl.tls, mechanism, "alice", PASSWORD], str(sasl.trusted), b"1\n")


def java_settings(sasl: Sasl, name: str, protocol: str, mechanism: str, password: str, user: str = "alice") -> Path:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path = sasl.folder / f"{name}.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\nssl.truststore.type=PEM\nssl.truststore.location={sasl.trusted}\n"
        f'sasl.jaas.config={SECURITY}.{module} required username="{user}" password="{password}";\n'
    )
    return path


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(sasl: Sasl, mechanism: str) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        right = java_settings(sasl, "right", protocol, mechanism, PASSWORD)
        words = ["--bootstrap-server", sasl.address(protocol), "--list", "--command-config"]
        java_tool("org.apache.kafka.tools.TopicCommand", *words, str(right))
    wrong = java_settings(sasl, "wrong", "SASL_PLAINTEXT", mechanism, WRONG)
    command = java_command("org.apache.kafka.tools.TopicCommand", *words[:1], sasl.plain_text, *words[2:], str(wrong))
    done = subprocess.run(command, capture_output=True, timeout=patient(60), check=False)
    assert b"SaslAuthenticationException" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9", LATER_KAFKA])
def test_kafka_configs_makes_changes_and_deletes_users(sasl: Sasl, version: str) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    java_tool = JAVA_TOOLS[version]
    tool = "kafka.admin.ConfigCommand"
    who = ["--bootstrap-server", sasl.broker.bootstrap, "--entity-type", "users", "--entity-name", "carol"]
    java_tool(
        tool, *who, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-s3cret],SCRAM-SHA-512=[password=x]"
    )
    described = java_tool(tool, *who, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    settings = settings_of(sasl, "confluent-kafka", "SASL_SSL", "SCRAM-SHA-256", "carol-s3cret") | {"sasl.username": "carol"}
    assert can_list_topics("confluent-kafka", sasl.tls, settings)
    java_tool(tool, *who, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert is_refused("confluent-kafka", sasl.tls, settings)


# Sessions that end (KIP-368).


@pytest.fixture(scope="module")
def short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker whose SASL listener ends sessions after SESSION_MS; its port is the end of ``listeners``."""
    broker = ServedBroker(
        tmp_path_factory.mktemp("sessions") / "data",
        "sasl.enabled.mechanisms=PLAIN",
        f"sasl.jaas.config={SECURITY}.plain.PlainLoginModule required user_alice={PASSWORD};",
        f"connections.max.reauth.ms={SESSION_MS}",
    )
    broker.listeners += f",SASL_PLAINTEXT://127.0.0.1:{free_port()}"
    broker.start()
    yield broker
    broker.stop()


def handshakes(broker: ServedBroker, client_id: str) -> list[int]:
    """Return how often each connection of a client has begun to authenticate."""
    lines = [json.loads(line) for path in broker.access_dir.rglob("*.jsonl") for line in path.read_text().splitlines()]
    counts = Counter(line["connection"] for line in lines if line["api"] == "SaslHandshake" and line["client_id"] == client_id)
    return sorted(counts.values())


@pytest.mark.slow
@pytest.mark.long
def test_librdkafka_authenticates_again_under_load(short_sessions: ServedBroker) -> None:
    from confluent_kafka import Producer

    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": short_sessions.listeners.rpartition("/")[2],
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "client.id": "again",
            "linger.ms": 0,
            "error_cb": errors.append,
        }
    )

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    deadline = time.monotonic() + 4 * SESSION_MS / 1000
    sent = 0
    while time.monotonic() < deadline:
        producer.produce("again", b"%d" % sent, on_delivery=delivered)
        producer.poll(0.002)
        sent += 1
    assert producer.flush(30) == 0
    assert not errors
    assert handshakes(short_sessions, "again")[-1] >= 3
    assert len(READERS["confluent-kafka"](short_sessions.bootstrap, "again", sent)) == sent


@pytest.mark.slow
def test_java_authenticates_again_under_load(short_sessions: ServedBroker, tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    address = short_sessions.listeners.rpartition("/")[2]
    module = f'{SECURITY}.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'
    settings = tmp_path / "producer.properties"
    settings.write_text(
        f"bootstrap.servers={address}\nclient.id=java\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n"
    )
    rate = 500
    count = rate * 4 * SESSION_MS // 1000
    words = ["--topic", "java", "--num-records", str(count), "--record-size", "100", "--throughput", str(rate)]
    told = java_tool("org.apache.kafka.tools.ProducerPerformance", *words, "--producer.config", str(settings))
    assert f"{count} records sent" in told
    assert "Exception" not in told
    assert handshakes(short_sessions, "java")[-1] >= 3


# Signed bearer tokens.


def bearing(client: str, bearer: Callable[[], str]) -> dict[str, Any]:
    """Return the settings of a client that gets its tokens from a function."""
    if client == "confluent-kafka":
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (bearer(), time.time() + 500),
        }
    if client == "kafka-python":
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):
            def token(self) -> str:
                return bearer()

        return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}
    from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider

    class AsyncProvider(AsyncTokenProvider):
        async def token(self) -> str:
            return bearer()

    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": AsyncProvider()}


@pytest.mark.parametrize("client", first_of(SENDERS))
def test_each_client_logs_in_with_a_signed_token(sasl: Sasl, client: str) -> None:
    settings = bearing(client, sasl.bearer)
    SENDERS[client](sasl.plain_text, f"oauth.{client}", VALUES, **settings)
    assert READERS["confluent-kafka"](sasl.broker.bootstrap, f"oauth.{client}", len(VALUES)) == VALUES
    if client != "aiokafka":  # it takes the refusal for an answer, goes on, and is disconnected
        assert is_refused(client, sasl.plain_text, bearing(client, lambda: sasl.bearer(-100)))


@pytest.mark.slow
def test_kafkajs_and_franz_go_log_in_with_a_signed_token(sasl: Sasl) -> None:
    commands = [[go_program(sasl.folder, "sasl"), sasl.plain_text, "OAUTHBEARER", "-"]]
    if kafkajs_ready():
        commands.append(["node", str(PROGRAMS / "kafkajs" / "sasl.js"), sasl.plain_text, "oauthbearer", "-"])
    for command in commands:
        assert succeeds(command, sasl.bearer(), b"1\n")
        assert not succeeds(command, Issuer().sign(sub="alice", aud="kafka", iat=1, exp=4_000_000_000), b"1\n")


@pytest.fixture(scope="module")
def token_url(sasl: Sasl) -> Iterator[str]:
    """Where clients get tokens: good ones for alice, and ones that the broker cannot verify for mallory."""
    now_s, other = int(time.time()), Issuer()

    def token(client: str) -> str:
        issuer = sasl.issuer if client == "alice" else other
        return issuer.sign(sub=client, aud="kafka", iat=now_s - 1, exp=now_s + 600)

    with token_endpoint({"alice": CLIENT_SECRET, "mallory": CLIENT_SECRET}, token) as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_java_fetches_its_token_and_logs_in(sasl: Sasl, token_url: str, protocol: str) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")

    def settings(client: str, secret: str) -> str:
        path = sasl.folder / f"{client}.{secret}.properties"
        path.write_text(
            f"security.protocol={protocol}\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={token_url}\n"
            f"sasl.login.callback.handler.class={SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={sasl.trusted}\nsasl.login.retry.backoff.max.ms=100\n"
            f"sasl.jaas.config={SECURITY}.oauthbearer.OAuthBearerLoginModule required "
            f'clientId="{client}" clientSecret="{secret}";\n'
        )
        return str(path)

    topic, address = f"oauth.java.{protocol}", sasl.address(protocol)
    words = ["--bootstrap-server", address, "--topic", topic]
    values = b"\n".join(VALUES[:9])
    java_tool("kafka.tools.ConsoleProducer", *words, "--producer.config", settings("alice", CLIENT_SECRET), stdin=values)
    limits = ["--from-beginning", "--max-messages", "9", "--timeout-ms", "60000", "--consumer.config"]
    reader = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    assert java_tool(reader, *words, *limits, settings("alice", CLIENT_SECRET)).encode().split(b"\n")[:-1] == VALUES[:9]
    for client, secret, why in (
        ("mallory", CLIENT_SECRET, b"SaslAuthenticationException"),
        ("alice", WRONG, b"Failed to create new KafkaAdminClient"),
    ):
        command = java_command(
            "org.apache.kafka.tools.TopicCommand", *words[:2], "--list", "--command-config", settings(client, secret)
        )
        done = subprocess.run(command, capture_output=True, timeout=patient(60), check=False)
        assert done.returncode
        assert why in done.stdout + done.stderr


def test_librdkafka_fetches_its_token_and_logs_in(sasl: Sasl, token_url: str) -> None:
    def settings(client: str, secret: str = CLIENT_SECRET) -> dict[str, Any]:
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": client,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": token_url,
        }

    assert can_list_topics("confluent-kafka", sasl.plain_text, settings("alice"))
    assert is_refused("confluent-kafka", sasl.plain_text, settings("mallory"))
    assert is_refused("confluent-kafka", sasl.plain_text, settings("alice", WRONG))
