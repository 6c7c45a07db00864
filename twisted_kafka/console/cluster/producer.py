"""An idempotent producer for one topic."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.murmur2 import partition_for
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import PartitionAnswer, Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, SimpleRecord, increment_sequence
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine

ALL: Final = -1
"""As ``acks``: all in-sync replicas."""

BY_NAME: Final = 12
"""The last version of Produce with topics' names; later ones have ids."""

_NO_RIGHT: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Producer:
    """An idempotent producer for one topic (KIP-98); without the right to be one, a plain producer."""

    def __init__(self, session: Session, topic: str, partitions: int, acks: int, compression: Compression) -> None:
        self.topic = topic
        self._session = session
        self._partitions = partitions
        self._acks = acks
        self._compression = compression
        self._batches: dict[int, list[Written]] = {}
        self._sequences: dict[int, int] = {}
        self._sticky = machine.chance.randrange(partitions)
        self._producer_id, self._producer_epoch = self._begin() if acks == ALL else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self.waiting = 0
        self.waiting_bytes = 0
        self.written: dict[int, tuple[int, int]] = {}
        """The first and the last offset in each partition."""

    def _begin(self) -> tuple[int, int]:
        def step() -> tuple[int, int]:
            if self._session.version(InitProducerIdRequest) < 0:
                return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            response = self._session.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            if response.error_code in _NO_RIGHT:
                return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            if response.error_code:
                raise problem("the producer", response.error_code)
            return response.producer_id, response.producer_epoch

        return self._session.retrying(step)

    def add(self, record: Written) -> None:
        """Add a record to the next batch of its partition. Raises CommandError if the topic does not have the partition."""
        partition = record.partition
        if partition is None:
            partition = self._sticky if record.key is None else partition_for(record.key, self._partitions)
        elif not 0 <= partition < self._partitions:
            raise CommandError(
                f"{self.topic} has no partition {partition}: it has {counted(self._partitions, 'partition')}, from 0 on"
            )
        self._batches.setdefault(partition, []).append(record)
        self.waiting += 1
        self.waiting_bytes += len(record.key or b"") + len(record.value or b"")

    def flush(self) -> tuple[int, int]:
        """Send all batches; return the numbers of records and bytes. Raises CommandError."""
        sent = self.waiting, self.waiting_bytes
        batches = {
            TopicPartition(self.topic, partition): self._build(partition, self._batches[partition]) for partition in self._batches
        }
        if self._acks:
            found = self._session.ask_leaders(batches, lambda mine: self._request(mine, batches), _answers, latest=BY_NAME)
            for (_, partition), answer in found.items():
                self._note(partition, answer.base_offset)
        else:
            for leader, mine in self._session.retrying(lambda: self._session.by_leader(batches)).items():
                self._session.send(self._request(mine, batches), leader, latest=BY_NAME)
                for each in mine:
                    self._note(each.partition, -1)
        self._batches.clear()
        self.waiting = self.waiting_bytes = 0
        self._sticky = machine.chance.randrange(self._partitions)
        return sent

    def _note(self, partition: int, base_offset: int) -> None:
        last = base_offset + len(self._batches[partition]) - 1 if base_offset >= 0 else -1
        self.written[partition] = self.written.get(partition, (base_offset, last))[0], last
        if self._producer_id >= 0:
            self._sequences[partition] = increment_sequence(self._sequences.get(partition, 0), len(self._batches[partition]))

    def _build(self, partition: int, records: Sequence[Written]) -> bytes:
        return build_batch(
            [SimpleRecord(each.timestamp_ms, each.key, each.value, each.headers) for each in records],
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences.get(partition, 0) if self._producer_id >= 0 else NO_SEQUENCE,
        )

    def _request(self, mine: Sequence[TopicPartition], batches: Mapping[TopicPartition, bytes]) -> ProduceRequest:
        data = [PartitionProduceData(index=each.partition, records=batches[each]) for each in mine]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        return ProduceRequest(acks=self._acks, timeout_ms=self._session.timeout_ms, topic_data=topics)


def _answers(response: Any) -> Iterator[PartitionAnswer]:
    for topic in response.responses:
        for each in topic.partition_responses:
            # A duplicate is a batch whose first response was lost.
            code = ErrorCode.NONE if each.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else each.error_code
            yield TopicPartition(topic.name, each.index), code, each.error_message, each
