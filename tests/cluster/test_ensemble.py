"""Brokers on an ensemble of three ZooKeepers, of which any one may go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running, wait_for_progress
from tests.cluster.faults import PARTITIONS, LoadOn, bear, ensure_nothing_is_wrong, kill_a_leader, kill_the_controller
from tests.cluster.load import Load
from tests.support.eventually import eventually
from tests.support.zookeeper import Ensemble, ZooKeeper, needs_zookeeper
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]

SESSION_MS = 10_000
"""Longer than it takes to find another server."""
ROUNDS = 300


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    needs_zookeeper()
    ensemble = Ensemble(tmp_path / "zookeepers", 3)
    yield ensemble
    ensemble.kill()


@pytest.fixture
def cluster(tmp_path: Path, ensemble: Ensemble) -> Iterator[Cluster]:
    brokers = Cluster(tmp_path / "brokers", [Kind.OURS] * 3, ensemble=ensemble, zookeeper_session_timeout_ms=SESSION_MS)
    with running(brokers) as cluster:
        yield cluster


def test_what_another_server_has_answered_is_read_after_sync(ensemble: Ensemble) -> None:
    ensemble.start()
    stores = [ZooKeeperStore(ZooKeeperSettings(hosts=each.address)) for each in ensemble.servers]
    stores[0].create("/node", b"")
    for number in range(ROUNDS):
        writing, reading = stores[number % 3], stores[(number + 1) % 3]
        writing.set("/node", b"%d" % number)
        reading.sync("/node")
        assert reading.get("/node")[0] == b"%d" % number
    for store in stores:
        store.close()


def test_any_one_of_three_may_go(ensemble: Ensemble, cluster: Cluster, load_on: LoadOn) -> None:
    cluster.create_topic("kept", PARTITIONS, 3)
    load = load_on("kept", PARTITIONS, pause_s=0.02)
    leader = ensemble.leader
    for server in [leader, *(each for each in ensemble.servers if each is not leader)]:
        do_without(server, ensemble, cluster, load)
    ensure_nothing_is_wrong(cluster, load)


def do_without(server: ZooKeeper, ensemble: Ensemble, cluster: Cluster, load: Load) -> None:
    """Kill a server, change everything meanwhile, and start it again."""
    registrations = cluster.children_version("/brokers/ids")
    server.kill()
    assert ensemble.leader is not server
    topic = f"without-{server.port}"
    cluster.create_topic(topic, 3, 3)
    wait_for_progress(lambda: load.acknowledged)
    assert cluster.children_version("/brokers/ids") == registrations, "a session has ended with the server"
    for fault in (kill_a_leader, kill_the_controller):
        bear(cluster, load, fault)
    server.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: not cluster.states(topic), lambda: cluster.states(topic))
    cluster.wait_until_whole()
