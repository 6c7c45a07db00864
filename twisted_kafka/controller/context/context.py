"""The controller's view of the cluster (Kafka: ``ControllerContext``). Used on its event thread only."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.topic_partition import TopicPartition


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; ``adding`` and ``removing`` are those of a reassignment in progress."""

    replicas: Sequence[int]
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> list[int]:
        """The replicas after the reassignment."""
        return [broker for broker in self.replicas if broker not in self.removing]

    @property
    def origin(self) -> list[int]:
        """The replicas before the reassignment."""
        return [broker for broker in self.replicas if broker not in self.adding]

    def reassigned_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """Return the assignment during a reassignment from the origin to ``target``."""
        everybody = list(dict.fromkeys([*target, *self.origin]))
        before, after = set(self.origin), set(target)
        adding = [broker for broker in everybody if broker not in before]
        return ReplicaAssignment(everybody, adding, [broker for broker in everybody if broker not in after])


class Leadership(NamedTuple):
    """A partition's leader and in-sync replicas, from its state node; ``partition_epoch`` is the node's version."""

    leader: int
    leader_epoch: int
    isr: Sequence[int]
    controller_epoch: int
    partition_epoch: int
    recovery_state: int = 0
    """1: the leader was elected uncleanly, and has not changed the in-sync replicas since (KIP-704)."""


class LiveBroker(NamedTuple):
    """A registered broker; ``epoch`` is the id of the transaction that registered it."""

    node: BrokerNode
    epoch: int


Replica = tuple[TopicPartition, int]


class ControllerContext:
    """Brokers, topics, partitions and replicas with their states."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0
        self.clear()

    def clear(self) -> None:
        """Clear everything but the epoch, when the controller resigns."""
        self.brokers: dict[int, LiveBroker] = {}
        self.brokers_version = -1
        """The ``cversion`` of ``/brokers/ids`` when these were read, or before."""
        self.shutting_down: set[int] = set()
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        """By topic and partition. Only ``assign``, ``unassign`` and ``forget_topic`` change it."""
        self._reassigned: dict[TopicPartition, None] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.partition_states: dict[TopicPartition, PartitionStatus] = {}
        self.replica_states: dict[Replica, ReplicaStatus] = {}
        self.offline_replicas: set[Replica] = set()
        self.topics_to_delete: set[str] = set()
        self.topics_being_deleted: set[str] = set()
        self.ineligible_for_deletion: set[str] = set()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions."""
        return [TopicPartition(topic, index) for index in self.assignments.get(topic, ())]

    def all_partitions(self) -> list[TopicPartition]:
        """Return the partitions of all topics."""
        return [TopicPartition(topic, index) for topic, assignment in self.assignments.items() for index in assignment]

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the partition's replicas; none when it is unknown."""
        return self.assignments.get(partition.topic, {}).get(partition.partition) or ReplicaAssignment(())

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set the partition's replicas."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment
        if assignment.is_reassigned:
            self._reassigned[partition] = None
        else:
            self._reassigned.pop(partition, None)

    def unassign(self, partition: TopicPartition) -> None:
        """Forget the partition's replicas."""
        self.assignments[partition.topic].pop(partition.partition, None)
        self._reassigned.pop(partition, None)

    def reassigned(self) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the partitions that are being reassigned. It costs nothing for the others."""
        return {partition: self.assignment(partition) for partition in self._reassigned}

    def replicas(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Return all replicas of the partitions."""
        return [(partition, broker) for partition in partitions for broker in self.assignment(partition).replicas]

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        """Return the replicas that these brokers hold."""
        wanted = set(brokers)
        return [replica for replica in self.replicas(self.all_partitions()) if replica[1] in wanted]

    def is_online(self, partition: TopicPartition, broker: int) -> bool:
        """Return whether the broker is alive and not shutting down, and the replica's log directory is online."""
        return broker not in self.shutting_down and self.is_reachable(partition, broker)

    def is_reachable(self, partition: TopicPartition, broker: int) -> bool:
        """Return whether requests for the replica can be sent: its broker is alive, perhaps shutting down, its directory online."""
        return broker in self.brokers and (partition, broker) not in self.offline_replicas

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id; zero bytes if it has none."""
        return self._topic_ids.get(topic, NO_UUID)

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of the topic with that id; empty if no topic has it."""
        return self._topic_names.get(topic_id, "")

    def set_topic_id(self, topic: str, topic_id: bytes) -> None:
        """Set the topic's id."""
        if topic in self._topic_ids:
            self._forget_topic_id(topic)
        self._topic_ids[topic] = topic_id
        self._topic_names[topic_id] = topic

    def _forget_topic_id(self, topic: str) -> None:
        topic_id = self._topic_ids.pop(topic, None)
        if topic_id is not None and self._topic_names.get(topic_id) == topic:
            del self._topic_names[topic_id]

    def is_to_be_deleted(self, topic: str) -> bool:
        """Return whether the topic's deletion was requested."""
        return topic in self.topics_to_delete

    def replicas_in(self, topic: str, state: ReplicaStatus) -> list[Replica]:
        """Return the topic's replicas in a given state."""
        return [replica for replica in self.replicas(self.partitions(topic)) if self.replica_states.get(replica) == state]

    def forget_topic(self, topic: str) -> None:
        """Remove the topic from the context."""
        partitions = self.partitions(topic)
        for partition, broker in self.replicas(partitions):
            self.replica_states.pop((partition, broker), None)
            self.offline_replicas.discard((partition, broker))
        for partition in partitions:
            self.leaderships.pop(partition, None)
            self.partition_states.pop(partition, None)
            self._reassigned.pop(partition, None)
        self.assignments.pop(topic, None)
        self._forget_topic_id(topic)
        for topics in (self.topics_to_delete, self.topics_being_deleted, self.ineligible_for_deletion):
            topics.discard(topic)
