"""Results of appends, reads and searches of a log."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.batch_headers import BatchLike
from twisted_kafka.protocol.regions import Buffer, FileRegion

UNKNOWN_POSITION = -1


class FetchIsolation(IntEnum):
    """The upper bound of a read."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class LogOffsetMetadata(NamedTuple):
    """An offset and its position in the log; UNKNOWN_POSITION if it was not looked up yet."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_POSITION
    relative_position: int = UNKNOWN_POSITION


log_offset_metadata_of = cast(Callable[[tuple[int, int, int]], LogOffsetMetadata], partial(tuple.__new__, LogOffsetMetadata))
"""Creates LogOffsetMetadata from a plain tuple, in half the time of the class; for hot paths."""


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp; ``leader_epoch`` is -1 if its batch has none."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """A leader epoch and its end offset; both are -1 if unknown."""

    leader_epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction that a reader of committed data must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Conversion(NamedTuple):
    """The cost of converting records, on an append or a fetch (Kafka: RecordValidationStats).

    The number of records that were rewritten (for another format, codec, offsets or timestamps), the time that took, and the
    temporary memory of rewriting and decompressing.
    """

    records: int
    time_ns: int
    temporary_bytes: int


class LogAppendInfo:
    """The records of an append after validation, and the result of the append (Kafka: LogAppendInfo).

    Offsets are -1 without a complete batch; ``log_append_time_ms`` is -1 unless the topic uses LogAppendTime. ``records`` are the
    bytes to write, ``batches`` describe them. ``conversion`` is None for uncompressed records that were not rewritten.
    """

    __slots__ = (
        "batches",
        "conversion",
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp_ms",
        "record_count",
        "records",
        "size_bytes",
        "source_compression",
    )

    def __init__(self, records: Buffer, batches: "Sequence[BatchLike]", record_count: int) -> None:
        self.records = records
        self.batches = batches
        self.record_count = record_count
        self.size_bytes = len(records)
        self.log_append_time_ms = self.log_start_offset = -1
        self.source_compression = 0
        self.conversion: Conversion | None = None
        self.is_duplicate = False
        if batches:
            batch = batches[-1]
            self.first_offset = batches[0].base_offset
            self.last_offset = batch.last_offset
            self.max_timestamp_ms = batch.max_timestamp_ms
        else:
            self.first_offset = self.last_offset = self.max_timestamp_ms = -1


def info_of_batch(
    record_count: int, size_bytes: int, first_offset: int, last_offset: int, max_timestamp_ms: int, log_start_offset: int
) -> LogAppendInfo:
    """Return the result of the append of a batch that was not converted, without its ``records`` and ``batches``."""
    info = _new(LogAppendInfo)
    info.records = b""
    info.batches = ()
    info.record_count = record_count
    info.size_bytes = size_bytes
    info.log_append_time_ms = -1
    info.log_start_offset = log_start_offset
    info.source_compression = 0
    info.conversion = None
    info.is_duplicate = False
    info.first_offset = first_offset
    info.last_offset = last_offset
    info.max_timestamp_ms = max_timestamp_ms
    return info


_new = object.__new__


class FetchDataInfo:
    """The result of a read: a region of a segment's file, or ``b""``.

    ``first_entry_incomplete``: the first batch exceeds the requested size and was cut.
    ``aborted_transactions`` is None unless only committed data was requested.
    """

    __slots__ = ("aborted_transactions", "fetch_offset", "first_entry_incomplete", "records")

    def __init__(
        self,
        fetch_offset: LogOffsetMetadata,
        records: FileRegion | bytes,
        first_entry_incomplete: bool = False,
        aborted_transactions: list[AbortedTransaction] | None = None,
    ) -> None:
        self.fetch_offset = fetch_offset
        self.records = records
        self.first_entry_incomplete = first_entry_incomplete
        self.aborted_transactions = aborted_transactions
