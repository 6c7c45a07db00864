"""Creates the internal topics of streams groups, which their coordinators find missing (Kafka: AutoTopicCreationManager)."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.admin.topic_orders import NewTopic, TopicResult
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuota
from twisted_kafka.system import machine
from twisted_kafka.system.bounded import BoundedCache
from twisted_kafka.system.client_text import bounded_text, printable
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

_log = Logger()

MOST_BYTES: Final = 1 << 20
"""The most memory for errors that are remembered."""

MOST_AT_ONCE: Final = 10_000
"""Most topics that wait for their creation; a later heartbeat asks for the others."""

_NS_PER_MS: Final = 1_000_000


class _Failure(NamedTuple):
    message: str
    until_ns: int


class StreamsTopics:
    """Creates topics, and does not try again for a while where that failed. Methods may be called on any thread.

    The metadata store may take long, so another thread creates the topics. The member's next heartbeats learn of a failure.
    """

    def __init__(self, topics: TopicManager, clock: IClock, scheduler: IScheduler) -> None:
        self._topics = topics
        self._clock = clock
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._creating: set[str] = set()
        self._failures: BoundedCache[str, _Failure] = BoundedCache(
            MOST_BYTES, lambda name, failure: len(name) + len(failure.message)
        )

    def create(self, orders: Sequence[NewTopic], mutations: ControllerMutationQuota, retry_ms: int) -> dict[str, str]:
        """Begin to create topics; return the reasons by topic where that has failed in the last ``retry_ms``."""
        now_ns = self._clock.monotonic_ns()
        failed: dict[str, str] = {}
        due = []
        with self._lock:
            for order in orders:
                failure = self._failures.get(order.name)
                if failure is not None and now_ns < failure.until_ns:
                    failed[order.name] = failure.message
                elif order.name not in self._creating and len(self._creating) < MOST_AT_ONCE:
                    self._creating.add(order.name)
                    due.append(order)
        if due:
            self._scheduler.schedule_once("create-internal-topics", partial(self._create, due, mutations, retry_ms))
        return failed

    def _create(self, orders: Sequence[NewTopic], mutations: ControllerMutationQuota, retry_ms: int) -> None:
        try:
            results = self._created(orders, mutations)
            until_ns = self._clock.monotonic_ns() + retry_ms * _NS_PER_MS
            failed = []
            for result in results:
                if result.error:
                    failure = _Failure(result.message or result.error.name, until_ns)
                    self._failures.put(result.name, failure)
                    failed.append((result.name, failure.message))
                else:
                    self._failures.discard(result.name)
            if failed:
                _log_failed(failed)
        finally:
            with self._lock:
                self._creating.difference_update(order.name for order in orders)

    def _created(self, orders: Sequence[NewTopic], mutations: ControllerMutationQuota) -> list[TopicResult]:
        """Return a result for each order, also without the metadata store: the members' changes are stored elsewhere."""
        try:
            return self._topics.create_for_application(orders, mutations)
        except StoreError as error:
            message = f"the metadata store failed: {error}"
            return [TopicResult(order.name, ErrorCode.UNKNOWN_SERVER_ERROR, message) for order in orders]


def _log_failed(failed: Sequence[tuple[str, str]]) -> None:
    """Write one line for a group, whose topology may need very many topics."""
    topic, reason = failed[0]
    _log.warn(
        "Topic {topic!r} of a streams group cannot be created: {reason}{more}",
        topic=bounded_text(topic),
        reason=printable(bounded_text(reason)),
        more=f"; nor can {len(failed) - 1} other topics" if len(failed) > 1 else "",
    )
