"""Elections that somebody asked for: of the preferred replica, or of one that was not in sync (KIP-460, KIP-183)."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from twisted_kafka.controller.context import ControllerContext, Leadership
from twisted_kafka.controller.elections import Elected, offline_leader, preferred_leader
from twisted_kafka.controller.partition_machine import PartitionStateMachine
from twisted_kafka.controller.states import PartitionStatus
from twisted_kafka.metadata.cache import NO_LEADER
from twisted_kafka.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidTopicError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.topic_partition import TopicPartition


class ElectionType(IntEnum):
    """Which replica shall lead, by the codes of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderElections:
    """Elects by order. Used on the controller's event thread only."""

    def __init__(self, context: ControllerContext, partitions: PartitionStateMachine) -> None:
        self._context = context
        self._partitions = partitions

    def elect(self, wanted: Iterable[TopicPartition], election: ElectionType) -> dict[TopicPartition, KafkaError | None]:
        """Elect the partitions' leaders anew where that is needed and possible; None stands for a partition that has a new one."""
        results: dict[TopicPartition, KafkaError | None] = {}
        epochs: dict[TopicPartition, int] = {}
        for partition in wanted:
            refusal = self._refusal(partition, election)
            if refusal is not None:
                results[partition] = refusal
            else:
                epochs[partition] = self._context.leaderships[partition].leader_epoch
        self._partitions.handle(
            epochs, PartitionStatus.ONLINE, self._preferred if election is ElectionType.PREFERRED else self._any
        )
        for partition, epoch in epochs.items():
            elected = self._context.leaderships[partition].leader_epoch != epoch
            results[partition] = None if elected else self._failure(partition, election)
        return results

    def _refusal(self, partition: TopicPartition, election: ElectionType) -> KafkaError | None:
        context = self._context
        leadership = context.leaderships.get(partition)
        if leadership is None:
            return UnknownTopicOrPartitionError("There is no such partition")
        if context.is_to_be_deleted(partition.topic):
            return InvalidTopicError("The topic is being deleted")
        if election is ElectionType.PREFERRED:
            is_needed = leadership.leader != context.assignment(partition).replicas[0]
        else:
            is_needed = leadership.leader == NO_LEADER or leadership.leader not in context.brokers
        return None if is_needed else ElectionNotNeededError("The partition has the leader that the election would give it")

    def _failure(self, partition: TopicPartition, election: ElectionType) -> KafkaError:
        if election is ElectionType.PREFERRED:
            preferred = self._context.assignment(partition).replicas[0]
            return PreferredLeaderNotAvailableError(f"Broker {preferred}, the preferred leader, is not alive or not in sync")
        return EligibleLeadersNotAvailableError("No replica of the partition is alive")

    def _preferred(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return preferred_leader(self._context.assignment(partition).replicas, leadership.isr, alive)

    def _any(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return offline_leader(self._context.assignment(partition).replicas, leadership.isr, alive, unclean=True)
