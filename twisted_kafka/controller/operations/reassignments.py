"""Partition reassignments (KIP-455; Kafka: ``KafkaController.onPartitionReassignment``).

A reassignment is kept in the topic's node, as replicas that are added and removed. During it, the partition has the replicas of
both its target and its origin. It is complete as soon as all replicas of the target are in sync; only then are the other replicas
removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.controller.context.context import Leadership, ReplicaAssignment
from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.controller.machines.leader_elections import Elected, reassigned_leader
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.controller.operations.request_nodes import RequestNodes
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, StoreDisconnectedError, StoreError
from twisted_kafka.metadata.znodes import TopicNode
from twisted_kafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

MAX_WRITE_ATTEMPTS: Final = 100
"""How often a topic's node is written while others change it."""


class Reassignments:
    """Starts, resumes, cancels and completes reassignments. Used on the controller's event thread only."""

    def __init__(self, machinery: Machinery) -> None:
        self._context = machinery.context
        self._store = machinery.store
        self._requests = machinery.requests
        self._partitions = machinery.partitions
        self._replicas = machinery.replicas
        self._nodes = RequestNodes(machinery)

    def under_way(self) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the partitions that are being reassigned."""
        return self._context.reassigned()

    def alter(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, KafkaError | None]:
        """Start to move each partition to its replicas, or with None cancel its move. A result of None means success.

        Raises StoreDisconnectedError if the outcome of a write is unknown: the controller has to read the state again.
        """
        results: dict[TopicPartition, KafkaError | None] = {}
        for partition, targets in wanted.items():
            try:
                self._begin(partition, self._planned(partition, targets))
                results[partition] = None
            except StoreDisconnectedError:
                raise
            except KafkaError as error:
                results[partition] = error
            except StoreError as error:
                _log.error("The reassignment of {partition} failed: {error}", partition=partition, error=error)
                results[partition] = UnknownServerError(str(error))
        self._nodes.settle_reassignments()
        return results

    def take_requested(self) -> None:
        """Start the reassignments that a tool asks for in ``/admin/reassign_partitions``."""
        for partition, error in self.alter(self._nodes.reassignments()).items():
            if error is not None:
                _log.warn("{partition} is not reassigned: {error}", partition=partition, error=error)

    def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Complete the reassignments whose target replicas are in sync: of these partitions, or of all."""
        under_way = self.under_way()
        for partition in under_way if partitions is None else under_way.keys() & set(partitions):
            if self._is_complete(partition):
                self._complete(partition)
        self._nodes.settle_reassignments()

    def _planned(self, partition: TopicPartition, targets: Sequence[int] | None) -> ReplicaAssignment:
        if targets is not None:
            _ensure_possible(targets)
        current = self._context.assignment(partition)
        if targets is not None:
            planned = current.reassigned_to(targets)
            unknown = sorted(set(planned.adding) - self._context.brokers.keys())
            if unknown:
                raise InvalidReplicaAssignmentError(f"Replica assignment has brokers that are not alive: {unknown}")
        elif current.is_reassigned:
            planned = current.reassigned_to(current.origin)
        else:
            raise NoReassignmentInProgressError("")
        if not current.replicas or self._context.is_to_be_deleted(partition.topic):
            raise UnknownTopicOrPartitionError("The partition does not exist.")
        leadership = self._context.leaderships.get(partition)
        if leadership is not None and not set(planned.replicas) & set(leadership.isr):
            raise InvalidReplicaAssignmentError(
                f"None of {list(planned.replicas)} is in sync: the change would require an unclean leader election"
            )
        return planned

    def _begin(self, partition: TopicPartition, planned: ReplicaAssignment) -> None:
        before = self._context.assignment(partition)
        self._write(partition, planned)
        unwanted = [(partition, broker) for broker in before.replicas if broker not in planned.replicas]
        self._delete_replicas(partition, unwanted)
        self._replicas.handle(
            [(partition, broker) for broker in planned.replicas if broker not in before.replicas], ReplicaStatus.NEW
        )
        if self._is_complete(partition):
            self._complete(partition)
        else:
            self._tell(partition)

    def _is_complete(self, partition: TopicPartition) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is not None and set(self._context.assignment(partition).target) <= set(leadership.isr)

    def _complete(self, partition: TopicPartition) -> None:
        assignment = self._context.assignment(partition)
        targets, removed = assignment.target, [(partition, broker) for broker in assignment.removing]
        self._replicas.handle([(partition, broker) for broker in targets], ReplicaStatus.ONLINE)
        # A leader that learns of its replicas before the others go does not let them join again.
        completed = ReplicaAssignment(targets)
        self._context.assign(partition, completed)
        if self._context.leaderships[partition].leader in targets:
            self._tell(partition)
        else:
            self._partitions.handle([partition], PartitionStatus.ONLINE, self._elect)
        self._delete_replicas(partition, removed)
        self._write(partition, completed)
        self._requests.update_metadata(self._context.brokers, [partition])

    def _elect(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return reassigned_leader(self._context.assignment(partition).target, leadership.isr, alive)

    def _delete_replicas(self, partition: TopicPartition, replicas: list[tuple[TopicPartition, int]]) -> None:
        alive = [replica for replica in replicas if replica in self._context.replica_states]
        for status in (
            ReplicaStatus.OFFLINE,
            ReplicaStatus.DELETION_STARTED,
            ReplicaStatus.DELETION_SUCCESSFUL,
            ReplicaStatus.NON_EXISTENT,
        ):
            self._replicas.handle(alive, status)

    def _tell(self, partition: TopicPartition) -> None:
        """Send the partition's replicas to them, with a new leader epoch, and to all brokers."""
        self._partitions.handle([partition], PartitionStatus.ONLINE, _same_leader)

    def _write(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Write the assignment to the topic's node, then to the context. Other contents of the node are kept."""
        topic, index = partition
        path = znodes.topic_path(topic)
        for _ in range(MAX_WRITE_ATTEMPTS):
            found = self._store.get(path)
            if found is None:
                raise UnknownTopicOrPartitionError("The partition does not exist.")
            try:
                self._store.set(path, _changed(TopicNode.decode(found[0]), index, assignment).encode(), found[1].version)
            except BadVersionError:  # partitions were added
                continue
            self._context.assign(partition, assignment)
            return
        raise StoreError(f"{path} was changed {MAX_WRITE_ATTEMPTS} times by others at the same moment")


def _changed(node: TopicNode, index: int, assignment: ReplicaAssignment) -> TopicNode:
    def with_this(before: Mapping[int, list[int]], replicas: Sequence[int]) -> dict[int, list[int]]:
        others = {at: each for at, each in before.items() if at != index}
        return {**others, index: list(replicas)} if replicas else others

    return TopicNode(
        partitions={**node.partitions, index: list(assignment.replicas)},
        topic_id=node.topic_id,
        adding_replicas=with_this(node.adding_replicas, assignment.adding),
        removing_replicas=with_this(node.removing_replicas, assignment.removing),
    )


def _ensure_possible(targets: Sequence[int]) -> None:
    if not targets:
        raise InvalidReplicaAssignmentError("The replica list of the partition is empty")
    if len(set(targets)) != len(targets):
        raise InvalidReplicaAssignmentError(f"Duplicate replica in {list(targets)}")
    if min(targets) < 0:
        raise InvalidReplicaAssignmentError(f"Invalid broker id in {list(targets)}: must not be negative")


def _same_leader(_: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
    return Elected(leadership.leader, leadership.isr) if leadership.leader in alive else None
