"""Operations that wait until the controller has changed topics (Kafka: ``DelayedCreatePartitions``, ``DelayedDeleteTopics``)."""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperation, DelayedOperationPurgatory


class Waiting(Protocol):
    """The result for a topic that is waited for."""

    name: str
    error: ErrorCode
    message: str | None


_R = TypeVar("_R", bound=Waiting)


class _Wait(DelayedOperation, Generic[_R]):
    """Waits until ``is_done`` is true for all topics, then completes the future with the results."""

    __slots__ = ("_future", "_is_done", "_results", "_waiting")

    def __init__(
        self, is_done: Callable[[str], bool], waiting: Iterable[_R], results: list[_R], future: "Future[list[_R]]", delay_ms: float
    ) -> None:
        super().__init__(delay_ms)
        self._is_done = is_done
        self._waiting: dict[Hashable, list[_R]] = {}
        """The results by their topics: some requests have very many results for each."""
        for each in waiting:
            self._waiting.setdefault(each.name, []).append(each)
        self._results = results
        self._future = future

    @override
    def try_complete(self) -> bool:
        return self._check(list(self._waiting))

    @override
    def check(self, key: Hashable) -> bool:
        # A change of many topics, one by one, would otherwise check all that wait each time.
        with self._lock:
            return not self.is_completed and self._check([key])

    def _check(self, topics: Iterable[Hashable]) -> bool:
        # What was done once counts, even if it has been undone since: it is not checked again.
        for topic in topics:
            if topic in self._waiting and self._is_done(self._waiting[topic][0].name):
                del self._waiting[topic]
        return not self._waiting and self.force_complete()

    @override
    def on_complete(self) -> None:
        for each in itertools.chain.from_iterable(self._waiting.values()):
            each.error = ErrorCode.REQUEST_TIMED_OUT
            each.message = None
        self._future.set_result(self._results)


class TopicWaits:
    """Operations that wait for topics, checked when the metadata cache or the controller reports a change."""

    def __init__(self, metadata: MetadataCache, clock: IClock, timer: Timer) -> None:
        self._purgatory = DelayedOperationPurgatory("topic", clock, timer)
        metadata.add_listener(self.topics_changed)

    def topics_changed(self, topics: Collection[str]) -> None:
        """Check the operations that wait for these topics."""
        if self._purgatory.num_delayed:
            for topic in topics:
                self._purgatory.check_and_complete(topic)

    def until(
        self, is_done: Callable[[str], bool], waiting: Sequence[_R], results: list[_R], timeout_ms: int
    ) -> "Future[list[_R]]":
        """Return a future of ``results``, done when ``is_done`` is true for all topics in ``waiting``, or after the timeout.

        Unfinished topics get REQUEST_TIMED_OUT then; at once if the timeout is 0 or less.
        """
        future: Future[list[_R]] = Future()
        operation = _Wait(is_done, waiting, results, future, timeout_ms)
        if not waiting or timeout_ms <= 0:
            operation.force_complete()
        else:
            self._purgatory.try_complete_else_watch(operation, list(dict.fromkeys(each.name for each in waiting)))
        return future

    def shutdown(self) -> None:
        """Drop all waiting operations."""
        self._purgatory.shutdown()
