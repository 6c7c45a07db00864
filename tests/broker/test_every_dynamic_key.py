"""Every key that Kafka calls dynamic acts while the broker runs, or the table says why it cannot; every other one is refused."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509

from tests.broker.running import Running, run
from tests.support.certificates import Authority, Identity
from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.broker.broker import Broker
from twisted_kafka.config.dynamic.dynamic_rules import check
from twisted_kafka.config.effects import HONOURED
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import READ_ONLY
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.tools.compare.talk import Talk

pytestmark = pytest.mark.medium

NEVER_S = 0.3
"""A client without an answer after this time counts as not answered; for an expected answer, the limit is ``WAIT_S``."""
DYNAMIC = {name for name, key in BROKER_KEYS.items() if key.update_mode != READ_ONLY}

TOPIC_DEFAULTS: dict[str, tuple[str, object]] = {
    "compression.gzip.level": ("5", 5),
    "compression.lz4.level": ("3", 3),
    "compression.type": ("zstd", "zstd"),
    "compression.zstd.level": ("7", 7),
    "log.cleaner.delete.retention.ms": ("1001", 1001),
    "log.cleaner.max.compaction.lag.ms": ("100002", 100_002),
    "log.cleaner.min.cleanable.ratio": ("0.25", 0.25),
    "log.cleaner.min.compaction.lag.ms": ("1003", 1003),
    "log.cleanup.policy": ("compact,delete", ("compact", "delete")),
    "log.flush.interval.messages": ("1004", 1004),
    "log.flush.interval.ms": ("1005", 1005),
    "log.index.interval.bytes": ("1006", 1006),
    "log.index.size.max.bytes": ("1000007", 1_000_007),
    "log.local.retention.bytes": ("1008", 1008),
    "log.local.retention.ms": ("1009", 1009),
    "log.message.downconversion.enable": ("false", False),
    "log.message.timestamp.after.max.ms": ("1010", 1010),
    "log.message.timestamp.before.max.ms": ("1011", 1011),
    "log.message.timestamp.difference.max.ms": ("1012", 1012),
    "log.message.timestamp.type": ("LogAppendTime", "LogAppendTime"),
    "log.preallocate": ("true", True),
    "log.retention.bytes": ("100000013", 100_000_013),
    "log.retention.ms": ("100014", 100_014),
    "log.roll.jitter.ms": ("1015", 1015),
    "log.roll.ms": ("1016", 1016),
    "log.segment.bytes": ("1000017", 1_000_017),
    "log.segment.delete.delay.ms": ("1018", 1018),
    "max.decompressed.message.bytes": ("1000020", 1_000_020),
    "message.max.bytes": ("1000019", 1_000_019),
    "min.insync.replicas": ("2", 2),
    "unclean.leader.election.enable": ("true", True),
}
"""Defaults of topics: the text to set, and the value that an open log then has."""


class Effect(NamedTuple):
    """A value to set for all brokers, and its observable effect."""

    value: str
    look: Callable[[Running, float], object]
    """Returns the observed state; the second argument limits its waits, in seconds."""
    seen: object
    before: object = None
    """The state without the value, if one observation may miss it."""


def logs_of(running: Running) -> LogManager:
    logs = running.broker._server.logs
    assert logs is not None
    return logs


def cleaner(attribute: str) -> Callable[[Running, float], object]:
    def look(running: Running, wait_s: float) -> object:
        present = logs_of(running).cleaner
        assert present is not None
        return getattr(present.settings, attribute)

    return look


def threads(prefix: str) -> Callable[[Running, float], object]:
    return lambda running, wait_s: running.threads(prefix)


def is_answered(running: Running, wait_s: float) -> bool:
    """Whether a new connection is answered."""
    try:
        with socket.create_connection(("127.0.0.1", running.port("PLAINTEXT")), timeout=wait_s) as client:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            return client.recv(8)[4:8] == b"\0\0\0\7"
    except (TimeoutError, ConnectionResetError):
        return False


def is_second_answered(running: Running, wait_s: float) -> bool:
    """Whether a new connection is answered while another one is open."""
    with socket.create_connection(("127.0.0.1", running.port("PLAINTEXT")), timeout=wait_s) as first:
        first.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        with contextlib.suppress(TimeoutError, ConnectionResetError):  # reset: the one before it still counts
            first.recv(8)
        return is_answered(running, wait_s)


def are_many_answered(running: Running, wait_s: float) -> bool:
    """Whether connections made one after another are all answered."""
    return all(is_answered(running, wait_s) for _ in range(30))


def background_tasks_at_once(running: Running, wait_s: float) -> int:
    """How many of ten tasks that wait for each other's end are begun."""
    scheduler = logs_of(running)._environment.scheduler
    begun, end = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        begun.release()
        end.wait(WAIT_S)

    for _ in range(10):
        scheduler.schedule_once("wait", wait)
    count = 0
    while begun.acquire(timeout=NEVER_S):
        count += 1
    end.set()
    for _ in range(10 - count):
        assert begun.acquire(timeout=WAIT_S)
    return count


