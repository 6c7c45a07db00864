"""Coordinators and the controller that are moved between two of our brokers and two of Apache Kafka, and directories that fail.

All under load: groups, idempotent producers and transactions.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.brokers import BrokerProcess, Kind
from tests.cluster.cluster import WAIT_S, Cluster, running, wait_for_progress
from tests.cluster.faults import LoadOn, ensure_nothing_is_wrong
from tests.cluster.mixed import move_the_controller, wait_for_leaders
from tests.cluster.tools import elect_preferred, reassign
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(900)]

PARTITIONS = 4
COORDINATED = {"__consumer_offsets": 4, "__transaction_state": 4}
KINDS = [Kind.OURS, Kind.APACHE, Kind.OURS, Kind.APACHE]
SETTINGS: dict[str, Any] = {"replica_high_watermark_checkpoint_interval_ms": 1000, "log_flush_offset_checkpoint_interval_ms": 1000}
"""A directory has failed once something cannot be written there, such as a checkpoint."""
EACH_KIND = pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers of both kinds with two log directories each."""
    cluster = Cluster(tmp_path_factory.mktemp("roles"), KINDS, **SETTINGS)
    for broker in cluster.brokers.values():
        broker.log_dirs.append(broker.directory / "other-log")
    with running(cluster):
        yield cluster


def of_kind(cluster: Cluster, kind: Kind) -> list[int]:
    return [broker.id for broker in cluster.brokers.values() if broker.kind is kind]


def other(kind: Kind) -> Kind:
    return next(each for each in Kind if each is not kind)


def coordinate(cluster: Cluster, ids: Sequence[int], directory: Path) -> None:
    """Have brokers lead the topics of the coordinators, in turn; the others follow."""
    for topic, count in COORDINATED.items():
        leaders = {partition: ids[partition % len(ids)] for partition in range(count)}
        others = [broker for broker in cluster.brokers if broker not in ids]
        reassign(cluster, topic, {partition: [leader, *others] for partition, leader in leaders.items()}, directory)
    elect_preferred(cluster)
    for topic, count in COORDINATED.items():
        wait_for_leaders(cluster, topic, {partition: ids[partition % len(ids)] for partition in range(count)})


@EACH_KIND
def test_coordinators_move_between_the_kinds(cluster: Cluster, load_on: LoadOn, tmp_path: Path, kind: Kind) -> None:
    topic = f"coordinated-{kind.name}"
    cluster.create_topic(topic, PARTITIONS, 3)
    load = load_on(topic, PARTITIONS)
    move_the_controller(cluster, load, kind)
    for wanted in (Kind.OURS, Kind.APACHE, Kind.OURS):
        coordinate(cluster, of_kind(cluster, wanted), tmp_path)
        wait_for_progress(lambda: load.acknowledged, 200)
    ensure_nothing_is_wrong(cluster, load)


def test_the_controller_moves_between_the_kinds(cluster: Cluster, load_on: LoadOn, tmp_path: Path) -> None:
    cluster.create_topic("controlled", PARTITIONS, 3)
    load = load_on("controlled", PARTITIONS)
    for number, kind in enumerate((Kind.APACHE, Kind.OURS, Kind.APACHE, Kind.OURS)):
        move_the_controller(cluster, load, kind)
        cluster.create_topic(f"made-by-{kind.name}-{number}", PARTITIONS, 3)
        reassign(cluster, "controlled", {0: of_kind(cluster, kind) + of_kind(cluster, other(kind))[:1]}, tmp_path)
        wait_for_progress(lambda: load.acknowledged)
    ensure_nothing_is_wrong(cluster, load)


@EACH_KIND
@pytest.mark.parametrize("controller", Kind, ids=lambda kind: f"controlled by {kind.name}")
def test_a_directory_fails(cluster: Cluster, load_on: LoadOn, tmp_path: Path, controller: Kind, kind: Kind) -> None:
    topic = f"failing-{kind.name}-{controller.name}"
    cluster.create_topic(topic, PARTITIONS, 3)
    load = load_on(topic, PARTITIONS)
    move_the_controller(cluster, load, controller)
    leader = next(each for each in of_kind(cluster, kind) if each != cluster.controller())
    others = [each for each in cluster.brokers if each != leader][:2]
    reassign(cluster, topic, {0: [leader, *others]}, tmp_path)
    elect_preferred(cluster)
    wait_for_progress(lambda: load.acknowledged)
    broker = cluster.brokers[leader]
    lost = broker.log_of(f"{topic}-0").parent
    away = lost.with_name(f"{lost.name}-away")
    lost.rename(away)
    eventually(lambda: cluster.states(topic)[0].leader not in (leader, -1), broker.tail, WAIT_S, 0.1)
    wait_for_progress(lambda: load.acknowledged)
    assert broker.is_running, broker.tail()
    assert leader in cluster.registered()
    bring_back(cluster, broker, away, lost)
    ensure_nothing_is_wrong(cluster, load)


def bring_back(cluster: Cluster, broker: BrokerProcess, away: Path, place: Path) -> None:
    """A directory that has failed is offline until its broker starts anew."""
    broker.kill()
    if place.exists():
        place.rmdir()
    away.rename(place)
    cluster.start_brokers(broker.id)
    cluster.wait_until_whole()
