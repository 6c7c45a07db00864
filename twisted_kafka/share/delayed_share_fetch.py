"""A ShareFetch that waits until there is something to acquire (Kafka: DelayedShareFetch)."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.share.in_flight_records import Acquired
from twisted_kafka.share.share_partition import OK, Result
from twisted_kafka.waiting.purgatory import DelayedOperation


class ShareFetchParams(NamedTuple):
    """The parameters of a ShareFetch that hold for all its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_record_limit: bool
    """Whether ``max_records`` is a strict limit (KIP-1206)."""

    @property
    def may_wait(self) -> bool:
        """Whether the answer may wait for records."""
        return self.max_wait_ms > 0 and self.min_bytes > 0


class Fetched(NamedTuple):
    """What was acquired of a partition: its records, which may not be read from the file yet, or an error."""

    result: Result = OK
    records: Buffer | FileRegion = b""
    acquired: tuple[Acquired, ...] = ()
    is_tried: bool = True
    """Whether the fetch looked at the partition. If it did not, a later one does."""


FIRST_LOOK: Final = "first look"
UNCHANGED: Final = "unchanged"
"""In place of the key of a changed partition: a fetch looks at all of them, or at those in which it found some bytes."""


class ShareFetchAnswer(Future[list[Fetched]]):
    """The result of a ShareFetch that waits. ``give_up`` ends the wait: the client has gone. None if the wait has ended."""

    def __init__(self, give_up: Callable[[], object]) -> None:
        super().__init__()
        self.give_up: Callable[[], object] | None = give_up


class DelayedShareFetch(DelayedOperation):
    """Waits for ``min_bytes`` bytes that can be acquired, or an error of a partition.

    It looks at all partitions once. A change of a partition lets it look at that partition again, and at those in which it found
    some bytes before.
    """

    __slots__ = ("_acquire", "_fetched", "_is_given_up", "_is_watched", "future", "on_expired")

    def __init__(
        self,
        params: ShareFetchParams,
        acquire: Callable[[bool, Hashable], list[Fetched] | None],
        on_expired: Callable[[], object],
    ) -> None:
        """``acquire`` returns None if there is not enough.

        Its first argument is whether any amount is enough, its second one the key that has changed, FIRST_LOOK or UNCHANGED.
        """
        super().__init__(params.max_wait_ms)
        self._acquire = acquire
        self._fetched: list[Fetched] | None = None
        self._is_given_up = False
        self._is_watched = False
        self.on_expired = on_expired
        self.future = ShareFetchAnswer(self.give_up)

    @override
    def try_complete(self) -> bool:
        """Complete when there is enough."""
        if not self._is_watched:
            # The purgatory asks once before it watches and once after. A change after the second look will be announced.
            self._is_watched = True
            return False
        return self._complete_after(FIRST_LOOK)

    @override
    def check(self, key: Hashable) -> bool:
        """Complete when there is enough after a change of a partition or share partition."""
        with self._lock:
            return bool(self._pending) and self._complete_after(key)

    def _complete_after(self, changed: Hashable) -> bool:
        self._fetched = self._acquire(False, changed)
        # If it has expired meanwhile, that thread waits for the lock, and answers with these records.
        return self._fetched is not None and self.force_complete()

    def give_up(self) -> None:
        """End the wait without acquiring anything."""
        self._is_given_up = True
        self.force_complete()

    @override
    def on_complete(self) -> None:
        """Resolve the future, with as much as there is."""
        with self._lock:
            fetched = self._fetched
            try:
                if fetched is None:
                    fetched = [] if self._is_given_up else self._acquire(True, UNCHANGED)
            except Exception as error:  # noqa: BLE001 the future carries it to the handler, which answers and logs it
                self.future.give_up = None
                self.future.set_exception(error)
                return
        self.future.give_up = None  # a reference to this
        self.future.set_result(fetched or [])

    @override
    def on_expiration(self) -> None:
        """Count the expiration."""
        self.on_expired()
