"""One cluster of two of our brokers and two of Apache Kafka, each in every role, while clients write and read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running, wait_for_progress
from tests.cluster.faults import (
    FEWEST,
    Do,
    LoadOn,
    bear,
    ensure_nothing_is_wrong,
    expire_the_controllers_session,
    isolate_a_leader,
    kill_a_leader,
    kill_all_at_once,
    pause_a_leader,
    stop_each_in_turn,
    withstand,
)
from tests.cluster.mixed import move_the_controller, wait_for_leaders
from tests.cluster.tools import describe, elect_preferred, log_dirs, reassign, verified_lags

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(900)]

PARTITIONS = 4
KINDS = {
    "Kafka's first": [Kind.APACHE, Kind.APACHE, Kind.OURS, Kind.OURS],
    "ours first": [Kind.OURS, Kind.OURS, Kind.APACHE, Kind.APACHE],
}
FAULTS: tuple[Do, ...] = (kill_a_leader, pause_a_leader, isolate_a_leader, expire_the_controllers_session, kill_all_at_once)


@pytest.fixture(scope="module", params=KINDS, ids=str)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of one kind, and then two of the other that join them."""
    with running(Cluster(tmp_path_factory.mktemp("mixed"), KINDS[request.param]), 1, 2) as cluster:
        cluster.create_topic("before", PARTITIONS, 2)
        cluster.start_brokers(3, 4)
        yield cluster


def rotated(by: int) -> dict[int, list[int]]:
    """Return three replicas for each partition, whose first is another broker for each, and for each ``by``."""
    return {part: [(part + by + each) % 4 + 1 for each in range(3)] for part in range(PARTITIONS)}


def test_a_topic_of_one_kind_moves_to_the_other_and_back(cluster: Cluster, load_on: LoadOn, tmp_path: Path) -> None:
    load = load_on("before", PARTITIONS)
    for ids in ([3, 4], [1, 2], [2, 3], [4, 1]):
        reassign(cluster, "before", dict.fromkeys(range(PARTITIONS), ids), tmp_path)
        elect_preferred(cluster)
        wait_for_progress(lambda: load.acknowledged)
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_every_broker_leads_and_follows_every_other(cluster: Cluster, load_on: LoadOn, tmp_path: Path, kind: Kind) -> None:
    topic = f"rotated-{kind.name}"
    cluster.create_topic(topic, PARTITIONS, 3)
    load = load_on(topic, PARTITIONS)
    move_the_controller(cluster, load, kind)
    for by in range(4):
        reassign(cluster, topic, rotated(by), tmp_path)
        elect_preferred(cluster)
        wait_for_leaders(cluster, topic, {part: ids[0] for part, ids in rotated(by).items()})
        wait_for_progress(lambda: load.acknowledged)
    ensure_nothing_is_wrong(cluster, load)


def test_brokers_are_restarted_one_after_the_other(cluster: Cluster, load_on: LoadOn) -> None:
    cluster.create_topic("rolling", PARTITIONS, 3)
    load = load_on("rolling", PARTITIONS)
    bear(cluster, load, stop_each_in_turn)
    ensure_nothing_is_wrong(cluster, load)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost(cluster: Cluster, load_on: LoadOn, fault: Do) -> None:
    withstand(cluster, load_on, fault, PARTITIONS)


def test_kafkas_tools_say_the_same_of_either_kind(cluster: Cluster, load_on: LoadOn) -> None:
    cluster.create_topic("described", PARTITIONS, 3)
    load = load_on("described", PARTITIONS)
    wait_for_progress(lambda: load.acknowledged, FEWEST)
    ensure_nothing_is_wrong(cluster, load)
    # The first line has the configs, in an order of the broker's own; eligible leader replicas are told by ours alone.
    lines = [describe(broker.bootstrap, "described").splitlines()[1:] for broker in cluster.brokers.values()]
    told = {tuple(line.partition("\tElr:")[0] for line in each) for each in lines}
    assert len(told) == 1, told
    assert len(told.pop()) == PARTITIONS
    found = log_dirs(cluster.bootstrap, "described")
    for partition, ids in cluster.replicas("described").items():
        sizes = {found[each][f"described-{partition}"]["size"] for each in ids}
        lags = {found[each][f"described-{partition}"]["offsetLag"] for each in ids}
        assert len(sizes) == 1
        assert lags == {0}
    lags = set(verified_lags(cluster.bootstrap, "described"))
    assert lags == {0}
