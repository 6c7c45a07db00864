"""The context that the logs of one broker share."""

from collections.abc import Callable
from pathlib import Path

from twisted_kafka.log.files import sync_directory
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000


def _ignore(_directory: Path, _error: OSError) -> None:
    pass


def _ignore_flush(_took_ms: float) -> None:
    pass


def _never() -> bool:
    return False


def _ignore_truncation(_directory: Path) -> None:
    pass


class LogEnvironment:
    """Clock, scheduler and callbacks.

    ``on_storage_failure`` gets the log directory and the error, before the failed operation raises KafkaStorageError.
    ``on_flush_ms`` gets the duration of a flush. ``on_truncated`` writes the recovery points of the log directory before it
    returns: recovery from an old one would take records that are appended from now on for flushed.
    ``sync_names`` makes the names of the logs in a log directory durable; a log calls it at its first flush.
    ``are_transactions_verified`` returns whether a leader's append that begins a transaction needs a VerificationGuard (KIP-890).
    """

    __slots__ = (
        "are_transactions_verified",
        "clock",
        "on_flush_ms",
        "on_storage_failure",
        "on_truncated",
        "producer_expiration_ms",
        "scheduler",
        "sync_names",
    )

    def __init__(
        self,
        clock: IClock,
        scheduler: IScheduler,
        *,
        on_storage_failure: Callable[[Path, OSError], None] = _ignore,
        producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
        on_flush_ms: Callable[[float], None] = _ignore_flush,
        on_truncated: Callable[[Path], None] = _ignore_truncation,
        sync_names: Callable[[Path], None] = sync_directory,
        are_transactions_verified: Callable[[], bool] = _never,
    ) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.on_storage_failure = on_storage_failure
        self.on_flush_ms = on_flush_ms
        self.on_truncated = on_truncated
        self.sync_names = sync_names
        self.are_transactions_verified = are_transactions_verified
        self.producer_expiration_ms = producer_expiration_ms
