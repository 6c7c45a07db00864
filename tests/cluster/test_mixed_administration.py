"""What is set on a broker of one kind holds on those of the other: ACLs, quotas, deletion and compaction in one cluster of both.

And what zookeeper-shell shows of it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.cluster.brokers import BrokerProcess, Kind
from tests.cluster.cluster import WAIT_S, Cluster, running
from tests.cluster.replicas import log_bytes
from tests.cluster.tools import zookeeper_shell
from tests.support.eventually import eventually
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(600)]

LEADERS = 4
"""Partitions of a topic: each broker leads one."""
RATE = 2000
"""Bytes per second of a client with a quota."""
KEYS, VERSIONS = 20, 200
END = b"end"
SETTINGS: dict[str, Any] = {
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
    "log_cleaner_backoff_ms": 500,
    "log_segment_delete_delay_ms": 1000,
}
EITHER = pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kinds = [Kind.OURS, Kind.APACHE, Kind.OURS, Kind.APACHE]
    with running(Cluster(tmp_path_factory.mktemp("administered"), kinds, **SETTINGS)) as cluster:
        yield cluster


def one_of(cluster: Cluster, kind: Kind) -> BrokerProcess:
    return next(broker for broker in cluster.brokers.values() if broker.kind is kind)


def the_other(kind: Kind) -> Kind:
    return next(each for each in Kind if each is not kind)


def create_led_by_all(cluster: Cluster, topic: str, **configs: object) -> None:
    """Create a topic of which each broker leads a partition."""
    cluster.create_topic(topic, LEADERS, 3, **configs)
    eventually(lambda: {state.leader for state in cluster.states(topic).values()} == set(cluster.brokers), wait_s=WAIT_S)


def outcomes(cluster: Cluster, topic: str) -> set[str | None]:
    """Return with which errors each leader answers a record; None is without."""
    told: list[str | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        told.append(None if error is None else error.name())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for partition in range(LEADERS):
        producer.produce(topic, b"value", partition=partition, on_delivery=delivered)
    assert producer.flush(60) == 0
    return set(told)


@EITHER
def test_an_acl_made_on_one_kind_holds_on_both(cluster: Cluster, kind: Kind) -> None:
    topic = f"guarded-{kind.name}"
    create_led_by_all(cluster, topic)
    assert outcomes(cluster, topic) == {None}
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.WRITE)
    maker = AdminClient({"bootstrap.servers": one_of(cluster, kind).bootstrap})
    for made in maker.create_acls([AclBinding(*what, AclPermissionType.DENY)]).values():
        made.result(30)
    eventually(lambda: outcomes(cluster, topic) == {"TOPIC_AUTHORIZATION_FAILED"}, wait_s=WAIT_S)
    remover = AdminClient({"bootstrap.servers": one_of(cluster, the_other(kind)).bootstrap})
    for removed in remover.delete_acls([AclBindingFilter(*what, AclPermissionType.DENY)]).values():
        assert len(removed.result(30)) == 1
    eventually(lambda: outcomes(cluster, topic) == {None}, wait_s=WAIT_S)


@EITHER
def test_a_quota_set_on_one_kind_holds_on_both(cluster: Cluster, kind: Kind) -> None:
    topic = client_id = f"held-{kind.name}"
    create_led_by_all(cluster, topic)
    talk = Talk(one_of(cluster, kind).port, "quotas", b"admin")
    entity = [EntityData(entity_type="client-id", entity_name=client_id)]
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=float(RATE))])
    assert talk.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0
    talk.close()
    held = set()
    settings = {"bootstrap.servers": cluster.bootstrap, "client.id": client_id, "linger.ms": 0}
    producer = Producer(settings | {"throttle_cb": lambda event: held.add(event.broker_id) if event.throttle_time else None})

    def all_hold() -> bool:
        for partition in range(LEADERS):
            producer.produce(topic, b"x" * RATE, partition=partition)
        producer.poll(0.5)
        return held == set(cluster.brokers)

    eventually(all_hold, lambda: f"only {held} throttle", WAIT_S, 0.2)
    producer.purge()
    producer.flush(30)


@EITHER
def test_a_topic_deleted_through_one_kind_vanishes_from_both(cluster: Cluster, kind: Kind) -> None:
    topic = f"gone-{kind.name}"
    create_led_by_all(cluster, topic)
    assert outcomes(cluster, topic) == {None}
    admin = AdminClient({"bootstrap.servers": one_of(cluster, kind).bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(60)

    def left() -> list[object]:
        return [path for broker in cluster.brokers.values() for path in broker.log_dir.glob(f"{topic}-*")]

    eventually(lambda: not left(), lambda: left(), WAIT_S, 0.2)
    assert not cluster.replicas(topic)


def test_each_kind_compacts_what_it_leads_and_what_it_follows(cluster: Cluster) -> None:
    configs = {"cleanup_policy": "compact", "segment_ms": 500, "min_cleanable_dirty_ratio": "0.01", "segment_bytes": 1 << 16}
    create_led_by_all(cluster, "compacted", **configs)
    sent = write_versions(cluster, "compacted")
    sizes = {broker.id: size_of(broker, "compacted") for broker in cluster.brokers.values()}

    def are_compacted() -> bool:
        # The active segment is never compacted: something is written until it is rolled.
        write(cluster, "compacted", [(b"last", b"value")])
        return all(size_of(broker, "compacted") < sizes[broker.id] / 2 for broker in cluster.brokers.values())

    eventually(are_compacted, lambda: {each.id: size_of(each, "compacted") for each in cluster.brokers.values()}, WAIT_S, 1)
    write(cluster, "compacted", [(END, END)])
    latest = read_latest(cluster, "compacted")
    for partition in range(LEADERS):
        assert {key: value for (part, key), value in latest.items() if part == partition and key not in (END, b"last")} == sent


def test_zookeeper_shell_shows_both_kinds_alike(cluster: Cluster) -> None:
    ids = list(cluster.brokers)
    assert sorted(json.loads(zookeeper_shell(cluster, "ls", "/brokers/ids"))) == ids
    told = {each: json.loads(zookeeper_shell(cluster, "get", f"/brokers/ids/{each}")) for each in ids}
    assert len({tuple(node) for node in told.values()}) == 1, told
    assert all(f"CLIENTS://127.0.0.1:{cluster.brokers[each].port}" in told[each]["endpoints"] for each in ids)
    # Not the features: ours have transaction.version, which Kafka has in KRaft mode alone.
    assert len({json.dumps(node["listener_security_protocol_map"]) for node in told.values()}) == 1


def write(cluster: Cluster, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for partition in range(LEADERS):
        for key, value in records:
            producer.produce(topic, value, key, partition=partition)
    assert producer.flush(60) == 0


def read_latest(cluster: Cluster, topic: str) -> dict[tuple[int, bytes], bytes]:
    """Return the last value of each partition's keys, up to the record that ends it."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(LEADERS)])
    latest: dict[tuple[int, bytes], bytes] = {}

    def has_read_all() -> bool:
        for message in consumer.consume(10_000, 0.5):
            assert message.error() is None, message.error()
            latest[message.partition(), message.key()] = message.value()
        return all((partition, END) in latest for partition in range(LEADERS))

    eventually(has_read_all)
    consumer.close()
    return latest


def write_versions(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """Write many versions of some keys; return the last ones."""
    padding = b"." * 100
    for version in range(VERSIONS):
        write(cluster, topic, [(b"%d" % key, b"%d-%d%s" % (key, version, padding)) for key in range(KEYS)])
    return {b"%d" % key: b"%d-%d%s" % (key, VERSIONS - 1, padding) for key in range(KEYS)}


def size_of(broker: BrokerProcess, topic: str) -> int:
    return sum(len(log_bytes(path)) for path in broker.log_dir.glob(f"{topic}-*"))
