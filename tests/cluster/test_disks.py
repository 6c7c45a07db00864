"""Brokers whose disks are full, stand still or are slow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import WAIT_S, Cluster, prepared, wait_for_progress
from tests.cluster.disks import Disk, mounted
from tests.cluster.faults import LONG_S, LoadOn, withstand
from tests.cluster.load import Load
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]

KINDS = [Kind.OURS, pytest.param(Kind.APACHE, marks=pytest.mark.oracle)]
SETTINGS: dict[str, Any] = {"log_segment_bytes": 1 << 20, "log_index_size_max_bytes": 65_536}
Disks = dict[Path, Disk]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def disks_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Disks]]:
    """Three brokers with two log directories each, each a disk of its own."""
    cluster = Cluster(tmp_path_factory.mktemp("disks"), [request.param] * 3, **SETTINGS)
    for broker in cluster.brokers.values():
        broker.log_dirs.append(broker.directory / "other-log")
    with mounted(place for broker in cluster.brokers.values() for place in broker.log_dirs) as disks, prepared(cluster):
        cluster.start_brokers(*cluster.brokers)
        yield cluster, disks


@pytest.fixture
def cluster(disks_of: tuple[Cluster, Disks]) -> Cluster:
    return disks_of[0]


@pytest.fixture
def disks(disks_of: tuple[Cluster, Disks]) -> Disks:
    return disks_of[1]


def leaders_disk(cluster: Cluster, disks: Disks, load: Load) -> tuple[int, Disk]:
    """Return who leads the first partition, and the disk that it has it on."""
    leader = cluster.leader(load.target.topic)
    return leader, disks[cluster.brokers[leader].log_of(f"{load.target.topic}-0").parent]


def test_a_leader_with_a_full_disk_leads_no_more(cluster: Cluster, disks: Disks, load_on: LoadOn) -> None:
    def full_disk(cluster: Cluster, load: Load) -> None:
        leader, disk = leaders_disk(cluster, disks, load)
        disk.fill()
        eventually(lambda: cluster.leader(load.target.topic) != leader, cluster.brokers[leader].tail, WAIT_S, 0.1)
        wait_for_progress(lambda: load.acknowledged)
        disk.empty()
        restart(cluster, leader)

    withstand(cluster, load_on, full_disk)


def test_a_broker_all_of_whose_disks_are_full_ends(cluster: Cluster, disks: Disks, load_on: LoadOn) -> None:
    def full_disks(cluster: Cluster, load: Load) -> None:
        leader = cluster.leader(load.target.topic)
        full = [disks[place] for place in cluster.brokers[leader].log_dirs]
        for disk in full:
            disk.fill()
        assert cluster.brokers[leader].wait_until_it_ends(WAIT_S) != 0
        cluster.wait_until_gone(leader)
        wait_for_progress(lambda: load.acknowledged)
        for disk in full:
            disk.empty()
        restart(cluster, leader)

    withstand(cluster, load_on, full_disks)


def test_a_disk_that_stands_still(cluster: Cluster, disks: Disks, load_on: LoadOn) -> None:
    def still_disk(cluster: Cluster, load: Load) -> None:
        leaders_disk(cluster, disks, load)[1].stand_still(LONG_S)

    withstand(cluster, load_on, still_disk)


def test_a_slow_disk(cluster: Cluster, disks: Disks, load_on: LoadOn) -> None:
    def slow_disk(cluster: Cluster, load: Load) -> None:
        leaders_disk(cluster, disks, load)[1].be_slow(2 * LONG_S)

    withstand(cluster, load_on, slow_disk)


def restart(cluster: Cluster, broker_id: int) -> None:
    """A directory that has failed is offline until its broker starts anew."""
    cluster.brokers[broker_id].kill()
    cluster.start_brokers(broker_id)
