"""Checkpoints of high watermarks: ``replication-offset-checkpoint`` in each log directory."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, MalformedCheckpointError, OffsetCheckpoint
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.system import machine

_log = Logger()


class HighWatermarkCheckpoints:
    """Reads each checkpoint once, with its first partition, and writes it periodically.

    ``on_failure`` is called with a directory that cannot be written.
    """

    __slots__ = ("_checkpoints", "_gone", "_loaded", "_lock", "_on_failure", "_written")

    def __init__(self, on_failure: Callable[[Path, OSError], None]) -> None:
        self._on_failure = on_failure
        self._gone: set[Path] = set()
        self._checkpoints: dict[Path, OffsetCheckpoint] = {}
        self._loaded: dict[Path, dict[TopicPartition, int]] = {}
        self._written: dict[Path, dict[TopicPartition, int]] = {}
        self._lock = machine.Lock()

    def last_known(self, directory: Path, topic_partition: TopicPartition) -> int:
        """Return the checkpointed high watermark of a partition in a log directory; 0 if the file has no entry."""
        with self._lock:
            offsets = self._loaded.get(directory)
            if offsets is None:
                offsets = self._loaded[directory] = self._read(directory)
            return offsets.get(topic_partition, 0)

    def write(self, partitions: Iterable[Partition]) -> None:
        """Write the high watermarks of directories where any has changed."""
        by_directory: dict[Path, dict[TopicPartition, int]] = defaultdict(dict)
        for partition in partitions:
            for log in (partition.log, partition.future_log):
                if log is not None:
                    by_directory[log.parent][partition.topic_partition] = log.high_watermark
        with self._lock:
            for directory in self._gone:
                by_directory.pop(directory, None)
            for directory in [directory for directory in self._written if directory not in by_directory]:
                by_directory[directory] = {}
            for directory, offsets in by_directory.items():
                if self._written.get(directory) == offsets:
                    continue
                try:
                    self._checkpoint(directory).write(offsets)
                except OSError as error:
                    _log.error("Cannot write the high watermarks to {directory}: {error}", directory=str(directory), error=error)
                    self._on_failure(directory, error)
                else:
                    self._written[directory] = offsets
                    # A partition that comes back to this broker begins with its last high watermark.
                    self._loaded[directory] = dict(offsets)

    def forget(self, directory: Path) -> None:
        """Stop writing to an offline directory."""
        with self._lock:
            self._gone.add(directory)
            self._written.pop(directory, None)

    def _checkpoint(self, directory: Path) -> OffsetCheckpoint:
        checkpoint = self._checkpoints.get(directory)
        if checkpoint is None:
            checkpoint = self._checkpoints[directory] = OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT)
        return checkpoint

    def _read(self, directory: Path) -> dict[TopicPartition, int]:
        try:
            return self._checkpoint(directory).read()
        except (MalformedCheckpointError, OSError) as error:
            _log.error("High watermarks in {directory} begin at 0: {error}", directory=directory, error=error)
            return {}
