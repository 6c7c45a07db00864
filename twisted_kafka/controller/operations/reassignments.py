"""Partition reassignments (KIP-455; Kafka: ``KafkaController.onPartitionReassignment``).

A reassignment is kept in the topic's node, as replicas that are added and removed. During it, the partition has the replicas of
both its target and its origin. It is complete as soon as all replicas of the target are in sync; only then are the other replicas
removed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
        planned: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, targets in wanted.items():
            try:
                planned[partition] = self._planned(partition, targets)
                results[partition] = None
            except KafkaError as error:
                results[partition] = error
        results.update(self._begin(planned))
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
        asked = under_way if partitions is None else under_way.keys() & set(partitions)
        self._complete([partition for partition in asked if self._is_complete(partition)])
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

    def _begin(self, planned: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, KafkaError]:
        """Start the moves together: a topic's node lists all of its partitions. Return the errors of failed ones."""
        before = {partition: self._context.assignment(partition).replicas for partition in planned}
        failed = self._write(planned)
        begun = [partition for partition in planned if partition not in failed]
        unwanted, new = [], []
        for partition in begun:
            replicas = planned[partition].replicas
            unwanted += [(partition, broker) for broker in before[partition] if broker not in replicas]
            new += [(partition, broker) for broker in replicas if broker not in before[partition]]
        self._delete_replicas(unwanted)
        self._replicas.handle(new, ReplicaStatus.NEW)
        complete = [partition for partition in begun if self._is_complete(partition)]
        self._tell([partition for partition in begun if not self._is_complete(partition)])
        return failed | self._complete(complete)

    def _is_complete(self, partition: TopicPartition) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is not None and set(self._context.assignment(partition).target) <= set(leadership.isr)

    def _complete(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        """Complete the moves; return the errors of failed writes."""
        if not partitions:
            return {}
        before = {partition: self._context.assignment(partition) for partition in partitions}
        targets = {partition: assignment.target for partition, assignment in before.items()}
        self._replicas.handle([(each, broker) for each in partitions for broker in targets[each]], ReplicaStatus.ONLINE)
        # A leader that learns of its replicas before the others go does not let them join again.
        completed = {partition: ReplicaAssignment(target) for partition, target in targets.items()}
        for partition, assignment in completed.items():
            self._context.assign(partition, assignment)
        leaders = {partition: self._context.leaderships[partition].leader for partition in partitions}
        self._tell([partition for partition in partitions if leaders[partition] in targets[partition]])
        moving = [partition for partition in partitions if leaders[partition] not in targets[partition]]
        self._partitions.handle(moving, PartitionStatus.ONLINE, self._elect)
        self._delete_replicas([(each, broker) for each in partitions for broker in before[each].removing])
        failed = self._write(completed)
        self._requests.update_metadata(self._context.brokers, partitions)
        return failed

    def _elect(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return reassigned_leader(self._context.assignment(partition).target, leadership.isr, alive)

    def _delete_replicas(self, replicas: list[tuple[TopicPartition, int]]) -> None:
        alive = [replica for replica in replicas if replica in self._context.replica_states]
        for status in (
            ReplicaStatus.OFFLINE,
            ReplicaStatus.DELETION_STARTED,
            ReplicaStatus.DELETION_SUCCESSFUL,
            ReplicaStatus.NON_EXISTENT,
        ):
            self._replicas.handle(alive, status)

    def _tell(self, partitions: Collection[TopicPartition]) -> None:
        """Send the partitions' replicas to them, with a new leader epoch, and to all brokers."""
        self._partitions.handle(partitions, PartitionStatus.ONLINE, _same_leader)

    def _write(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, KafkaError]:
        """Write assignments, each topic's together; return the errors of failed writes.

        Raises StoreDisconnectedError if the outcome of a write is unknown.
        """
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for (topic, index), assignment in assignments.items():
            by_topic.setdefault(topic, {})[index] = assignment
        failed: dict[TopicPartition, KafkaError] = {}
        for topic, changed in by_topic.items():
            try:
                self._write_topic(topic, changed)
            except StoreDisconnectedError:
                raise
            except (KafkaError, StoreError) as error:
                _log.error("The reassignment of {topic} could not be written: {error}", topic=topic, error=error)
                reason = error if isinstance(error, KafkaError) else UnknownServerError(str(error))
                failed |= dict.fromkeys((TopicPartition(topic, index) for index in changed), reason)
        return failed

    def _write_topic(self, topic: str, changed: Mapping[int, ReplicaAssignment]) -> None:
        """Write assignments to the topic's node, then to the context. Other contents of the node are kept."""
        path = znodes.topic_path(topic)
        for _ in range(MAX_WRITE_ATTEMPTS):
            found = self._store.get(path)
            if found is None:
                raise UnknownTopicOrPartitionError("The partition does not exist.")
            try:
                self._store.set(path, _changed(TopicNode.decode(found[0]), changed).encode(), found[1].version)
            except BadVersionError:  # partitions were added
                continue
            for index, assignment in changed.items():
                self._context.assign(TopicPartition(topic, index), assignment)
            return
        raise StoreError(f"{path} was changed {MAX_WRITE_ATTEMPTS} times by others at the same moment")


def _changed(node: TopicNode, changed: Mapping[int, ReplicaAssignment]) -> TopicNode:
    def with_these(before: Mapping[int, list[int]], now: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
        others = {index: each for index, each in before.items() if index not in changed}
        return {**others, **{index: list(replicas) for index, replicas in now.items() if replicas}}

    return TopicNode(
        partitions={**node.partitions, **{index: list(each.replicas) for index, each in changed.items()}},
        topic_id=node.topic_id,
        adding_replicas=with_these(node.adding_replicas, {index: each.adding for index, each in changed.items()}),
        removing_replicas=with_these(node.removing_replicas, {index: each.removing for index, each in changed.items()}),
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
