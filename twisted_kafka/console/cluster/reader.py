"""Reads the records of partitions, as a consumer without a group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST, by_topic, offsets_at
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError, problem
from twisted_kafka.console.cluster.record_forms import Seen
from twisted_kafka.console.cluster.session import Session, named_partition
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.record import (
    DEFAULT_DECOMPRESSION_LIMIT_BYTES,
    ControlRecordType,
    Record,
    RecordBatch,
    control_record_type,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

BY_NAME: Final = 12
"""The last version of Fetch with topics' names; later ones have ids."""

_CONSUMER: Final = -1
_NO_SESSION: Final = -1


class Limits(NamedTuple):
    """How much one fetch may take."""

    max_bytes: int = 16 * 1024 * 1024
    """Of one response."""
    partition_bytes: int = 1024 * 1024
    max_wait_ms: int = 500
    """How long a broker waits for records."""
    decompressed_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES
    """Of one batch."""


DEFAULT_LIMITS: Final = Limits()


class Reader:
    """Fetches from the leaders of partitions, from their positions to their ends."""

    def __init__(
        self,
        session: Session,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        isolation_level: int,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """``ends`` are the offsets at which to stop, each excluded; None to read on without end."""
        self._session = session
        self._ends = ends
        self._isolation_level = isolation_level
        self._limits = limits
        self._aborted: dict[TopicPartition, set[int]] = {}
        """The producers whose open transaction at the position is aborted."""
        self.positions = {each: offset for each, offset in positions.items() if ends is None or offset < ends[each]}
        """The next offset of each partition that is not at its end."""

    def fetch(self) -> Iterator[Seen]:
        """Return the next records, without those of aborted transactions; waits ``max_wait_ms`` for some."""
        found = self._session.retrying(self._fetch)
        for partition, answer, is_partial in found:
            yield from self._records(partition, answer, is_partial)

    def _fetch(self) -> list[tuple[TopicPartition, Any, bool]]:
        """Return the partitions with their answers, and whether the response may have had no room for more of their records."""
        found: list[tuple[TopicPartition, Any, bool]] = []
        leaders = self._session.by_leader(self.positions)
        for leader, mine in leaders.items():
            response = self._session.ask(self._request(mine, is_only=len(leaders) == 1), leader, latest=BY_NAME)
            if response.error_code:
                raise problem("the fetch", response.error_code)
            named = [
                (TopicPartition(topic.topic, each.partition_index), each)
                for topic in response.responses
                for each in topic.partitions
            ]
            asked = [(partition, each) for partition, each in named if partition in self.positions]
            # The first partitions may have filled the response.
            is_partial = response.throttle_time_ms > 0 or any(each.records for _, each in asked)
            for partition, each in asked:
                if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    if not self._to_start(partition) and not found:
                        raise TryAgainError(f"{partition}: the offset {self.positions[partition]} cannot be read yet")
                elif each.error_code:
                    error = problem(named_partition(partition), each.error_code)
                    if not isinstance(error, TryAgainError) or not found:
                        raise error
                else:
                    found.append((partition, each, is_partial))
        return found

    def _request(self, mine: Sequence[TopicPartition], *, is_only: bool) -> FetchRequest:
        topics = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=self.positions[TopicPartition(name, index)],
                        partition_max_bytes=self._limits.partition_bytes,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(mine).items()
        ]
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=self._limits.max_wait_ms if is_only else self._limits.max_wait_ms // 10,
            min_bytes=1,
            max_bytes=self._limits.max_bytes,
            isolation_level=self._isolation_level,
            session_epoch=_NO_SESSION,
            topics=topics,
        )

    def _to_start(self, partition: TopicPartition) -> bool:
        """Skip records that were deleted meanwhile; return False if none were, as while a leader changes."""
        start = offsets_at(self._session, [partition], EARLIEST)[partition]
        end = offsets_at(self._session, [partition], LATEST)[partition]
        if start <= self.positions[partition] <= end:
            return False
        self.positions[partition] = start
        self._end_if_done(partition)
        return True

    def _records(self, partition: TopicPartition, answer: Any, is_partial: bool) -> Iterator[Seen]:
        data = _joined(answer.records)
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        mine = self._aborted.setdefault(partition, set())
        has_batch = False
        for batch in batches(data):
            has_batch = True
            if not batch.is_valid():
                raise CommandError(
                    f"{partition} has a damaged batch at offset {batch.base_offset}: run twisted-kafka verify on the leader"
                )
            while self._isolation_level and aborted and aborted[0][0] <= batch.last_offset:
                mine.add(aborted.pop(0)[1])
            yield from self._of_batch(partition, batch, mine)
            self.positions[partition] = max(self.positions[partition], batch.next_offset)
        if not has_batch and data:
            raise CommandError(
                f"{partition} has a batch of more than {self._limits.partition_bytes} bytes that the broker does not send whole"
            )
        if not has_batch and not is_partial and self._ends is not None:
            del self.positions[partition]  # the log ends before the end that was asked for
            return
        self._end_if_done(partition)

    def _of_batch(self, partition: TopicPartition, batch: RecordBatch, aborted: set[int]) -> Iterator[Seen]:
        if batch.is_control:
            for record in batch.records():
                if control_record_type(record.key) == ControlRecordType.ABORT:
                    aborted.discard(batch.producer_id)
            return
        if batch.is_transactional and batch.producer_id in aborted:
            return
        for record in self._wanted(partition, batch.records(self._limits.decompressed_bytes)):
            self.positions[partition] = record.offset + 1
            yield Seen(
                partition.topic,
                partition.partition,
                record.offset,
                record.timestamp_ms,
                record.key,
                record.value,
                record.headers,
                batch,
            )

    def _wanted(self, partition: TopicPartition, records: Iterable[Record]) -> Iterator[Record]:
        first = self.positions[partition]
        end = None if self._ends is None else self._ends[partition]
        return (record for record in records if record.offset >= first and (end is None or record.offset < end))

    def _end_if_done(self, partition: TopicPartition) -> None:
        if self._ends is not None and self.positions[partition] >= self._ends[partition]:
            del self.positions[partition]


def _joined(records: Any) -> bytes:
    if records is None:
        return b""
    return b"".join(bytes(each) for each in records) if isinstance(records, list) else bytes(records)
