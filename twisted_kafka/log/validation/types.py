"""Parameters, results and errors of the validation."""

from collections.abc import Callable
from enum import IntEnum

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError, InvalidTimestampError, KafkaError
from twisted_kafka.protocol.records.record import NO_SEQUENCE, increment_sequence
from twisted_kafka.protocol.topic_partition import TopicPartition


class AppendOrigin(IntEnum):
    """The origin of an append; clients are checked most strictly."""

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2
    RAFT_LEADER = 3


class ValidationContext:
    """One append: its partition, first offset, leader epoch, time, origin and topic config.

    ``now_ms`` is the wall clock time, ``now_ns`` reads the monotonic clock. ``takes_large``: whether records may be decompressed
    to more than a few megabytes now.
    """

    __slots__ = ("config", "leader_epoch", "now_ms", "now_ns", "offset", "origin", "takes_large", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        offset: int,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        config: LogConfig,
        now_ns: Callable[[], int],
    ) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.origin = origin
        self.config = config
        self.now_ns = now_ns
        self.takes_large = False


class BatchInfo:
    """A batch as it is appended; ``position`` is its start in the result's records. The creator sets all fields."""

    __slots__ = (
        "base_offset",
        "base_sequence",
        "is_control",
        "is_transactional",
        "last_offset",
        "max_timestamp_ms",
        "position",
        "producer_epoch",
        "producer_id",
        "size_bytes",
    )

    base_offset: int
    base_sequence: int
    is_control: bool
    is_transactional: bool
    last_offset: int
    max_timestamp_ms: int
    position: int
    producer_epoch: int
    producer_id: int
    size_bytes: int

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, -1 if the producer is not idempotent."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)


class InvalidChecksumError(CorruptRecordError):
    """A batch or message has a wrong checksum."""


class InvalidMagicError(InvalidRecordError):
    """Messages have different formats where only one is allowed."""


class InvalidOffsetOrSequenceError(InvalidRecordError):
    """Invalid counts, offset deltas or sequence numbers."""


class RecordValidationError(KafkaError):
    """A batch was rejected because of single records (Kafka: RecordValidationException).

    ``record_errors`` has the index in the batch and the reason of each, for Produce from version 8 on. ``keyless`` is the number of
    records that lack the key that a compacted topic requires.
    """

    def __init__(self, message: str, record_errors: list[tuple[int, str]], keyless: int = 0) -> None:
        super().__init__(message)
        self.record_errors = record_errors
        self.keyless = keyless


class InvalidRecordsError(RecordValidationError, InvalidRecordError):
    """Invalid records, such as those without a key for a compacted topic."""


class InvalidTimestampsError(RecordValidationError, InvalidTimestampError):
    """Records with timestamps outside the topic's range."""
