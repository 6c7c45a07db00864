"""The result of an append to one partition."""

from typing import Final

from twisted_kafka.log.results import Conversion, LogAppendInfo
from twisted_kafka.protocol.errors import ErrorCode

_NO_ERRORS: Final[tuple[tuple[int, str], ...]] = ()


class PartitionResult:
    """The result of an append to one partition; offsets and times are -1 where they are unknown.

    ``required_offset`` is the high watermark at which the append is replicated to all in-sync replicas, -1 when nothing waits for
    that. ``record_errors`` are (index of the record, reason) and ``error_message`` says what was wrong with the batch (KIP-467).
    """

    __slots__ = (
        "base_offset",
        "conversion",
        "error",
        "error_message",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_count",
        "record_errors",
        "required_offset",
    )

    def __init__(self, error: int, log_start_offset: int = -1) -> None:
        self.error = error
        self.base_offset = -1
        self.last_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = log_start_offset
        self.required_offset = -1
        self.record_count = 0
        self.conversion: Conversion | None = None
        self.record_errors: list[tuple[int, str]] | tuple[tuple[int, str], ...] = _NO_ERRORS
        self.error_message: str | None = None

    @classmethod
    def appended(cls, info: LogAppendInfo) -> "PartitionResult":
        """Make the result of an append that succeeded."""
        result = cls(0, info.log_start_offset)
        result.base_offset = info.first_offset
        result.last_offset = info.last_offset
        result.log_append_time_ms = info.log_append_time_ms
        result.record_count = info.record_count
        result.conversion = info.conversion
        return result

    def fail_after_append(self, error: ErrorCode) -> None:
        """Set the error that waiting for replicas ended with. The offsets stay: the records are in the leader's log."""
        self.error = error
