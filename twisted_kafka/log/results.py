"""What the log answers with."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.batch_headers import BatchLike
from twisted_kafka.protocol.regions import Buffer, FileRegion

UNKNOWN_POSITION = -1


class FetchIsolation(IntEnum):
    """Up to where a reader may see."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class LogOffsetMetadata(NamedTuple):
    """An offset and where in the log it lies; UNKNOWN_POSITION when nobody has looked yet."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_POSITION
    relative_position: int = UNKNOWN_POSITION


log_offset_metadata_of = cast(Callable[[tuple[int, int, int]], LogOffsetMetadata], partial(tuple.__new__, LogOffsetMetadata))
"""Makes one of a plain tuple, in half the time that the class takes: for hot paths."""


class TimestampAndOffset(NamedTuple):
    """The record found for a time; ``leader_epoch`` is -1 when its batch says none."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """Where a leader epoch ended; both are -1 when unknown."""

    leader_epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction that a reader of committed data must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Conversion(NamedTuple):
    """What records cost that were not written, or sent, as they were. (Kafka: RecordValidationStats.)

    How many were built anew (for another format, codec, offsets or timestamps), how long that took, and how much memory it and
    decompressing took beside what came in.
    """

    records: int
    time_ns: int
    temporary_bytes: int


class LogAppendInfo:
    """What is appended, as its validation found it, and then what the append did (Kafka: LogAppendInfo).

    Offsets are -1 without a complete batch; ``log_append_time_ms`` is -1 unless the topic stamps records. ``records`` has what is
    written, ``batches`` what the log wants to know of it. ``conversion`` is None for records that were written as they came and are
    not compressed.
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


class FetchDataInfo:
    """What a read found: a region of a segment's file, or ``b""``.

    ``first_entry_incomplete``: the first batch is larger than was asked for and was cut.
    ``aborted_transactions`` is None unless committed data was asked for.
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
