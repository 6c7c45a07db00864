"""The answers to producers: acknowledged batches, and the ends of transactions."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from twisted_kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from twisted_kafka.protocol.records.batch import DefaultBatch, batches
from twisted_kafka.protocol.topic_partition import TopicPartition

MOST_BATCHES: Final = 500_000
"""Most acknowledged batches that are remembered; then the oldest are forgotten, at some 300 bytes each."""
MOST_TRANSACTIONS: Final = 50_000

Place = tuple[TopicPartition, int]


class Acknowledged(NamedTuple):
    """A batch that all in-sync replicas have, according to the answer to its producer."""

    partition: TopicPartition
    base_offset: int
    records: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    client_id: str
    at_ns: int
    """When it was acknowledged."""

    @property
    def text(self) -> str:
        """Return which records these are."""
        last = self.base_offset + self.records - 1
        which = f"offset {self.base_offset}" if self.records == 1 else f"offsets {self.base_offset} to {last}"
        return f"{self.partition} {which}, written by {self.client_id}"


class Transaction(NamedTuple):
    """A transaction that has ended."""

    name: str
    """Its transactional id."""
    producer_id: int
    committed: bool | None
    """The outcome in the answer to its producer; None without an answer."""
    batches: list[Acknowledged]


class Produced:
    """The acknowledgements of a world."""

    def __init__(self) -> None:
        self.batches: deque[Acknowledged] = deque(maxlen=MOST_BATCHES)
        self.transactions: deque[Transaction] = deque(maxlen=MOST_TRANSACTIONS)
        self._open: dict[int, tuple[str, list[Acknowledged]]] = {}
        """The batches of each producer id's transaction."""

    def forget(self, topic: str) -> None:
        """Forget a topic that may be deleted."""
        kept = [each for each in self.batches if each.partition.topic != topic]
        self.batches = deque(kept, maxlen=MOST_BATCHES)

    # Produce

    def produced(self, client_id: str, request: ProduceRequest, response: ProduceResponse, now_ns: int) -> None:
        """Note the answer to a Produce with ``acks=all``."""
        if request.acks != -1:
            return
        told = {
            (topic.name or topic.topic_id, each.index): each.base_offset
            for topic in response.responses
            for each in topic.partition_responses
            if each.error_code == ErrorCode.NONE and each.base_offset >= 0
        }
        for topic, index, batch in _batches_of(request):
            base_offset = told.get((topic, index))
            if base_offset is None or not isinstance(topic, str):
                continue
            acknowledged = Acknowledged(
                TopicPartition(topic, index),
                base_offset,
                batch.last_offset_delta + 1,
                batch.crc,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                client_id,
                now_ns,
            )
            self.batches.append(acknowledged)
            if batch.is_transactional:
                name = request.transactional_id or ""
                self._open.setdefault(batch.producer_id, (name, []))[1].append(acknowledged)

    # Transactions

    def ended(self, request: EndTxnRequest, response: EndTxnResponse) -> None:
        """Note the answer to an EndTxn."""
        if response.error_code == ErrorCode.NONE:
            self._end(request.producer_id, request.committed)

    def began(self, request: InitProducerIdRequest, response: InitProducerIdResponse) -> None:
        """Note a new epoch: its producer knows nothing of the end of a transaction that was open."""
        if response.error_code == ErrorCode.NONE and request.transactional_id:
            for producer_id in [each for each, (name, _) in self._open.items() if name == request.transactional_id]:
                self._end(producer_id, None)

    def _end(self, producer_id: int, committed: bool | None) -> None:
        found = self._open.pop(producer_id, None)
        if found is not None:
            self.transactions.append(Transaction(found[0], producer_id, committed, found[1]))


def _batches_of(request: ProduceRequest) -> Iterator[tuple[Any, int, DefaultBatch]]:
    for topic in request.topic_data:
        for each in topic.partition_data:
            if each.records is not None:
                for batch in batches(each.records):
                    if isinstance(batch, DefaultBatch):
                        yield topic.name or topic.topic_id, each.index, batch