EFFECTS: dict[str, Effect] = {
    "background.threads": Effect("6", background_tasks_at_once, 6, before=4),
    "log.cleaner.backoff.ms": Effect("1001", cleaner("backoff_ms"), 1001),
    "log.cleaner.dedupe.buffer.size": Effect("20000000", cleaner("dedupe_buffer_bytes"), 20_000_000),
    "log.cleaner.io.buffer.load.factor": Effect("0.5", cleaner("load_factor"), 0.5),
    "log.cleaner.io.buffer.size": Effect("100003", cleaner("io_buffer_bytes"), 100_003),
    "log.cleaner.io.max.bytes.per.second": Effect("1000004", cleaner("max_bytes_per_second"), 1_000_004.0),
    "log.cleaner.threads": Effect("2", threads("kafka-log-cleaner-thread-"), 2),
    "max.connection.creation.rate": Effect("1", are_many_answered, False),
    "max.connections": Effect("1", is_second_answered, False),
    "max.connections.per.ip": Effect("1", is_second_answered, False),
    "max.connections.per.ip.overrides": Effect("127.0.0.1:0", is_answered, False),
    "num.io.threads": Effect("3", threads("data-plane-kafka-request-handler-"), 3),
    "num.network.threads": Effect("3", threads("data-plane-kafka-network-thread-3-"), 3),
    "producer.id.expiration.ms": Effect(
        "1005", lambda running, wait_s: logs_of(running)._environment.producers.expiration_ms, 1005
    ),
}

