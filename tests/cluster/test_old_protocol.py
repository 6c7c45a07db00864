"""With an old ``inter.broker.protocol.version``, leaders of either kind write in-sync replicas to ZooKeeper themselves."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import WAIT_S, Cluster, running
from tests.cluster.faults import ensure_nothing_is_wrong, kill_a_leader
from tests.cluster.load import Load, Target
from tests.cluster.tools import describe
from tests.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(600)]

OLD = "2.6"
"""The last version without AlterPartition; topics have no ids either."""
NOTIFICATIONS = "/isr_change_notification"
SETTINGS: dict[str, Any] = {"inter_broker_protocol_version": OLD, "zookeeper_session_timeout_ms": 60_000}
KINDS = {Kind.OURS: [Kind.OURS, Kind.APACHE, Kind.OURS], Kind.APACHE: [Kind.APACHE, Kind.OURS, Kind.OURS]}
"""By the kind of the controller, which is the first one; the last one is paused."""


def told_isrs(cluster: Cluster, broker: int, topic: str) -> dict[int, set[int]]:
    """Return the in-sync replicas of each partition, as a broker tells them."""
    found = {}
    for line in describe(cluster.brokers[broker].bootstrap, topic).splitlines()[1:]:
        words = line.split()
        found[int(words[words.index("Partition:") + 1])] = {int(each) for each in words[words.index("Isr:") + 1].split(",")}
    return found


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_leaders_tell_the_controller_of_in_sync_replicas(tmp_path: Path, kind: Kind) -> None:
    with running(Cluster(tmp_path, KINDS[kind], **SETTINGS), 1) as cluster:
        assert cluster.controller() == 1
        cluster.start_brokers(2, 3)
        cluster.create_topic("old", 3, 3)
        before = cluster.children_version(NOTIFICATIONS)
        led_by_others = {part for part, state in cluster.states("old").items() if state.leader != 3}
        assert {cluster.states("old")[part].leader for part in led_by_others} == {1, 2}
        with cluster.paused(3):
            eventually(lambda: all(set(cluster.states("old")[part].in_sync) == {1, 2} for part in led_by_others), wait_s=WAIT_S)
            for broker in (1, 2):  # the controller has heard of it, and has told all

                def has_heard(broker: int = broker) -> bool:
                    told = told_isrs(cluster, broker, "old")
                    return all(told[part] == {1, 2} for part in led_by_others)

                eventually(has_heard, wait_s=WAIT_S, pause_s=0.5)
        assert cluster.children_version(NOTIFICATIONS) > before
        cluster.wait_until_whole()
        eventually(lambda: all(isr == {1, 2, 3} for isr in told_isrs(cluster, 2, "old").values()), wait_s=WAIT_S, pause_s=0.5)


def test_nothing_is_lost(tmp_path: Path) -> None:
    kinds = [Kind.OURS, Kind.APACHE, Kind.OURS]
    with running(Cluster(tmp_path, kinds, inter_broker_protocol_version=OLD)) as cluster:
        cluster.create_topic("old", 3, 3)
        load = Load(Target(cluster.bootstrap, "old", 3))
        load.start()
        try:
            for _ in range(3):
                kill_a_leader(cluster, load)
            ensure_nothing_is_wrong(cluster, load)
        finally:
            load.stop()
