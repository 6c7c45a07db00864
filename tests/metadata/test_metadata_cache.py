from collections.abc import Collection, Sequence
from types import SimpleNamespace as Message
from typing import Any

from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.topic_partition import TopicPartition

ID = b"0123456789abcdef"


def endpoint(listener: str, port: int) -> Any:
    return Message(listener=listener, host="h", port=port, security_protocol=0)


def broker(broker_id: int, *endpoints: Any, rack: Any = None) -> Any:
    return Message(id=broker_id, rack=rack, endpoints=list(endpoints), v0_host="", v0_port=0)


def state(index: int, leader: int, epoch: int = 0, replicas: tuple[int] = (1,)) -> Any:
    return Message(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(replicas),
        replicas=list(replicas),
        offline_replicas=[],
        zk_version=epoch,
    )


def update(*states: Any, topic: str = "t", topic_id: bytes = ID, brokers: Sequence[Any] = (), controller_id: int = 1) -> Any:
    topics = [Message(topic_name=topic, topic_id=topic_id, partition_states=list(states))] if states else []
    return Message(controller_id=controller_id, live_brokers=list(brokers), topic_states=topics, ungrouped_partition_states=[])


def test_updates_are_atomic_and_old_snapshots_unchanged() -> None:
    cache = MetadataCache(1, "cluster")
    cache.apply(update(state(1, 1), state(0, 1), brokers=[broker(1, endpoint("A", 1))]))
    before = cache.snapshot
    cache.apply(update(state(0, 2, epoch=3), brokers=[broker(1, endpoint("A", 1))]))
    assert [p.partition for p in cache.partitions("t")] == [0, 1]
    assert cache.partition(TopicPartition("t", 0)).leader_epoch == 3
    assert cache.partition(TopicPartition("t", 1)).leader == 1
    assert before.topics["t"][0].leader == 1
    assert cache.topic_id("t") == ID
    assert cache.topic_name(ID) == "t"
    assert cache.controller_id == 1


def test_nodes_are_those_of_the_requested_listener() -> None:
    cache = MetadataCache(1)
    cache.apply(update(brokers=[broker(2, endpoint("A", 3), rack="r"), broker(1, endpoint("A", 1), endpoint("B", 2))]))
    assert cache.brokers("A") == [Node(1, "h", 1, None), Node(2, "h", 3, "r")]
    assert cache.brokers("B") == [Node(1, "h", 2, None)]
    assert cache.node(2, "B") is None
    assert cache.alive(2)
    assert not cache.alive(3)


def test_a_dead_controller_is_unknown() -> None:
    cache = MetadataCache(1)
    cache.apply(update(brokers=[broker(1)], controller_id=7))
    assert cache.controller_id is None


def test_deleting_the_last_partition_removes_the_topic() -> None:
    cache = MetadataCache(1)
    cache.apply(update(state(0, 1), state(1, 1)))
    assert cache.apply(update(state(1, -2))) == [TopicPartition("t", 1)]
    assert cache.partition_count("t") == 1
    cache.apply(update(state(0, -2)))
    assert not cache.contains("t")
    assert cache.topic_name(ID) is None
    assert cache.partition_count("t") is None


def test_a_recreated_topic_has_only_its_new_id() -> None:
    cache = MetadataCache(1)
    cache.apply(update(state(0, 1)))
    cache.apply(update(state(0, 1), topic_id=b"f" * 16))
    assert cache.topic_name(ID) is None
    assert cache.topic_id("t") == b"f" * 16
    cache.apply(update(state(0, 1), state(1, 1), topic_id=b"f" * 16))
    cache.apply(update(state(0, 1), topic_id=b"e" * 16))
    assert cache.partition_count("t") == 1, "what the former topic had is gone, though nobody said so"


def test_endpoints_without_listener_names_are_named_after_their_protocol() -> None:
    cache = MetadataCache(1)
    cache.apply(update(brokers=[broker(1, endpoint("", 9)), Message(id=2, rack=None, endpoints=[], v0_host="old", v0_port=5)]))
    assert cache.brokers("PLAINTEXT") == [Node(1, "h", 9, None), Node(2, "old", 5, None)]


def test_an_endpoint_that_nobody_can_name_is_left_out() -> None:
    cache = MetadataCache(1)
    unknown = [Message(listener="", host="h", port=9, security_protocol=each) for each in (-1, 4)]
    cache.apply(update(brokers=[broker(2, *unknown, endpoint("", 1), endpoint("A", 3))]))
    assert cache.snapshot.brokers[2].nodes.keys() == {"PLAINTEXT", "A"}


def test_one_listeners_failure_is_not_the_others() -> None:
    cache = MetadataCache(1)
    heard: list[str] = []

    def fail(_: Collection[str]) -> None:
        raise ValueError("a defect")

    cache.add_listener(fail)
    cache.add_listener(heard.extend)
    cache.apply(update(state(0, 1)))
    cache.remove({"t": ID})
    assert heard == ["t", "t"]
