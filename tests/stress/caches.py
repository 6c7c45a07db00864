"""The metadata cache, the sessions of fetches and what they watch, and bounded queues and caches."""

import itertools
import random
import threading
from typing import Any

from tests.stress.crew import Crew
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.messages.inter_broker import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.fetch_watch import FetchWatches
from twisted_kafka.server.fetch_context import FetchManager
from twisted_kafka.server.fetch_session import LEAST_WATCHED, FetchSessionCache
from twisted_kafka.system.bounded import ENTRY_BYTES, BoundedCache, BoundedQueue
from twisted_kafka.timing.clock import SystemClock

TOPICS = 5
PARTITIONS = 4
LEADER_DURING_DELETE = -2


def _update(topic: str, topic_id: bytes, leader: int, version: int) -> UpdateMetadataRequest:
    states = [
        UpdateMetadataPartitionState(
            topic_name=topic, partition_index=index, leader=leader, leader_epoch=version, zk_version=version
        )
        for index in range(PARTITIONS)
    ]
    endpoint = UpdateMetadataEndpoint(port=version, host=f"host-{version}", listener="L", security_protocol=0)
    return UpdateMetadataRequest(
        controller_id=1,
        topic_states=[UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)],
        live_brokers=[UpdateMetadataBroker(id=1, endpoints=[endpoint])],
    )


def metadata(crew: Crew) -> None:
    """A snapshot is consistent whenever it is read, and no update is lost."""
    cache = MetadataCache(1)
    lock = threading.Lock()
    versions = itertools.count(1)
    last: dict[str, tuple[int, bytes | None]] = {}
    updated: list[str] = []
    cache.add_listener(updated.extend)

    def change(own: random.Random) -> None:
        topic = f"t{own.randrange(TOPICS)}"
        with lock:
            version = next(versions)
            is_deleted = own.random() < 0.3
            topic_id = (last.get(topic, (0, None))[1] if own.random() < 0.5 else None) or version.to_bytes(16, "big")
            last[topic] = version, None if is_deleted else topic_id
            cache.apply(_update(topic, topic_id, LEADER_DURING_DELETE if is_deleted else 1, version))

    def read(own: random.Random) -> None:
        snapshot = cache.snapshot
        for topic, partitions in snapshot.topics.items():
            assert list(partitions) == list(range(PARTITIONS)), "a topic lacks partitions"
            assert len({each.leader_epoch for each in partitions.values()}) == 1, "partitions of two updates"
            assert snapshot.topic_names[snapshot.topic_ids[topic]] == topic
        assert len(snapshot.topic_ids) == len(snapshot.topic_names) == len(snapshot.topics)
        (node,) = snapshot.nodes("L") or [None]
        assert node is None or node.host == f"host-{node.port}"

    crew.add(change, 2)
    crew.add(read, 2)
    crew.run()
    for topic, (version, topic_id) in last.items():
        assert [each.leader_epoch for each in cache.partitions(topic)] == ([] if topic_id is None else [version] * PARTITIONS)
        assert cache.contains(topic) is (topic_id is not None)
        assert topic_id is None or cache.topic_id(topic) == topic_id
    assert len(updated) == next(versions) - 1


def fetch_sessions(crew: Crew) -> None:
    """The cache counts what its sessions have, and a session that is gone watches nothing."""
    names = {bytes([number + 1]) * 16: f"t{number}" for number in range(LEAST_WATCHED + 2)}
    cache = FetchSessionCache(6, SystemClock(), MetricsRegistry(SystemClock()), eviction_ms=-1)
    watches = FetchWatches()
    manager = FetchManager(cache, names.get, watches, watches_consumers=True)
    ids: list[int] = []

    def fetches(own: random.Random, count: int) -> list[PartitionFetch]:
        return [PartitionFetch(None, topic_id, 0, own.randrange(9), 1000) for topic_id in own.sample(list(names), count)]

    def fetch(own: random.Random) -> None:
        kind = own.random()
        if kind < 0.3 or not ids:
            asked: list[Any] = fetches(own, own.choice((1, 5, LEAST_WATCHED + 1)))
            context = manager.new_context(0, 0, asked, [], is_from_follower=own.random() < 0.3, uses_topic_ids=True)
            context.answer([PartitionRead(0, 10, 10, 0) for _ in context.fetches])
            if context.session_id:
                ids.append(context.session_id)
            del ids[:-20]
            return
        session_id = own.choice(ids[-8:])
        session = cache.get(session_id)
        epoch = session.epoch if session is not None else 1
        if kind < 0.35:
            epoch = -1
        asked = fetches(own, own.randrange(3))
        forgotten = [(topic_id, 0) for topic_id in own.sample(list(names), own.randrange(3))]
        context = manager.new_context(session_id, epoch, asked, forgotten, is_from_follower=False, uses_topic_ids=True)
        context.answer([PartitionRead(0, own.randrange(10), 10, 0) for _ in context.fetches])

    def announce(own: random.Random) -> None:
        watches.changed([TopicPartition(own.choice(list(names.values())), 0)])

    crew.add(fetch, 3)
    crew.add(announce)
    crew.run()
    sessions = [session for each in set(ids) if (session := cache.get(each)) is not None]
    assert len(sessions) == len(cache) <= 6
    assert cache.partition_count() == sum(each.cached_size for each in sessions)
    for each in sessions:
        cache.remove(each.id)
    assert (len(cache), cache.partition_count()) == (0, 0)
    assert len(watches) == 0, "sessions that are gone watch partitions"


def queues(crew: Crew) -> None:
    """Each item of a bounded queue is taken once, in the order of its thread, or was refused."""
    queue: BoundedQueue[bytes] = BoundedQueue(40 * ENTRY_BYTES, max_items=50)
    numbers = itertools.count()
    lock = threading.Lock()
    put: dict[int, list[bytes]] = {}
    taken: list[bytes] = []

    def put_some(own: random.Random) -> None:
        mine = put.setdefault(threading.get_ident(), [])
        with lock:
            number = next(numbers)
        item = b"%d" % number + b"x" * own.randrange(30)
        if queue.put(item):
            mine.append(item)

    def take(own: random.Random) -> None:
        taken.extend(queue.take(own.randint(1, 9), own.choice((500, 5000))))

    crew.add(put_some, 3)
    crew.add(take)
    crew.run()
    while found := queue.take(100):
        taken.extend(found)
    assert sorted(taken) == sorted(item for mine in put.values() for item in mine), "items are lost, or taken twice"
    places = {item: place for place, item in enumerate(taken)}
    for mine in put.values():
        order = [places[item] for item in mine]
        assert order == sorted(order), "items have changed their order"
    assert (len(queue), queue.held_bytes) == (0, 0)


def bounded_caches(crew: Crew) -> None:
    """A bounded cache knows its size, and gives the value of a key or none."""
    most_bytes = 100 * ENTRY_BYTES
    cache: BoundedCache[int, bytes] = BoundedCache(most_bytes, lambda _, value: len(value))

    def use(own: random.Random) -> None:
        key = own.randrange(300)
        found = cache.get(key)
        assert found is None or int(found.split(b"-")[0]) == key
        if own.random() < 0.3:
            cache.discard(key)
        elif own.random() < 0.001:
            cache.clear()
        else:
            cache.put(key, b"%d-" % key + b"x" * own.randrange(500))
        assert cache.held_bytes <= most_bytes

    crew.add(use, 4)
    crew.run()
    values = [value for key in range(300) if (value := cache.get(key)) is not None]
    assert len(cache) == len(values)
    assert cache.held_bytes == sum(len(each) + ENTRY_BYTES for each in values)
