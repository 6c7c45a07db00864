"""What the logs of one broker share."""

from collections.abc import Callable
from pathlib import Path

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
    """Clock, scheduler, and whom to tell when a disk fails.

    ``on_storage_failure`` is given the log's directory and the error, before the operation that met it raises KafkaStorageError;
    ``on_flush_ms`` how long a flush took. ``on_truncated`` writes the recovery points of the directory
    before it returns: a recovery from an old one on would take what is appended from now on for flushed.
    ``are_transactions_verified`` says whether a leader's append that begins a transaction must show a VerificationGuard (KIP-890).
    """

    __slots__ = (
        "are_transactions_verified",
        "clock",
        "on_flush_ms",
        "on_storage_failure",
        "on_truncated",
        "producer_expiration_ms",
        "scheduler",
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
        are_transactions_verified: Callable[[], bool] = _never,
    ) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.on_storage_failure = on_storage_failure
        self.on_flush_ms = on_flush_ms
        self.on_truncated = on_truncated
        self.are_transactions_verified = are_transactions_verified
        self.producer_expiration_ms = producer_expiration_ms
