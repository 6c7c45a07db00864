"""The broker's cache of the cluster's metadata: brokers, topics, partitions and their leaders.

At any time one immutable ``MetadataSnapshot`` is current. Readers take ``cache.snapshot`` once and use it without a lock. An update
from the controller builds a new snapshot, which shares everything unchanged with the previous one, and replaces it with a single
assignment (Kafka: ``ZkMetadataCache``).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typing_extensions import override

from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.threads import UNCAUGHT_ERRORS

if TYPE_CHECKING:
    from twisted_kafka.protocol.messages.inter_broker import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
"""The leader that the controller sends for a partition being deleted: brokers remove the partition."""
NO_TOPIC_ID: Final = bytes(16)

_PROTOCOL_NAMES: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Node(NamedTuple):
    """A broker's address on one listener, as clients see it."""

    id: int
    host: str
    port: int
    rack: str | None


class BrokerInfo(NamedTuple):
    """A live broker: its rack and its addresses by listener name."""

    id: int
    rack: str | None
    nodes: Mapping[str, Node]


class PartitionState:
    """The last state of a partition that the controller sent. Treat it as immutable."""

    __slots__ = (
        "controller_epoch",
        "isr",
        "leader",
        "leader_epoch",
        "offline_replicas",
        "partition",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        leader: int,
        leader_epoch: int = 0,
        replicas: Iterable[int] = (),
        isr: Iterable[int] = (),
        offline_replicas: Iterable[int] = (),
        **other: Any,
    ) -> None:
        """``other`` accepts ``controller_epoch``, ``partition_epoch`` (the version of the state's node) and ``topic_id``."""
        self.topic = topic
        self.partition = partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.replicas = list(replicas)
        self.isr = list(isr)
        self.offline_replicas = list(offline_replicas)
        self.controller_epoch: int = other.pop("controller_epoch", 0)
        self.partition_epoch: int = other.pop("partition_epoch", 0)
        self.topic_id: bytes = other.pop("topic_id", NO_TOPIC_ID)
        if other:
            raise TypeError(f"unknown attributes of a partition: {', '.join(other)}")

    @override
    def __repr__(self) -> str:
        return f"<{self.topic}-{self.partition} leader={self.leader} epoch={self.leader_epoch} isr={self.isr} of {self.replicas}>"


class MetadataSnapshot:
    """The cluster's metadata at one moment; immutable except for ``derived``."""

    __slots__ = ("brokers", "controller_id", "derived", "topic_ids", "topic_names", "topics")

    def __init__(
        self,
        brokers: Mapping[int, BrokerInfo],
        topics: Mapping[str, Mapping[int, PartitionState]],
        topic_ids: Mapping[str, bytes],
        topic_names: Mapping[bytes, str],
        controller_id: int | None = None,
    ) -> None:
        self.brokers = brokers
        self.topics = topics
        self.topic_ids = topic_ids
        self.topic_names = topic_names
        self.controller_id = controller_id
        self.derived: dict[Any, Any] = {}
        """A cache of values computed from this snapshot, such as parts of responses, valid as long as it is current."""

    def nodes(self, listener_name: str) -> list[Node]:
        """Return the live brokers that have this listener, in order of their ids."""
        key = ("nodes", listener_name)
        found: list[Node] | None = self.derived.get(key)
        if found is None:
            found = [node for _, broker in sorted(self.brokers.items()) if (node := broker.nodes.get(listener_name)) is not None]
            self.derived[key] = found
        return found


_EMPTY: Final = MetadataSnapshot({}, {}, {}, {})


class MetadataCache:
    """Lookups in the current snapshot, and updates of it. All methods may be called on any thread; updates are serialized."""

    __slots__ = ("_listeners", "_lock", "broker_id", "cluster_id", "snapshot")

    def __init__(self, broker_id: int, cluster_id: str | None = None) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.snapshot: MetadataSnapshot = _EMPTY
        self._lock = machine.Lock()
        self._listeners: list[Callable[[Collection[str]], None]] = []

    def add_listener(self, listener: Callable[[Collection[str]], None]) -> None:
        """Call ``listener`` after each update with the names of its topics, on the updating thread."""
        self._listeners.append(listener)

    @property
    def controller_id(self) -> int | None:
        """The broker id of the active controller, if the broker is alive (Kafka: ``getControllerId``)."""
        return self.snapshot.controller_id

    def alive(self, broker_id: int) -> bool:
        """Return whether the broker is alive."""
        return broker_id in self.snapshot.brokers

    def brokers(self, listener_name: str) -> list[Node]:
        """Return the live brokers that have this listener; callers must not change the list."""
        return self.snapshot.nodes(listener_name)

    def node(self, broker_id: int, listener_name: str) -> Node | None:
        """Return the broker's address on this listener, None when it has none."""
        broker = self.snapshot.brokers.get(broker_id)
        return None if broker is None else broker.nodes.get(listener_name)

    def topic_names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self.snapshot.topics.keys()

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id; 16 zero bytes for an unknown topic."""
        return self.snapshot.topic_ids.get(topic, NO_TOPIC_ID)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, None for an unknown one."""
        return self.snapshot.topic_names.get(topic_id)

    def contains(self, topic: str) -> bool:
        """Return whether the topic is known."""
        return topic in self.snapshot.topics

    def partition(self, topic_partition: tuple[str, int]) -> PartitionState | None:
        """Return the partition's state, None for an unknown partition."""
        partitions = self.snapshot.topics.get(topic_partition[0])
        return None if partitions is None else partitions.get(topic_partition[1])

    def partitions(self, topic: str) -> list[PartitionState]:
        """Return the topic's partitions in order; empty for an unknown topic."""
        return list(self.snapshot.topics.get(topic, {}).values())

    def partition_count(self, topic: str) -> int | None:
        """Return the topic's number of partitions, None for an unknown topic."""
        partitions = self.snapshot.topics.get(topic)
        return None if partitions is None else len(partitions)

    def remove(self, topic_ids: Mapping[str, bytes]) -> list[TopicPartition]:
        """Remove the topics that still have these ids; return their partitions."""
        with self._lock:
            before = self.snapshot
            changes = _Changes(before)
            for topic, topic_id in topic_ids.items():
                if topic in before.topics and before.topic_ids.get(topic, NO_TOPIC_ID) == topic_id:
                    changes.remove(topic)
            self.snapshot = changes.finish(before.brokers, before.controller_id)
        self._tell_listeners(changes.updated_topics)
        return changes.deleted

    def apply(self, update: "UpdateMetadataRequest") -> list[TopicPartition]:
        """Apply an update from the controller; return the partitions that it deleted."""
        with self._lock:
            before = self.snapshot
            brokers = {broker.id: _broker(broker) for broker in update.live_brokers}
            changes = _Changes(before)
            for topic in update.topic_states:
                for state in topic.partition_states:
                    changes.apply(topic.topic_name, topic.topic_id, state)
            for state in update.ungrouped_partition_states:
                changes.apply(state.topic_name, NO_TOPIC_ID, state)
            controller_id = update.controller_id if update.controller_id in brokers else None
            self.snapshot = changes.finish(brokers, controller_id)
        self._tell_listeners(changes.updated_topics)
        return changes.deleted

    def _tell_listeners(self, topics: Collection[str]) -> None:
        for listener in self._listeners:
            try:
                listener(topics)
            except Exception:  # noqa: BLE001 the other listeners have to hear of the change, which is made
                UNCAUGHT_ERRORS.note(f"{listener}, a listener of metadata")


