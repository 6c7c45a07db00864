"""Checker and harness against three brokers of Apache Kafka: what they promise they keep, and what they do not, is found."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.checker import Kind as Found
from tests.cluster.checker import check
from tests.cluster.cluster import Cluster, rest, wait_for_progress
from tests.cluster.faults import FAULTS, LONG_S, Do, bear, ensure_nothing_is_wrong
from tests.cluster.load import Load
from tests.zookeeper import needs_zookeeper

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "checked"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_zookeeper()
    cluster = Cluster(tmp_path_factory.mktemp("apache"), [Kind.APACHE] * 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_with_two_in_sync_replicas(cluster: Cluster, load_on: Callable[..., Load], fault: Do) -> None:
    topic = f"{TOPIC}-{fault.__name__}"
    cluster.create_topic(topic, PARTITIONS, 3)
    load = load_on(topic, PARTITIONS)
    bear(cluster, load, fault)
    ensure_nothing_is_wrong(cluster, load)


def test_what_one_replica_alone_has_acknowledged_is_found_lost(cluster: Cluster, load_on: Callable[..., Load]) -> None:
    topic = "unsafe"
    cluster.create_topic(topic, 1, 3, min_insync_replicas=1, unclean_leader_election_enable="true")
    load = load_on(topic, 1, acks="1", idempotent=False)
    leader = cluster.leader(topic)
    with cluster.isolated(leader):
        rest(LONG_S)
        wait_for_progress(lambda: load.acknowledged)
        cluster.brokers[leader].kill()
    cluster.wait_until_gone(leader)
    wait_for_progress(lambda: load.acknowledged)
    cluster.start_brokers(leader)
    cluster.wait_until_whole()
    assert Found.LOST in {fault.kind for fault in check(load.end())}
