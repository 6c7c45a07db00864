"""Writes the markers that end a transaction in its partitions: control batches, each of them in one partition.

A partition of ``__consumer_offsets`` gets its marker through the group coordinator, which commits or discards the transaction's
offsets in the same step.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import marker_guard
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.operations.appender import NO_GUARDS
from twisted_kafka.replication.partition.partition import ACKS_ALL
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker
from twisted_kafka.waiting.futures import gather, when_done

_log = Logger()

EndInGroups = Callable[[int, Producer, int, bool, int], "ErrorCode | Future[ErrorCode]"]
"""Ends a transaction in a partition of ``__consumer_offsets`` (GroupCoordinator.end_transaction)."""


class MarkerAppender:
    """Appends markers to partitions that this broker leads."""

    def __init__(self, replicas: ReplicaManager, end_in_groups: EndInGroups, clock: IClock, timeout_ms: int) -> None:
        """``timeout_ms`` is the time that replicas have to confirm a marker (``request.timeout.ms``)."""
        self._replicas = replicas
        self._end_in_groups = end_in_groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def append(self, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        """Append the marker to each partition; return their errors, or a future of them if replicas have to confirm."""
        return gather(list(self._appended(marker)), _merged)

    def _appended(self, marker: TransactionMarker) -> "Iterable[MarkerErrors | Future[MarkerErrors]]":
        batches: dict[TopicPartition, Buffer] = {}
        for partition in sorted(marker.partitions):
            if self._replicas.get_partition(partition) is None:
                yield {partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            elif partition.topic == GROUP_METADATA_TOPIC:
                yield self._in_group_coordinator(partition, marker)
            else:
                batches[partition] = end_transaction_marker(
                    commit=marker.committed,
                    coordinator_epoch=marker.coordinator_epoch,
                    timestamp_ms=self._clock.wall_ms(),
                    producer_id=marker.producer.producer_id,
                    producer_epoch=marker.producer.epoch,
                )
        if batches:
            guard = marker_guard(marker.transaction_version)
            results = self._replicas.appender.append(
                self._timeout_ms,
                ACKS_ALL,
                batches,
                AppendOrigin.COORDINATOR,
                internal_topics_allowed=True,
                guards=NO_GUARDS if guard is None else dict.fromkeys(batches, guard),
            )
            yield when_done(results, _errors)

    def _in_group_coordinator(self, partition: TopicPartition, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        result = self._end_in_groups(
            partition.partition, marker.producer, marker.coordinator_epoch, marker.committed, marker.transaction_version
        )
        return when_done(result, lambda error: {partition: error})


class MarkerWriter:
    """Has the coordinator's markers written: in process where this broker leads, by other brokers elsewhere."""

    def __init__(
        self, appender: MarkerAppender, channels: MarkerChannels, metadata: MetadataCache, knows_metadata: Callable[[], bool]
    ) -> None:
        """``knows_metadata`` returns whether the controller has sent the metadata. Only then, an unknown partition is deleted."""
        self._appender = appender
        self._channels = channels
        self._metadata = metadata
        self._knows_metadata = knows_metadata

    def write(self, markers: Sequence[TransactionMarker]) -> "list[MarkerErrors | Future[MarkerErrors]]":
        """Write each marker into those of its partitions that still exist; see IMarkerWriter."""
        return [self._written(marker) for marker in markers]

    def drop(self, log_partition: int, coordinator_epoch: int) -> None:
        """Forget the markers of a coordinator that has resigned; see IMarkerWriter."""
        self._channels.drop(log_partition, coordinator_epoch)

    def _written(self, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        unknown: MarkerErrors = {}
        elsewhere: dict[int, set[TopicPartition]] = {}
        for partition in sorted(marker.partitions):
            state = self._metadata.partition(partition)
            if state is None:
                unknown[partition] = self._unknown(partition)
            elif state.leader != self._metadata.broker_id:
                elsewhere.setdefault(state.leader, set()).add(partition)
        if not elsewhere:
            here = marker._replace(partitions=marker.partitions.difference(unknown))
            return when_done(self._appender.append(here), lambda errors: unknown | errors)
        answers: list[MarkerErrors | Future[MarkerErrors]] = [unknown]
        for leader, partitions in elsewhere.items():
            answers.append(self._channels.write(leader, marker._replace(partitions=frozenset(partitions))))
        here = marker._replace(partitions=marker.partitions.difference(unknown, *elsewhere.values()))
        if here.partitions:
            answers.append(self._appender.append(here))
        return gather(answers, _merged)

    def _unknown(self, partition: TopicPartition) -> ErrorCode:
        if not self._knows_metadata():
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        _log.info("{partition} was deleted: its transaction needs no marker", partition=partition)
        return ErrorCode.NONE


def _errors(results: Mapping[TopicPartition, PartitionResult]) -> MarkerErrors:
    return {partition: ErrorCode(result.error) for partition, result in results.items()}


def _merged(each: Iterable[MarkerErrors]) -> MarkerErrors:
    return {partition: error for errors in each for partition, error in errors.items()}
