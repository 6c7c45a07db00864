"""Copies a replica to another log directory, piece by piece, until the copy can take its place (KIP-113).

Kafka runs a follower of the broker's own leader for this. Here the future log is compared with the log itself: it is truncated
where the log was, by leader epochs, then the batches behind the future log's end are appended to it.
"""

from typing import Final, NamedTuple

from twisted_kafka.log.batch_headers import batches_in
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import OffsetOutOfRangeError
from twisted_kafka.replication.partition.partition import Partition

LAST_PIECES: Final = 4
"""The most pieces that are copied while appends wait, before the future log takes the log's place."""


class Copied(NamedTuple):
    """The result of a step: the bytes copied, and whether the move is over."""

    size_bytes: int
    is_done: bool


class ReplicaCopier:
    """Takes the steps of moves. One thread at a time works on a partition."""

    def __init__(self, logs: LogManager, max_bytes: int) -> None:
        """``max_bytes`` is the most that a step copies, unless one batch is larger."""
        self._logs = logs
        self._max_bytes = max_bytes

    def step(self, partition: Partition) -> Copied:
        """Copy a piece; once the future log has all records, let it take the log's place.

        Raises KafkaStorageError, CorruptRecordError.
        """
        future, log = partition.future_log, partition.log
        if future is None:
            return Copied(0, True)
        size_bytes = self._copy(log, future)
        if future.log_end_offset < log.log_end_offset and size_bytes >= self._max_bytes // 2:
            return Copied(size_bytes, False)
        if future.recovery_point < log.recovery_point:
            future.flush()  # records that were on disk must be on disk afterwards

        def is_complete() -> bool:
            nonlocal size_bytes
            for _ in range(LAST_PIECES):
                size_bytes += self._copy(log, future)
                if future.log_end_offset == log.log_end_offset:
                    return True
            return False

        def replace() -> UnifiedLog:
            return self._logs.replace_by_future_log(partition.topic_partition)

        is_done = partition.replace_log(is_complete, replace)  # first, as it adds to size_bytes
        return Copied(size_bytes, is_done)

    def _copy(self, log: UnifiedLog, future: UnifiedLog) -> int:
        align(log, future)
        end_offset = log.log_end_offset
        try:
            records = log.read(future.log_end_offset, self._max_bytes, FetchIsolation.LOG_END, True).records
        except OffsetOutOfRangeError:
            return 0  # retention deleted it: the next step begins at the new log start offset
        data = log.content(records)
        if data:
            first = next(batches_in(data), None)
            if first is not None and first.base_offset < future.log_end_offset:
                # The log begins inside this batch, so the future log has to begin there.
                future.truncate_fully_and_start_at(first.base_offset, log.log_start_offset)
            future.append_as_follower(bytearray(data))
        else:
            future.skip_to(end_offset)
        future.update_high_watermark(log.high_watermark)
        future.increment_log_start_offset(min(log.log_start_offset, future.high_watermark), "the log starts there")
        return len(data)


def align(log: UnifiedLog, future: UnifiedLog) -> None:
    """Truncate the future log to the offsets and epochs of the log; raise KafkaStorageError."""
    if future.log_end_offset < log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset)
        return
    known = {epoch for epoch, _ in log.leader_epochs.entries}
    if known:
        for epoch, start_offset in reversed(future.leader_epochs.entries):
            if epoch in known:
                future.truncate_to(log.end_offset_for_epoch(epoch).end_offset)
                break
            future.truncate_to(start_offset)
    future.truncate_to(log.log_end_offset)
