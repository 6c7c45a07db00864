"""The result of an append to one partition."""

from typing import Final

from twisted_kafka.log.results import Conversion, LogAppendInfo
from twisted_kafka.protocol.errors import ErrorCode

_NO_ERRORS: Final[tuple[tuple[int, str], ...]] = ()


class PartitionResult:
    """The result of an append to one partition; ``info`` is given if it succeeded. Unknown offsets and times are -1.

    ``required_offset`` is the high watermark at which the append is replicated to all in-sync replicas, -1 when nothing waits for
    that; ``leader_since`` is the partition's at the append. ``record_errors`` are (index of the record, reason) and
    ``error_message`` describes the error of the batch (KIP-467).
    """

    __slots__ = (
        "base_offset",
        "conversion",
        "error",
        "error_message",
        "last_offset",
        "leader_since",
        "log_append_time_ms",
        "log_start_offset",
        "record_count",
        "record_errors",
        "required_offset",
        "size_bytes",
    )

    def __init__(self, error: int, log_start_offset: int = -1, info: LogAppendInfo | None = None, size_bytes: int = 0) -> None:
        """``size_bytes`` is the size of the records as they were received."""
        self.error = error
        self.size_bytes = size_bytes
        self.required_offset = self.leader_since = -1
        self.record_errors: list[tuple[int, str]] | tuple[tuple[int, str], ...] = _NO_ERRORS
        self.error_message: str | None = None
        self.conversion: Conversion | None = None
        if info is None:
            self.base_offset = self.last_offset = self.log_append_time_ms = -1
            self.log_start_offset = log_start_offset
            self.record_count = 0
        else:
            self.base_offset = info.first_offset
            self.last_offset = info.last_offset
            self.log_append_time_ms = info.log_append_time_ms
            self.log_start_offset = info.log_start_offset
            self.record_count = info.record_count
            self.conversion = info.conversion

    def wait_for(self, required_offset: int, leader_since: int) -> None:
        """Set the offset and the leader epoch for which the append waits."""
        self.required_offset = required_offset
        self.leader_since = leader_since

    def fail_after_append(self, error: ErrorCode) -> None:
        """Set the error that waiting for replicas ended with. The offsets stay: the records are in the leader's log."""
        self.error = error
