"""Elections and reassignments on behalf of clients: asks the controller, and waits until this broker knows the outcome."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.controller.context.context import ReplicaAssignment
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.controller.machines.leader_elections import ElectionType
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_of
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.waiting.futures import and_then


@dataclass(slots=True)
class PartitionOutcome:
    """The result for one partition; ``name`` is its topic's name."""

    name: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


_Leaders = Mapping[str, list[tuple[TopicPartition, int]]]
"""The new leaders of partitions, by their topics."""


class PartitionAdmin:
    """Changes leaders and replicas for clients (Kafka: ``ReplicaManager.electLeaders``, ``KafkaController``)."""

    def __init__(self, metadata: MetadataCache, controller: KafkaController, waits: TopicWaits) -> None:
        self._metadata = metadata
        self._controller = controller
        self._waits = waits

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, election: ElectionType, timeout_ms: int
    ) -> "Future[list[PartitionOutcome]]":
        """Elect leaders, with None for all partitions; the future is done once this broker knows them, or after the timeout.

        The future raises NotControllerError. For all partitions, the results list only partitions that needed an election.
        """
        wanted = None if partitions is None else list(dict.fromkeys(partitions))

        def elect() -> tuple[list[PartitionOutcome], _Leaders]:
            elections, context = self._controller.elections, self._controller.context
            results = elections.elect(context.all_partitions() if wanted is None else wanted, election)
            outcomes = [_outcome(partition, error) for partition, error in results.items()]
            if wanted is None:
                outcomes = [each for each in outcomes if each.error != ErrorCode.ELECTION_NOT_NEEDED]
            leaders: defaultdict[str, list[tuple[TopicPartition, int]]] = defaultdict(list)
            for partition, error in results.items():
                if error is None:
                    leaders[partition.topic].append((partition, context.leaderships[partition].leader))
            return outcomes, leaders

        def wait(done: tuple[list[PartitionOutcome], _Leaders]) -> "Future[list[PartitionOutcome]]":
            outcomes, leaders = done
            waiting = [each for each in outcomes if not each.error]
            return self._waits.until(lambda topic: self._leads(leaders[topic]), waiting, outcomes, timeout_ms)

        return and_then(self._controller.run(elect, ControllerState.MANUAL_LEADER_BALANCE), wait)

    def _leads(self, leaders: Iterable[tuple[TopicPartition, int]]) -> bool:
        for partition, leader in leaders:
            state = self._metadata.partition(partition)
            if state is None or state.leader != leader:
                return False
        return True

    def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> "Future[dict[TopicPartition, KafkaError | None]]":
        """Start to move partitions to these replicas, or with None cancel; the future raises NotControllerError."""
        reassignments = self._controller.reassignments
        return self._controller.run(lambda: reassignments.alter(wanted), ControllerState.ALTER_PARTITION_REASSIGNMENT)

    def reassignments(self) -> "Future[dict[TopicPartition, ReplicaAssignment]]":
        """Return the partitions that are being reassigned; the future raises NotControllerError."""
        return self._controller.run(self._controller.reassignments.under_way, ControllerState.LIST_PARTITION_REASSIGNMENT)


def _outcome(partition: TopicPartition, error: KafkaError | None) -> PartitionOutcome:
    if error is None:
        return PartitionOutcome(partition.topic, partition.partition)
    return PartitionOutcome(partition.topic, partition.partition, error_of(error), str(error) or None)
