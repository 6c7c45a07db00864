from collections.abc import Callable

from tests.support.console import join_classic, join_consumer, make_topic
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.cluster.groups import in_states
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.cluster import BrokerLoad, Cluster
from twisted_kafka.console.queries.directories import Directory
from twisted_kafka.console.queries.findings import Expiry, findings, of_certificates, of_cluster, of_disks, of_groups
from twisted_kafka.console.queries.overview import Broker
from twisted_kafka.console.queries.topics.catalogue import Unwell


def test_a_cluster_that_is_well(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("t"))
    found = findings(session, ["client x asks for topic y"])
    assert [(each.kind, each.text) for each in found if each.kind != "ok"] == [("warning", "client x asks for topic y")]
    assert any("no group rebalances" in each.text for each in findings(session))


def test_groups_of_each_kind_are_found_by_their_state(session: Session, name: Callable[[str], str]) -> None:
    topic, consumer, classic = make_topic(session, name("t")), name("consumer"), name("classic")
    ResetOffsets(classic, (topic,), "earliest").do(session)
    join_consumer(session, consumer, topic)  # while no classic group is stable
    assert in_states(session, ["Stable"]) == [consumer]
    assert in_states(session, ["Empty"]) == [classic]
    join_classic(session, classic, topic, [0])
    assert in_states(session, ["Stable"]) == sorted((classic, consumer))


def test_missing_brokers_and_leaders() -> None:
    brokers = (BrokerLoad(Broker(1, "h", 1, None, False), 1, 2, 1),)
    unwell = (Unwell("a", 0, None, (1, 2), (2,)), Unwell("b", 0, 1, (1, 2), (1,)))
    texts = [f"{each.kind}: {each.text}" for each in of_cluster(Cluster("c", -1, brokers, (2,), unwell, ()))]
    assert texts == [
        "problem: the cluster has no controller: check the brokers' logs, and ZooKeeper or the quorum",
        "problem: broker 2 has replicas and is not there: start it",
        "problem: 1 of 2 partitions have no leader: start the brokers with their replicas",
        "warning: 1 of 2 partitions are under-replicated: a broker is down or slow",
        "problem: a partition 0 has no leader: start broker 2",
    ]


def test_certificates() -> None:
    expiries = [
        Expiry("SSL", "ssl.keystore", 200.0),
        Expiry("SSL", "ssl.truststore", 29.5),
        Expiry("CONSOLE", "ssl.keystore", 1.2),
        Expiry("SASL_SSL", "ssl.keystore", -0.1),
    ]
    assert [f"{each.kind}: {each.text.partition(';')[0]}" for each in of_certificates(expiries)] == [
        "warning: a certificate of ssl.truststore.* of listener SSL expires in 29 days",
        "problem: a certificate of ssl.keystore.* of listener CONSOLE expires in 1 day",
        "problem: a certificate of ssl.keystore.* of listener SASL_SSL has expired",
    ]


def test_disks_and_groups() -> None:
    full = Directory(1, "/d", 3, 10, 1_000, 50, 0, "")
    failed = Directory(1, "/e", 0, 0, None, None, 0, "the disk failed")
    half = Directory(1, "/f", 0, 0, 1_000, 500, 0, "")
    assert [each.text for each in of_disks([full, failed, half])] == [
        "broker 1, /d: the disk is 95 % full, 50 B are left: lower retention, or add space",
        "broker 1, /e: the disk failed",
    ]
    (found,) = of_groups([f"g{number}" for number in range(7)])
    assert found.text.startswith("rebalancing now: g0, g1, g2, g3, g4 and 2 more; look again")
    assert not list(of_groups([]))
