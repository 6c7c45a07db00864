"""What an append to one partition came to."""

from typing import Final

from twisted_kafka.log.results import Conversion, LogAppendInfo
from twisted_kafka.protocol.errors import ErrorCode

_NO_ERRORS: Final[tuple[tuple[int, str], ...]] = ()


class PartitionResult:
    """The answer for one partition of a produce: offsets are -1 and times -1 where there is nothing to say.

    ``record_errors`` are (index of the record, why) and ``error_message`` says what was wrong with the batch (KIP-467).
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
    )

    def __init__(self, error: int, log_start_offset: int = -1) -> None:
        self.error = error
        self.base_offset = -1
        self.last_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = log_start_offset
        self.record_count = 0
        self.conversion: Conversion | None = None
        self.record_errors: list[tuple[int, str]] | tuple[tuple[int, str], ...] = _NO_ERRORS
        self.error_message: str | None = None

    @classmethod
    def appended(cls, info: LogAppendInfo) -> "PartitionResult":
        """Make the result of an append that was done."""
        result = cls(0, info.log_start_offset)
        result.base_offset = info.first_offset
        result.last_offset = info.last_offset
        result.log_append_time_ms = info.log_append_time_ms
        result.record_count = info.record_count
        result.conversion = info.conversion
        return result

    def fail_after_append(self, error: ErrorCode) -> None:
        """Note how waiting for replicas ended; the offsets stay, for the records are in the leader's log."""
        self.error = error
