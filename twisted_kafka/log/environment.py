"""The context that the logs of one broker share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from twisted_kafka.log.files import sync_directory
from twisted_kafka.log.producer_state.producer_state_manager import ProducerStateManagerConfig
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

if TYPE_CHECKING:
    from twisted_kafka.log.unified_log import UnifiedLog


def _ignore(_directory: Path, _error: OSError) -> None:
    pass


def _ignore_flush(_took_ms: float) -> None:
    pass


class Checkpoints(Protocol):
    """The checkpoints of the log directories, for logs that are truncated."""

    def checkpoint_truncated(self, log: "UnifiedLog") -> bool:
        """Lower the checkpoints to the offsets of a log, if need be; returns whether that succeeded.

        A log calls this before the first append after a truncation: recovery from an old recovery point would take the new records
        for flushed. So one checkpoint serves many logs that are truncated one after the other.
        """

    def checkpoint_start(self, log: "UnifiedLog") -> None:
        """Write the log start offsets, unless the log's is in the checkpoint already.

        A log calls this after a truncation, which rebuilds the producer state from there: with an older start, the state would lack
        the earlier records.
        """


class NoCheckpoints:
    """The checkpoints of a log that is in no log directory."""

    def checkpoint_truncated(self, log: "UnifiedLog") -> bool:
        return True

    def checkpoint_start(self, log: "UnifiedLog") -> None: ...


_NO_CHECKPOINTS = NoCheckpoints()


class LogEnvironment:
    """Clock, scheduler and callbacks.

    ``on_storage_failure`` gets the log directory and the error, before the failed operation raises KafkaStorageError.
    ``on_flush_ms`` gets the duration of a flush.
    ``sync_names`` makes the names of the logs in a log directory durable; a log calls it at its first flush.
    ``producers`` are the settings of producer states; its expiration may change.
    """

    __slots__ = (
        "checkpoints",
        "clock",
        "on_flush_ms",
        "on_storage_failure",
        "producers",
        "scheduler",
        "sync_names",
    )

    def __init__(
        self,
        clock: IClock,
        scheduler: IScheduler,
        *,
        on_storage_failure: Callable[[Path, OSError], None] = _ignore,
        producers: ProducerStateManagerConfig | None = None,
        on_flush_ms: Callable[[float], None] = _ignore_flush,
        checkpoints: Checkpoints = _NO_CHECKPOINTS,
        sync_names: Callable[[Path], None] = sync_directory,
    ) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.on_storage_failure = on_storage_failure
        self.on_flush_ms = on_flush_ms
        self.checkpoints = checkpoints
        self.sync_names = sync_names
        self.producers = producers or ProducerStateManagerConfig()
