"""Three of our brokers, under load, lose their leaders again and again: nothing that was acknowledged is lost."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running, wait_for_progress
from tests.cluster.faults import (
    FAULTS,
    PARTITIONS,
    Do,
    LoadOn,
    bear,
    ensure_nothing_is_wrong,
    kill_a_leader,
    kill_a_leader_for_a_moment,
    kill_the_controller,
    lose_what_one_replica_alone_has_acknowledged,
    stop_each_in_turn,
    withstand,
)
from tests.cluster.load import Load, Target

pytestmark = [pytest.mark.long, pytest.mark.clients]

FEW, MANY = 3, 100
QUICK: tuple[Do, ...] = (kill_a_leader, kill_a_leader_for_a_moment, kill_the_controller)
MANY_OF = tuple(fault for fault in FAULTS if fault is not stop_each_in_turn)  # which takes long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(Cluster(tmp_path_factory.mktemp("ours"), [Kind.OURS] * 3)) as cluster:
        yield cluster


@pytest.mark.slow
def test_nothing_is_lost_when_leaders_and_controllers_are_killed(cluster: Cluster, load_on: LoadOn) -> None:
    cluster.create_topic("few", PARTITIONS, 3)
    load = load_on("few", PARTITIONS, pause_s=0.05)
    for number in range(FEW):
        bear(cluster, load, QUICK[number % len(QUICK)])
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_with_two_in_sync_replicas(cluster: Cluster, load_on: LoadOn, fault: Do) -> None:
    withstand(cluster, load_on, fault)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_many_failovers(cluster: Cluster, load_on: LoadOn) -> None:
    cluster.create_topic("many", PARTITIONS, 3)
    load = load_on("many", PARTITIONS, pause_s=0.05)
    chosen = random.Random(19)
    for number in range(MANY):
        fault = chosen.choice(MANY_OF)
        print(number, fault.__name__, flush=True)
        bear(cluster, load, fault)
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("brokers", [5])
def test_five_brokers(tmp_path: Path, brokers: int) -> None:
    with running(Cluster(tmp_path, [Kind.OURS] * brokers)) as cluster:
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


@pytest.mark.slow
def test_what_one_replica_alone_has_acknowledged_is_lost_as_in_kafka(cluster: Cluster, load_on: LoadOn) -> None:
    lose_what_one_replica_alone_has_acknowledged(cluster, load_on)
