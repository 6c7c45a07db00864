"""Threads of the scheduler that settle shards."""

from collections.abc import Callable
from typing import Final

from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.threads import attempt
from twisted_kafka.timing.scheduler import IScheduler

MAX_SETTLERS: Final = 2
"""The scheduler's threads that settle shards at the same time. An append to a stalled disk keeps a thread, and the scheduler has
other work to do."""


class Settlers:
    """Settles shards, each once for any number of requests. Methods may be called on any thread, and do not block."""

    def __init__(self, name: str, scheduler: IScheduler) -> None:
        self._name = name
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._waiting: dict[Callable[[], object], TopicPartition] = {}
        self._busy = 0

    def settle(self, settle: Callable[[], object], partition: TopicPartition) -> bool:
        """Call ``settle``, the method of the shard of ``partition``, soon on the scheduler.

        Returns False if the scheduler has been shut down.
        """
        with self._lock:
            self._waiting[settle] = partition
            if self._busy == MAX_SETTLERS:
                return True
            self._busy += 1
        if not self._scheduler.schedule_once(self._name, self._work).is_cancelled:
            return True
        with self._lock:
            self._busy -= 1
            self._waiting.pop(settle, None)
        return False

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                settle = next(iter(self._waiting))
                partition = self._waiting.pop(settle)
            attempt(settle, f"the operations that wait for {partition}")
