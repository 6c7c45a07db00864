"""What docs/operations-cluster.md says of a cluster, done with Apache Kafka's tools while clients write and read."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, prepared, wait_for_progress
from tests.cluster.faults import bear, ensure_nothing_is_wrong, kill_a_leader
from tests.cluster.load import Load, Target
from tests.cluster.tools import elect_preferred, reassign, set_default, spread, under_replicated
from twisted_kafka.broker.registration.metadata_store import METADATA_FILE
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.properties import load_properties
from twisted_kafka.tools.main import main

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
TOPIC = "kept"
PARTITIONS = 3
TOPICS = {TOPIC: PARTITIONS, "__consumer_offsets": 4, "__transaction_state": 4}
ALONE: dict[str, Any] = {
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "min_insync_replicas": 1,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four brokers of which none runs; the first one has its metadata in a file."""
    with prepared(Cluster(tmp_path / "cluster", [Kind.OURS] * 4, **ALONE)) as cluster:
        yield cluster


def move_metadata(cluster: Cluster, directory: Path, zookeeper: object | None) -> None:
    """Move the first broker's metadata to ZooKeeper, or back for None."""
    broker = cluster.brokers[1]
    file = directory / "metadata.jsonl"
    config = ["--config", str(broker.directory / "server.properties")]
    assert main(["metadata", "export", *config, str(file)]) == 0
    broker.settings.pop("zookeeper.connect", None)
    if zookeeper is not None:
        for each in broker.log_dir.glob(f"{METADATA_FILE}*"):
            each.unlink()
        broker.settings["zookeeper.connect"] = zookeeper
    broker.write_settings()
    assert main(["metadata", "import", *config, str(file)]) == 0
    file.unlink()


def move_all(cluster: Cluster, ids: list[int], directory: Path) -> None:
    for topic, count in TOPICS.items():
        reassign(cluster, topic, {part: ids[part % len(ids) :] + ids[: part % len(ids)] for part in range(count)}, directory)


def test_from_one_broker_to_a_cluster_and_back(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.brokers[1]
    zookeeper = first.settings.pop("zookeeper.connect")
    first.start()
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    load = Load(Target(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=0.02))
    load.start()
    try:
        wait_for_progress(lambda: load.acknowledged)
        first.stop()
        move_metadata(cluster, tmp_path, zookeeper)
        cluster.start_brokers(1)
        wait_for_progress(lambda: load.acknowledged)
        become_a_cluster(cluster, load, tmp_path)
        change_brokers(cluster, load, tmp_path)
        become_one_broker(cluster, load, tmp_path)
        wait_for_progress(lambda: load.acknowledged)
        cluster.members.clear()  # ZooKeeper knows nothing of it any more
        cluster.zookeeper.kill()
        ensure_nothing_is_wrong(cluster, load, are_replicas_compared=False)
    finally:
        load.stop()


def become_a_cluster(cluster: Cluster, load: Load, directory: Path) -> None:
    cluster.start_brokers(2, 3)
    move_all(cluster, [1, 2, 3], directory)
    set_default(cluster, "min.insync.replicas=2")
    elect_preferred(cluster)
    assert not under_replicated(cluster)
    bear(cluster, load, kill_a_leader)


def change_brokers(cluster: Cluster, load: Load, directory: Path) -> None:
    cluster.start_brokers(4)
    spread(cluster, list(TOPICS), [1, 2, 3, 4], directory)
    assert any(4 in ids for ids in cluster.replicas(TOPIC).values())
    spread(cluster, list(TOPICS), [1, 2, 4], directory)
    assert not any(3 in ids for topic in TOPICS for ids in cluster.replicas(topic).values())
    cluster.brokers[3].stop()
    cluster.members.remove(3)
    wait_for_progress(lambda: load.acknowledged)
    cluster.brokers[2].kill()
    shutil.rmtree(cluster.brokers[2].log_dir)
    cluster.wait_until_gone(2)
    cluster.start_brokers(2)
    cluster.wait_until_whole()
    assert not under_replicated(cluster)


def become_one_broker(cluster: Cluster, load: Load, directory: Path) -> None:
    set_default(cluster, "min.insync.replicas=1")
    move_all(cluster, [1], directory)
    for other in (2, 4):
        cluster.brokers[other].stop()
        cluster.members.remove(other)
    wait_for_progress(lambda: load.acknowledged)
    cluster.brokers[1].stop()
    move_metadata(cluster, directory, None)
    cluster.brokers[1].start()


def test_the_files_for_three_machines_differ_in_the_broker_alone() -> None:
    files = [load_properties(path) for path in sorted((ROOT / "etc" / "cluster").glob("broker-*.properties"))]
    assert [KafkaConfig.from_properties(file).unknown_keys for file in files] == [(), (), ()]
    assert [file.pop("broker.id") for file in files] == ["1", "2", "3"]
    assert len({file.pop("advertised.listeners") for file in files}) == 3
    assert files[0] == files[1] == files[2]