class _Changes:
    """The builder of the next snapshot: topics that change are copied once, all others are shared.

    The dictionary of all topics is copied for each update, which takes 20 ns per topic; those of ids only when ids change.
    """

    __slots__ = ("_copied", "_ids_copied", "deleted", "topic_ids", "topic_names", "topics")

    def __init__(self, before: MetadataSnapshot) -> None:
        self.topics: dict[str, Mapping[int, PartitionState]] = dict(before.topics)
        # Shared until the first change.
        self.topic_ids: dict[str, bytes] = before.topic_ids  # type: ignore[assignment]
        self.topic_names: dict[bytes, str] = before.topic_names  # type: ignore[assignment]
        self._ids_copied = False
        self._copied: dict[str, dict[int, PartitionState]] = {}
        self.deleted: list[TopicPartition] = []

    @property
    def updated_topics(self) -> Collection[str]:
        return self._copied.keys()

    def apply(self, topic: str, topic_id: bytes, state: "UpdateMetadataPartitionState") -> None:
        partitions = self._copied.get(topic)
        if partitions is None:
            partitions = self._copied[topic] = dict(self.topics.get(topic, {}))
        index = state.partition_index
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(index, None)
            self.deleted.append(TopicPartition(topic, index))
            return
        if topic_id not in (NO_TOPIC_ID, self.topic_ids.get(topic)):
            if topic in self.topic_ids:  # another topic of this name: what the former one had is gone
                partitions.clear()
            self._set_id(topic, topic_id)
        partitions[index] = PartitionState(
            topic,
            index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            offline_replicas=state.offline_replicas,
            controller_epoch=state.controller_epoch,
            partition_epoch=state.zk_version,
            topic_id=self.topic_ids.get(topic, NO_TOPIC_ID),
        )

    def _set_id(self, topic: str, topic_id: bytes | None) -> None:
        """Replace the topic's id; None: the topic was deleted."""
        if not self._ids_copied:
            self.topic_ids, self.topic_names = dict(self.topic_ids), dict(self.topic_names)
            self._ids_copied = True
        before = self.topic_ids.pop(topic, None)
        if before is not None:
            self.topic_names.pop(before, None)
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def remove(self, topic: str) -> None:
        """Remove a topic with all partitions."""
        self.deleted += [TopicPartition(topic, index) for index in self.topics.get(topic, ())]
        self._copied[topic] = {}

    def finish(self, brokers: Mapping[int, BrokerInfo], controller_id: int | None) -> MetadataSnapshot:
        for topic, partitions in self._copied.items():
            if partitions:
                self.topics[topic] = dict(sorted(partitions.items()))
            else:
                self.topics.pop(topic, None)
                self._set_id(topic, None)
        return MetadataSnapshot(brokers, self.topics, self.topic_ids, self.topic_names, controller_id)


def _broker(broker: "UpdateMetadataBroker") -> BrokerInfo:
    nodes = {}
    for endpoint in broker.endpoints:
        # Versions 1 and 2 have no listener names: the security protocol serves as the name.
        known = 0 <= endpoint.security_protocol < len(_PROTOCOL_NAMES)
        if not known and not endpoint.listener:
            continue
        name = endpoint.listener or _PROTOCOL_NAMES[endpoint.security_protocol]
        nodes[name] = Node(broker.id, endpoint.host, endpoint.port, broker.rack)
    if not nodes and broker.v0_host:
        nodes[_PROTOCOL_NAMES[0]] = Node(broker.id, broker.v0_host, broker.v0_port, broker.rack)
    return BrokerInfo(broker.id, broker.rack, nodes)