TLS_EFFECTS = {
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
"""Seen in the TLS connections of the tests below."""

ELSEWHERE = {
    "cordoned.log.dirs": "tests/broker/test_log_directories.py::test_cordoned_directories_get_no_new_replicas",
    "advertised.listeners": "tests/broker/test_dynamic_configs.py::test_an_advertised_address_is_told_to_clients",
    "listeners": "tests/broker/test_dynamic_configs.py::test_a_listener_comes_with_its_address_and_goes",
    "listener.security.protocol.map": "tests/broker/test_dynamic_configs.py::test_a_listener_comes_with_its_address_and_goes",
    "transaction.partition.verification.enable": "tests/server/apis/data/test_produce.py"
    "::test_without_verification_one_begins_and_with_it_it_goes_on",
    "errors.deadletterqueue.auto.create.topics.enable": "tests/share/test_dead_letters.py"
    "::test_topics_are_created_once_the_broker_may_do_that",
    "errors.deadletterqueue.topic.name.prefix": "tests/share/test_dead_letters.py"
    "::test_topics_are_created_once_the_broker_may_do_that",
    "group.share.assignment.interval.ms": "tests/group_coordinator/test_share_groups.py"
    "::test_assignments_are_not_computed_more_often_than_the_interval",
}
"""Keys whose effect another test sees."""

NO_SASL = "the broker of this test has no SASL listener (tests/broker/test_sasl.py)"
NO_TIERS = "there is no tiered storage"
NO_INTERVAL = "target assignments have no interval and are computed on the thread of the request"
NO_BUFFER = "the coordinators keep no buffer between appends"
JAVAS = "names a class or an algorithm of Java's, of which there are none here"

CANNOT = {
    "group.consumer.assignment.interval.ms": NO_INTERVAL,
    "group.consumer.assignor.offload.enable": NO_INTERVAL,
    "group.coordinator.cached.buffer.max.bytes": NO_BUFFER,
    "share.coordinator.cached.buffer.max.bytes": NO_BUFFER,
    "group.share.assignor.offload.enable": NO_INTERVAL,
    "group.streams.assignment.interval.ms": NO_INTERVAL,
    "group.streams.assignor.offload.enable": NO_INTERVAL,
    "metric.reporters": JAVAS,
    "num.recovery.threads.per.data.dir": "read when the broker stops, as by Apache Kafka: nothing is to be seen of it until then",
    "num.replica.fetchers": "there is no other broker to fetch from in this test (tests/replication/test_fetcher_threads.py)",
    "principal.builder.class": "names a class (tests/test_plugins.py)",
    "remote.fetch.max.wait.ms": NO_TIERS,
    "remote.log.index.file.cache.total.size.bytes": NO_TIERS,
    "remote.log.manager.copy.max.bytes.per.second": NO_TIERS,
    "remote.log.manager.fetch.max.bytes.per.second": NO_TIERS,
    "ssl.endpoint.identification.algorithm": "is for connections to other brokers, of which there are none",
    "ssl.engine.factory.class": JAVAS,
    "ssl.keymanager.algorithm": JAVAS,
    "ssl.provider": JAVAS,
    "ssl.secure.random.implementation": JAVAS,
    "ssl.trustmanager.algorithm": JAVAS,
} | {name: NO_SASL for name in DYNAMIC if name.startswith("sasl.")}
"""Keys that can be set but have no effect in this test, with the reason."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    settings = {"num.network.threads": "2", "broker.id": "3", "background.threads": "4"}
    with run(settings, tmp_path) as running:
        yield running


def test_every_dynamic_key_has_its_place_in_one_table() -> None:
    tables = [TOPIC_DEFAULTS.keys(), EFFECTS.keys(), TLS_EFFECTS, ELSEWHERE.keys(), CANNOT.keys()]
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    assert set(names) == DYNAMIC, "each key that can change at runtime belongs into one table of this module"
    assert (DYNAMIC - CANNOT.keys()) - HONOURED == {"log.local.retention.bytes", "log.local.retention.ms"}
    for place in ELSEWHERE.values():
        path, _, test = place.partition("::")
        assert f"def {test}(" in (Path(__file__).parents[2] / path).read_text()


@pytest.mark.parametrize("per_broker", [True, False])
def test_every_other_key_is_refused(per_broker: bool) -> None:
    for name in BROKER_KEYS.keys() - DYNAMIC:
        with pytest.raises(ConfigError) as refused:
            check({name: "1"}, per_broker=per_broker)
        assert str(refused.value) == f"Cannot update these configs dynamically: Set({name})"


def test_defaults_of_topics_reach_the_logs_that_are_open(running: Running) -> None:
    talk = Talk(running.port("PLAINTEXT"), "dynamic")
    talk.create("t")
    talk.close()
    log = logs_of(running).get_log(TopicPartition("dynamic.t", 0))
    assert log is not None
    attributes = {
        name: key.name.replace(".", "_") for key in TOPIC_KEYS.values() for name, _ in key.synonyms if name in TOPIC_DEFAULTS
    }
    assert attributes.keys() == TOPIC_DEFAULTS.keys()

    def seen() -> dict[str, object]:
        return {name: getattr(log.config, attribute) for name, attribute in attributes.items()}

    before = seen()
    wanted = {name: value for name, (_, value) in TOPIC_DEFAULTS.items()}
    assert not [name for name in wanted if wanted[name] == before[name]]
    running.write({name: text for name, (text, _) in TOPIC_DEFAULTS.items()}, DEFAULT_ENTITY)
    eventually(lambda: seen() == wanted)
    running.write({}, DEFAULT_ENTITY)
    eventually(lambda: seen() == before)


@pytest.mark.parametrize("name", EFFECTS)
def test_a_setting_of_all_brokers_acts_and_goes_again(running: Running, name: str) -> None:
    value, look, seen, before = EFFECTS[name]
    before = look(running, WAIT_S) if before is None else before
    assert before != seen
    eventually(lambda: look(running, WAIT_S) == before)
    running.write({name: value}, DEFAULT_ENTITY)
    eventually(lambda: look(running, NEVER_S) == seen)
    running.write({}, DEFAULT_ENTITY)
    eventually(lambda: look(running, WAIT_S) == before)


CA = Authority()
FIRST, SECOND = (CA.issue("CN=broker,O=Tests", ["localhost"]) for _ in range(2))
CLIENT = CA.issue("CN=client,O=Tests")
SECRET = "open sesame"


class TlsRunning(Running):
    """A broker with a TLS listener, and what clients see of it."""

    def set(self, **settings: object) -> None:
        """Set the listener's ``ssl.`` keys, and no others."""
        dynamic = self.broker._server.dynamic
        assert dynamic is not None
        named = {f"listener.name.ssl.ssl.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
        dynamic.validate(named, per_broker=True)
        self.write(dynamic.stored(named))

    def connect(self, identity: Path | None = None) -> tuple[int, str, str]:
        """Return the certificate's serial number, the protocol and the cipher suite of a connection that is answered."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if identity is not None:
            context.load_cert_chain(identity)
        with (
            socket.create_connection(("127.0.0.1", self.port("SSL")), timeout=WAIT_S) as plain,
            context.wrap_socket(plain) as client,
        ):
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            if not client.recv(8):
                raise ssl.SSLError("refused")
            certificate, cipher, protocol = client.getpeercert(True), client.cipher(), client.version()
            assert certificate is not None
            assert cipher is not None
            assert protocol is not None
            return x509.load_der_x509_certificate(certificate).serial_number, protocol, cipher[0]

    def is_let_in(self, identity: Path | None = None) -> bool:
        try:
            self.connect(identity)
        except (ssl.SSLError, ConnectionError):
            return False
        return True

    def serves(self, identity: Identity) -> bool:
        return self.connect()[0] == identity.certificate.serial_number


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[TlsRunning]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "password.encoder.secret": "encoded with it",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(FIRST.write_pem(tmp_path / "first.pem")),
    }
    with Broker(settings, data_dir=tmp_path / "data") as broker:
        yield TlsRunning(broker)


def test_tls_protocols_and_suites(tls: TlsRunning) -> None:
    assert tls.connect()[1] == "TLSv1.3"
    tls.set(enabled_protocols="TLSv1.2", cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    eventually(lambda: tls.connect()[1:] == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"))
    tls.set(enabled_protocols="", protocol="TLSv1.2")
    eventually(lambda: tls.connect()[1:] == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"))
    tls.set()
    eventually(lambda: tls.connect()[1] == "TLSv1.3")


def test_key_stores_of_each_kind(tls: TlsRunning, tmp_path: Path) -> None:
    assert tls.serves(FIRST)
    tls.set(keystore_location=SECOND.write_pem(tmp_path / "second.pem", SECRET), key_password=SECRET)
    eventually(lambda: tls.serves(SECOND))
    store = FIRST.write_pkcs12(tmp_path / "first.p12", SECRET)
    tls.set(keystore_location=store, keystore_type="PKCS12", keystore_password=SECRET)
    eventually(lambda: tls.serves(FIRST))
    tls.set(keystore_location="", keystore_certificate_chain=SECOND.chain_pem, keystore_key=SECOND.key_pem())
    eventually(lambda: tls.serves(SECOND))
    with pytest.raises(ConfigError, match="password"):
        tls.set(keystore_location=store, keystore_type="PKCS12", keystore_password="wrong")


def test_trust_and_who_must_show_a_certificate(tls: TlsRunning, tmp_path: Path) -> None:
    client = CLIENT.write_pem(tmp_path / "client.pem")
    assert tls.is_let_in()
    for trusted in (
        {"truststore_location": CA.write_trust(tmp_path / "trust.pem"), "truststore_type": "PEM"},
        {"truststore_location": CA.write_trust_pkcs12(tmp_path / "trust.p12", SECRET), "truststore_type": "PKCS12"}
        | {"truststore_password": SECRET},
        {"truststore_certificates": CA.pem, "truststore_type": "PEM"},
    ):
        tls.set(client_auth="required", **trusted)
        eventually(lambda: not tls.is_let_in())
        assert tls.is_let_in(client)
        tls.set()
        eventually(tls.is_let_in)
    stranger = Authority("CN=Somebody else")
    tls.set(client_auth="required", truststore_certificates=stranger.pem, truststore_type="PEM")
    eventually(lambda: not tls.is_let_in(client))
