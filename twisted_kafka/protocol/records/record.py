"""Records, and the interface of batches of every format."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from typing_extensions import override

from twisted_kafka.protocol.records.compression import CODECS, Compression

Header = tuple[str, bytes | None]
"""A record header's key and value. Bytes of a key that are not UTF-8 are kept as lone surrogates."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_INT32_MAX = 0x7FFFFFFF

DEFAULT_DECOMPRESSION_LIMIT_BYTES = 1024 * 1024 * 1024
"""The limit for decompressing a batch of the broker's own log; the limit for clients' batches, in validation, is far lower."""


class TimestampType(IntEnum):
    """The source of a batch's timestamps: its producer, or the log at the append."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ControlRecordType(IntEnum):
    """The type of a control record: the second int16 of its key."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class SimpleRecord(NamedTuple):
    """A record to write; the builder assigns its offset."""

    timestamp_ms: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()


class Record:
    """A record as it was read. ``sequence`` is -1 when its producer is not idempotent."""

    __slots__ = ("headers", "key", "offset", "sequence", "timestamp_ms", "value")

    def __init__(
        self,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...] = (),
        sequence: int = NO_SEQUENCE,
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.sequence = sequence

    @override
    def __repr__(self) -> str:
        return f"Record(offset={self.offset}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, value={self.value!r})"


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a producer's sequence number, which wraps around to 0 after 2147483647."""
    return (sequence + increment) & _INT32_MAX


def control_record_type(key: bytes | None) -> ControlRecordType:
    """Return the type of the control record with this key; UNKNOWN for an unknown type or an invalid key."""
    if key is None or len(key) < 4:
        return ControlRecordType.UNKNOWN
    try:
        return ControlRecordType(int.from_bytes(key[2:4], "big", signed=True))
    except ValueError:
        return ControlRecordType.UNKNOWN


class RecordBatch:
    """The parsed header of a batch, and the batch's bytes; the records are parsed on demand.

    In formats 0 and 1 each message, compressed or not, counts as a batch, as in Kafka. ``position`` is where the batch begins in
    the data passed to ``batches``. Timestamps are in milliseconds.
    """

    __slots__ = (
        "attributes",
        "base_sequence",
        "base_timestamp_ms",
        "crc",
        "data",
        "last_offset",
        "magic",
        "max_timestamp_ms",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "size_bytes",
    )

    attributes: int
    base_sequence: int
    base_timestamp_ms: int
    crc: int
    data: memoryview
    """All bytes of the batch."""
    last_offset: int
    magic: int
    max_timestamp_ms: int
    partition_leader_epoch: int
    position: int
    producer_epoch: int
    producer_id: int
    size_bytes: int

    @property
    def base_offset(self) -> int:
        """The first record's offset.

        A compressed message of formats 0 and 1 has to be decompressed for it, which can raise the errors of ``records``.
        """
        raise NotImplementedError

    @property
    def count(self) -> int | None:
        """The declared number of records; None in formats 0 and 1."""
        raise NotImplementedError

    @property
    def next_offset(self) -> int:
        """The offset that follows the batch."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """The codec; raises UnsupportedCompressionTypeError for an unknown one."""
        number = self.attributes & COMPRESSION_MASK
        if number < len(CODECS):
            return CODECS[number]
        from twisted_kafka.protocol.errors import UnsupportedCompressionTypeError

        raise UnsupportedCompressionTypeError(f"unknown compression type {number}")

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_MASK else TimestampType.CREATE_TIME

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, -1 without an idempotent producer."""
        return NO_SEQUENCE

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return False

    @property
    def is_control(self) -> bool:
        """Whether it holds control records, which consumers never see."""
        return False

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove its tombstones and markers; None until that is set."""
        return None

    def is_valid(self) -> bool:
        """Whether the checksum is correct."""
        raise NotImplementedError

    def records(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> Iterator[Record]:
        """Parse the records one by one.

        Raises InvalidRecordError when a record is malformed, CorruptRecordError when the data does not decompress,
        RecordTooLargeError when it decompresses to more than ``limit_bytes``.
        """
        raise NotImplementedError
