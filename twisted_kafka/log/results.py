"""What the log answers with."""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.protocol.regions import FileRegion

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
    """What an append did. Offsets are -1 for an append of nothing; ``log_append_time_ms`` is -1 unless the topic stamps records.

    ``conversion`` is None for records that were written as they came, and not compressed.
    """

    __slots__ = (
        "conversion",
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp_ms",
        "record_count",
        "size_bytes",
    )

    def __init__(self, first_offset: int, last_offset: int, max_timestamp_ms: int, log_start_offset: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp_ms = max_timestamp_ms
        self.log_start_offset = log_start_offset
        self.log_append_time_ms = -1
        self.record_count = 0
        self.size_bytes = 0
        self.is_duplicate = False
        self.conversion: Conversion | None = None


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
