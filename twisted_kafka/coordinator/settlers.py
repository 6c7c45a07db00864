"""Threads of the scheduler that settle shards."""

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.system import machine
from twisted_kafka.system.threads import attempt
from twisted_kafka.timing.scheduler import IScheduler

if TYPE_CHECKING:
    from twisted_kafka.coordinator.runtime import CoordinatorContext

S = TypeVar("S", bound=CoordinatorShard)

MAX_SETTLERS: Final = 2
"""The scheduler's threads that settle shards at the same time. An append to a stalled disk keeps a thread, and the scheduler has
other work to do."""


class Settlers(Generic[S]):
    """Settles shards, each once for any number of requests. Methods may be called on any thread, and do not block."""

    def __init__(self, name: str, scheduler: IScheduler) -> None:
        self._name = name
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._waiting: dict[CoordinatorContext[S], None] = {}
        self._busy = 0

    def settle(self, context: "CoordinatorContext[S]") -> bool:
        """Settle the context soon, on the scheduler; return False if the scheduler has been shut down."""
        with self._lock:
            self._waiting[context] = None
            if self._busy == MAX_SETTLERS:
                return True
            self._busy += 1
        if not self._scheduler.schedule_once(self._name, self._work).is_cancelled:
            return True
        with self._lock:
            self._busy -= 1
            self._waiting.pop(context, None)
        return False

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                context = next(iter(self._waiting))
                del self._waiting[context]
            attempt(context.settle, f"the operations that wait for {context.partition}")
