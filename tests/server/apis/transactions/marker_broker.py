"""A broker that gets markers of transactions."""

from typing import Any

from tests.server.apis.group_handlers import ask
from tests.support.real_log import TOPIC as OFFSETS
from tests.support.real_log import RealBroker
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import LeaderState
from twisted_kafka.server.apis.transactions.transaction_markers import TransactionMarkerApis
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerAppender

DATA = TopicPartition("orders", 0)
PRODUCER = 7


class MarkerBroker(RealBroker):
    """The coordinator and a data partition over real logs, and the handler under test."""

    def __init__(self, path: Any, clock: Any, epoch: int = 0) -> None:
        super().__init__(path, clock)
        self.lead(epoch)
        state = LeaderState(1, 1, epoch, (1,), (1,), 0)
        self.replicas.state.become_leader_or_follower(1, [(DATA, b"d" * 16, state)])
        self.family = TransactionMarkerApis(MarkerAppender(self.replicas, self.groups.end_transaction, clock, 1000))

        self.context: Any = None

    def marker(
        self,
        committed: bool = True,
        topic: str = DATA.topic,
        partitions: tuple[int, ...] = (0,),
        producer: int = PRODUCER,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> Any:
        return WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
        )

    def write(self, *markers: Any, version: int = 1) -> Any:
        response, self.context = ask(self.family, WriteTxnMarkersRequest(markers=list(markers)), version)
        return {
            (each.producer_id, topic.name, partition.partition_index): partition.error_code
            for each in response.markers
            for topic in each.topics
            for partition in topic.partitions
        }

    def end_offsets_of(self, group_id: Any, committed: bool = True, **fields: Any) -> Any:
        index = self.groups.partition_for(group_id)
        errors = self.write(self.marker(committed, OFFSETS, [index], **fields))  # type: ignore[arg-type]
        return errors[PRODUCER, OFFSETS, index]

    def commit(self, group_id: Any, offset: Any, epoch: int = 0) -> Any:
        value = OffsetCommitValue(offset=offset, commit_timestamp=self.clock.wall_ms())
        log = self.replicas.get_partition(TopicPartition(OFFSETS, self.groups.partition_for(group_id))).log
        guard = log.start_verification(PRODUCER, epoch, NO_SEQUENCE)
        return self.groups.commit_transactional_offsets(Sender(group_id), Producer(PRODUCER, epoch), guard, {DATA: value})

    def offset(self, group_id: Any) -> Any:
        found = self.groups.fetch_offsets(OffsetFetch(Sender(group_id), [DATA], True))[1][DATA]
        return found.offset if isinstance(found, OffsetCommitValue) else found

    def produce(self, sequence: int = 0) -> None:
        batch = build_batch(
            [SimpleRecord(self.clock.wall_ms(), b"k", b"v")],
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        guards = {DATA: self.log.start_verification(PRODUCER, 0, sequence)}
        assert self.replicas.appender.append(1000, 1, {DATA: batch}, guards=guards)[DATA].error == 0

    @property
    def open_transactions(self) -> Any:
        return [each.transaction_first_offset for each in self.log.active_producers()]

    @property
    def log(self) -> Any:
        return self.replicas.get_partition(DATA).log
