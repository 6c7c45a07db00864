"""One partition's place in the runtime: its shard, its lock, and what it owes the world."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Any

from twisted.logger import Logger

from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()


class SlotState(Enum):
    """Whether a partition's shard may be asked."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Slot:
    """A shard under its lock.

    ``post`` never blocks: whoever holds the lock, perhaps the caller itself further up its stack, runs the action before
    or just after it lets go. So an append may complete on any thread, even one in the middle of another operation.
    """

    __slots__ = ("_mailbox", "_now_ns", "busy_ns", "effects", "leader_epoch", "lock", "partition", "shard", "state", "uncommitted")

    def __init__(self, partition: TopicPartition, leader_epoch: int, now_ns: Callable[[], int]) -> None:
        self.partition = partition
        self.busy_ns = 0
        """How long operations and posted actions have run; counted by whoever holds the lock."""
        self._now_ns = now_ns
        self.leader_epoch = leader_epoch
        self.state = SlotState.LOADING
        self.lock = threading.Lock()
        self.effects: Effects = None  # type: ignore[assignment]  # the runtime sets these two at once: they need the slot
        self.shard: Any = None
        self.uncommitted: Future[Any] | None = None
        self._mailbox: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        """How many posted actions wait for the lock."""
        return len(self._mailbox)

    def post(self, action: Callable[[], None]) -> None:
        """Have ``action`` run with the lock held, now or when the present holder lets go."""
        self._mailbox.append(action)
        self.settle()

    def settle(self) -> None:
        """Run what was posted and send the replies; called without the lock, after each time that it was held."""
        while True:
            while self._mailbox and self.lock.acquire(blocking=False):
                try:
                    while self._mailbox:
                        self._run_one(self._mailbox.popleft())
                finally:
                    self.lock.release()
            replies = self.effects.replies
            if not replies:
                if self._mailbox and not self.lock.locked():
                    continue
                return
            while replies:
                try:
                    parked, result = replies.popleft()
                except IndexError:  # another thread sends them too
                    break
                if not parked.done():
                    parked.set_result(result)

    def _run_one(self, action: Callable[[], None]) -> None:
        began_ns = self._now_ns()
        try:
            action()
        except Exception:  # noqa: BLE001 whoever happens to hold the lock has nothing to do with this action
            _log.failure("an action on {partition} failed", partition=self.partition)
        finally:
            self.busy_ns += self._now_ns() - began_ns
