"""The controller's metrics: Kafka's names, and values that follow what happens."""

from pathlib import Path
from typing import Any

from tests.support.controller_cluster import Cluster
from twisted_kafka.metadata import znodes
from twisted_kafka.protocol.errors import ErrorCode

NAMES = Path(__file__).parents[1] / "data" / "metrics" / "kafka-3.9.2-controller.tsv"
CHANNELS = "kafka.controller:type=ControllerChannelManager,"
"""Those of the requests to other brokers: one broker has none."""


def value(cluster: Cluster, name: str, kind: str = "KafkaController") -> Any:
    return cluster.metrics.value(kind, name)


def test_all_of_kafkas_names_are_there(cluster: Cluster) -> None:
    wanted = {name for name in NAMES.read_text().split("\n") if name and not name.startswith(CHANNELS)}
    shown = {str(name) for name, _ in cluster.metrics.items()}
    assert wanted - shown == set()


def test_what_the_controller_knows_is_counted(cluster: Cluster) -> None:
    assert value(cluster, "ActiveControllerCount") == 0
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2], [2], [2])
    assert [value(cluster, name) for name in ("ActiveControllerCount", "ActiveBrokerCount")] == [1, 2]
    assert [value(cluster, name) for name in ("GlobalTopicCount", "GlobalPartitionCount")] == [1, 3]
    cluster.kill(2)
    cluster.pump()
    assert value(cluster, "OfflinePartitionsCount") == 2
    assert value(cluster, "ActiveBrokerCount") == 1
    cluster.register(2)
    cluster.pump()
    assert value(cluster, "OfflinePartitionsCount") == 0


def test_a_leader_that_is_not_the_preferred_one_is_an_imbalance(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    cluster.kill(2)
    cluster.pump()
    assert value(cluster, "PreferredReplicaImbalanceCount") == 1


def test_deletions_that_wait_are_counted(cluster: Cluster) -> None:
    cluster.start()
    cluster.make_topic("t", [1], [1])
    cluster.brokers.errors[1, "t"] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.store.create(znodes.delete_topic_path("t"))
    cluster.pump()
    names = ("TopicsToDeleteCount", "TopicsIneligibleToDeleteCount", "ReplicasToDeleteCount", "ReplicasIneligibleToDeleteCount")
    assert [value(cluster, name) for name in names] == [1, 1, 2, 2]


def test_events_are_timed_by_what_they_are_about(cluster: Cluster) -> None:
    cluster.start()
    changes = value(cluster, "TopicChangeRateAndTimeMs", "ControllerStats")
    cluster.make_topic("t", [1])
    assert value(cluster, "TopicChangeRateAndTimeMs", "ControllerStats") == changes + 1
    assert value(cluster, "ControllerChangeRateAndTimeMs", "ControllerStats") >= 1
    assert value(cluster, "EventQueueTimeMs", "ControllerEventManager") > 0
    assert (value(cluster, "EventQueueSize", "ControllerEventManager"), value(cluster, "ControllerState")) == (0, 0)


def test_unclean_elections_are_counted(cluster: Cluster) -> None:
    cluster.restart(unclean_leader_election_enable="true")
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    path = znodes.state_path(cluster.controller.context.all_partitions()[0])
    cluster.store.set(path, cluster.store.get(path)[0].replace(b"[2,1]", b"[2]"))
    cluster.kill(2)
    cluster.pump()
    assert value(cluster, "UncleanLeaderElectionsPerSec", "ControllerStats") == 1
