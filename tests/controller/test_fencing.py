"""Nothing that a deposed controller writes takes effect, and a present one resigns only if it has to."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.controller.context.fenced_store import ControllerMovedError, FencedStore
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, Create, Delete, NoNodeError, Set
from twisted_kafka.metadata.znodes import ControllerNode, PartitionStateNode, TopicNode
from twisted_kafka.metadata.znodes_admin import PartitionsNode
from twisted_kafka.protocol.errors import NotControllerError
from twisted_kafka.protocol.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)


def depose(cluster: Cluster) -> None:
    """Elect broker 2; this controller hears of it only when the store is pumped."""
    node = ControllerNode(broker_id=2, timestamp_ms=cluster.clock.wall_ms())
    epoch = int(cluster.store.get(znodes.CONTROLLER_EPOCH)[0]) + 1
    cluster.store.delete(znodes.CONTROLLER)
    cluster.store.multi([Set(znodes.CONTROLLER_EPOCH, str(epoch).encode()), Create(znodes.CONTROLLER, node.encode())])


def snapshot(cluster: Cluster, path: str = "") -> dict[str, Any]:
    found = {path or "/": cluster.store.get(path or "/")}
    for name in cluster.store.children(path or "/"):
        found |= snapshot(cluster, f"{path}/{name}")
    return found


def queue_deletion(cluster: Cluster) -> None:
    cluster.store.create(znodes.delete_topic_path("t"))


def queue_isr_change(cluster: Cluster) -> None:
    cluster.store.create(f"{znodes.ISR_CHANGES}/isr_change_", PartitionsNode([T0]).encode(), sequence=True)


def queue_new_topic(cluster: Cluster) -> None:
    cluster.store.create(znodes.topic_path("u"), TopicNode(partitions={0: [1, 2]}, topic_id=b"u" * 16).encode())


def queue_dead_broker(cluster: Cluster) -> None:
    cluster.kill(2)


def queue_unknown_deletion(cluster: Cluster) -> None:
    cluster.store.create(znodes.delete_topic_path("unknown"))


@pytest.mark.parametrize("queue", [queue_deletion, queue_isr_change, queue_new_topic, queue_dead_broker, queue_unknown_deletion])
def test_what_a_deposed_controller_has_still_queued_changes_nothing(cluster: Cluster, queue: Callable[[Cluster], None]) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    queue(cluster)
    cluster.store.pump()
    depose(cluster)
    before = snapshot(cluster)
    assert cluster.controller.is_active
    cluster.controller.pump()
    assert snapshot(cluster) == before
    assert cluster.controller.active_controller_id == 2


def test_what_others_ask_of_a_deposed_controller_is_answered_with_not_controller(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    asked = cluster.controller.run(
        lambda: cluster.controller.reassignments.alter({T0: [2]}), ControllerState.ALTER_PARTITION_REASSIGNMENT
    )
    depose(cluster)
    cluster.controller.pump()
    with pytest.raises(NotControllerError, match="no longer the controller"):
        asked.result(0)
    assert not cluster.controller.is_active


def test_a_controller_that_cannot_take_office_leaves_its_successors_node_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        depose(cluster)
        raise RuntimeError("no channel")

    monkeypatch.setattr(cluster.brokers, "add_broker", fail)
    cluster.register(1)
    cluster.controller.startup()
    cluster.pump()
    assert ControllerNode.decode(cluster.store.get(znodes.CONTROLLER)[0]).broker_id == 2
    assert cluster.controller.active_controller_id == 2


def test_a_controller_that_cannot_take_office_gives_up_its_own_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no channel")

    monkeypatch.setattr(cluster.brokers, "add_broker", fail)
    cluster.register(1)
    cluster.controller.startup()
    cluster.controller.pump()
    assert cluster.store.get(znodes.CONTROLLER) is None


WRITES: dict[str, Callable[[FencedStore], object]] = {
    "set": lambda store: store.set("/a", b"new"),
    "delete": lambda store: store.delete("/a/b/c"),
    "delete_all": lambda store: store.delete_all(["/a/b/c", "/a/b"]),
    "delete_tree": lambda store: store.delete_tree("/a"),
    "multi": lambda store: store.multi([Delete("/a/b/c")]),
    "batch": lambda store: store.batch([[Set("/a", b"new")], [Delete("/a/b/c")]]),
}


def fenced(cluster: Cluster) -> FencedStore:
    cluster.store.create("/a/b/c", make_parents=True)
    context = ControllerContext()
    context.epoch_version = cluster.store.exists(znodes.CONTROLLER_EPOCH).version
    return FencedStore(cluster.store, context)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_each_write_is_fenced(cluster: Cluster, write: Callable[[FencedStore], object]) -> None:
    cluster.start()
    store = fenced(cluster)
    depose(cluster)
    before = snapshot(cluster)
    with pytest.raises(ControllerMovedError, match="Another controller was elected"):
        write(store)
    assert snapshot(cluster) == before


def test_writes_in_office(cluster: Cluster) -> None:
    cluster.start()
    store = fenced(cluster)
    store.set("/a", b"new", 0)
    assert cluster.store.get("/a")[0] == b"new"
    with pytest.raises(BadVersionError):
        store.set("/a", b"newer", 0)
    (stat,), error = store.batch([[Set("/a", b"newest")], [Delete("/x")]])  # type: ignore[misc]
    assert (stat.version, type(error)) == (2, NoNodeError)
    store.delete("/x")
    store.delete_tree("/a")
    store.delete_tree("/a")
    assert store.children("/a") == []
    assert cluster.store.exists("/a") is None


# Elections and assignments while others write


def interrupt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, interruption: Callable[[], None], times: int = 1) -> None:
    """Have somebody else write before the controller's next batch."""
    batch, left = cluster.store.batch, [interruption] * times

    def interrupted(groups: Any) -> Any:
        if left:
            left.pop()()
        return batch(groups)

    monkeypatch.setattr(cluster.store, "batch", interrupted)


