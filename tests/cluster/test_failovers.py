"""Three of our brokers, under load, lose their leaders again and again: nothing that was acknowledged is lost."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.checker import Kind as Found
from tests.cluster.checker import check
from tests.cluster.cluster import Cluster, rest, wait_for_progress
from tests.cluster.faults import (
    FAULTS,
    LONG_S,
    Do,
    bear,
    ensure_nothing_is_wrong,
    kill_a_leader,
    kill_a_leader_for_a_moment,
    kill_the_controller,
)
from tests.cluster.load import Load, Target
from tests.zookeeper import needs_zookeeper

pytestmark = [pytest.mark.long, pytest.mark.clients]

PARTITIONS = 3
FEW, MANY = 5, 100
QUICK: tuple[Do, ...] = (kill_a_leader, kill_the_controller, kill_a_leader_for_a_moment)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_zookeeper()
    cluster = Cluster(tmp_path_factory.mktemp("ours"), [Kind.OURS] * 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.mark.slow  # librdkafka's consumers sometimes do not end: not for every change
@pytest.mark.timeout(300)
def test_nothing_is_lost_when_leaders_and_controllers_are_killed(cluster: Cluster, load_on: Callable[..., Load]) -> None:
    cluster.create_topic("few", PARTITIONS, 3)
    load = load_on("few", PARTITIONS)
    for number in range(FEW):
        bear(cluster, load, QUICK[number % len(QUICK)])
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_with_two_in_sync_replicas(cluster: Cluster, load_on: Callable[..., Load], fault: Do) -> None:
    topic = f"checked-{fault.__name__}"
    cluster.create_topic(topic, PARTITIONS, 3)
    load = load_on(topic, PARTITIONS)
    bear(cluster, load, fault)
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_many_failovers(cluster: Cluster, load_on: Callable[..., Load]) -> None:
    cluster.create_topic("many", PARTITIONS, 3)
    load = load_on("many", PARTITIONS, pause_s=0.05)
    chosen = random.Random(19)
    for _ in range(MANY):
        bear(cluster, load, chosen.choice(FAULTS[:-1]))  # but rolling restarts, which take long
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("brokers", [5])
def test_five_brokers(tmp_path: Path, brokers: int) -> None:
    needs_zookeeper()
    cluster = Cluster(tmp_path, [Kind.OURS] * brokers)
    try:
        cluster.start()
        cluster.create_topic("five", PARTITIONS, 3)
        load = Load(Target(cluster.bootstrap, "five", PARTITIONS))
        load.start()
        try:
            wait_for_progress(lambda: load.acknowledged)
            for fault in QUICK:
                bear(cluster, load, fault)
            ensure_nothing_is_wrong(cluster, load)
        finally:
            load.stop()
    finally:
        cluster.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_one_replica_alone_has_acknowledged_is_lost_as_in_kafka(cluster: Cluster, load_on: Callable[..., Load]) -> None:
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