def test_a_leader_is_elected_although_the_isr_changes_meanwhile(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [3, 2, 1])
    path = znodes.state_path(T0)

    def shrink() -> None:
        state = PartitionStateNode.decode(cluster.store.get(path)[0])
        cluster.store.set(path, state._replace(isr=[each for each in state.isr if each != 2]).encode())

    cluster.kill(3)
    interrupt(cluster, monkeypatch, shrink, times=3)
    cluster.pump()
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, [1])


@pytest.mark.parametrize("existing", ["partitions", "partitions/0", "partitions/1", "partitions/0/state"])
def test_a_topic_of_which_a_part_exists_gets_its_leaders(cluster: Cluster, existing: str) -> None:
    """As a controller of Kafka leaves it that ended while it created the nodes."""
    cluster.start(1, 2)
    state = PartitionStateNode(leader=2, leader_epoch=4, isr=[2, 1], controller_epoch=0)
    cluster.store.create(
        f"{znodes.topic_path('t')}/{existing}", state.encode() if existing.endswith("state") else b"", make_parents=True
    )
    node = TopicNode(partitions={0: [1, 2], 1: [2, 1]}, topic_id=b"t" * 16)
    cluster.store.set(znodes.topic_path("t"), node.encode())
    cluster.pump()
    leaders = [cluster.state("t", partition).leader for partition in (0, 1)]
    assert leaders == [1, 2]
    assert cluster.state("t").leader_epoch == (5 if existing.endswith("state") else 0)
    assert cluster.brokers.cache.partition(T0).leader == leaders[0]


def test_a_topic_that_could_not_be_created_keeps_no_other_from_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start()
    interrupt(cluster, monkeypatch, lambda: cluster.store.create(f"{znodes.topic_path('t')}/partitions"))
    cluster.make_topic("t", [1], [1])
    assert [cluster.state("t", partition).leader for partition in (0, 1)] == [1, 1]


def test_a_reassignment_keeps_partitions_that_were_added_meanwhile(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    grown = TopicNode(partitions={0: [1], 1: [2]}, topic_id=b"t" * 16)
    cluster.store.set(znodes.topic_path("t"), grown.encode())
    asked = cluster.controller.run(
        lambda: cluster.controller.reassignments.alter({T0: [2]}), ControllerState.ALTER_PARTITION_REASSIGNMENT
    )
    cluster.controller.pump()
    assert asked.result(0) == {T0: None}
    node = TopicNode.decode(cluster.store.get(znodes.topic_path("t"))[0])
    assert (node.partitions, node.adding_replicas, node.removing_replicas) == ({0: [2, 1], 1: [2]}, {0: [2]}, {0: [1]})
    assert node.topic_id == b"t" * 16
