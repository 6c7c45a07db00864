"""Markers on their way to other brokers (Kafka: TransactionMarkerChannelManager).

Each broker has a queue and at most one WriteTxnMarkers request in flight. Markers added meanwhile go with the next request. A
marker that a broker does not confirm is answered with an error. The caller then looks up the leader again and retries.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from twisted.logger import Logger

from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.metadata.cache import BrokerInfo, MetadataCache, Node
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.errors import ErrorCode, error_code_of
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker

_log = Logger()

MAX_QUEUED_MARKERS: Final = 10_000
"""Markers that wait for one broker. Each is of another transaction; more are refused, and come again."""

MAX_QUEUED_PARTITIONS: Final = 1_000_000
"""Partitions of these markers, some 100 bytes each. A client chooses how many a transaction has; one marker may have any number."""

MAX_MARKERS: Final = 1_000
"""Markers in a request."""

MAX_PARTITIONS: Final = 10_000
"""A request with this many partitions gets no further markers."""


class _Queued:
    """A marker for partitions of one broker, and the future of its result."""

    __slots__ = ("answer", "marker", "topics")

    def __init__(self, marker: TransactionMarker) -> None:
        self.marker = marker
        self.topics = frozenset(partition.topic for partition in marker.partitions)
        self.answer: Future[MarkerErrors] = Future()

    def refuse(self, error: ErrorCode) -> None:
        self.answer.set_result(dict.fromkeys(self.marker.partitions, error))


class _BrokerQueue:
    """The markers for one broker."""

    __slots__ = ("_waiting", "broker_id", "partitions", "sent_to")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.sent_to: Node | None = None
        """The destination of the request in flight; None without a request."""
        self._waiting: deque[_Queued] = deque()
        self.partitions = 0
        """The number of partitions in the waiting markers."""

    @property
    def waiting(self) -> Sequence[_Queued]:
        """The markers for the next requests."""
        return self._waiting

    def add(self, one: _Queued) -> bool:
        """Add a marker; return False if there is no room for it."""
        count = len(one.marker.partitions)
        if self._waiting and (len(self._waiting) >= MAX_QUEUED_MARKERS or self.partitions + count > MAX_QUEUED_PARTITIONS):
            return False
        self._waiting.append(one)
        self.partitions += count
        return True

    def take(self) -> list[_Queued]:
        """Return the markers of the next request. The response names producers, so there is one marker for each."""
        taken: dict[int, _Queued] = {}
        later = []
        partitions = 0
        while self._waiting and len(taken) < MAX_MARKERS and partitions < MAX_PARTITIONS:
            one = self._waiting.popleft()
            producer_id = one.marker.producer.producer_id
            if producer_id in taken:
                later.append(one)
            else:
                taken[producer_id] = one
                partitions += len(one.marker.partitions)
        self._waiting.extendleft(reversed(later))
        self.partitions -= partitions
        return list(taken.values())

    def remove(self, some: Collection[_Queued]) -> None:
        """Take these markers out of the queue."""
        if some:
            gone = set(some)
            self._waiting = deque(each for each in self._waiting if each not in gone)
            self.partitions -= sum(len(each.marker.partitions) for each in gone)

    def remove_all(self) -> list[_Queued]:
        """Empty the queue and return its markers."""
        waiting, self._waiting = list(self._waiting), deque()
        self.partitions = 0
        return waiting


class MarkerChannels:
    """Makes other brokers write markers into partitions that they lead. Methods may be called on any thread."""

    def __init__(self, client: IBrokerClient, metadata: MetadataCache, listener_name: str, clock: IClock) -> None:
        """``client`` sends to the brokers' end points of this listener (``inter.broker.listener.name``)."""
        self._client = client
        self._metadata = metadata
        self._listener_name = listener_name
        self._lock = machine.Lock()
        self._queues: dict[int, _BrokerQueue] = {}
        self._leaderless: dict[_Queued, None] = {}
        """Markers for partitions without a leader, or whose leader has no known address."""
        self._failures = LogRateLimit(clock.monotonic_ns)
        self._brokers: Mapping[int, BrokerInfo] = {}
        """Those of the last metadata."""
        metadata.add_listener(self._metadata_changed)

    def write(self, broker_id: int, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        """Make a broker write a marker into all of its partitions; return their errors, or a future of them.

        If the broker has no known address (there may be no leader, -1), the answer is NOT_LEADER_OR_FOLLOWER once a leader has
        one. The error is NETWORK_EXCEPTION if there is no response, or too many markers wait for the broker.
        """
        queued = _Queued(marker)
        if self._node(broker_id) is None:
            with self._lock:
                self._leaderless[queued] = None
            self._look_for_leaders([queued])  # as the metadata may just have changed
            return queued.answer
        with self._lock:
            queue = self._queues.get(broker_id)
            if queue is None:
                queue = self._queues[broker_id] = _BrokerQueue(broker_id)
            if not queue.add(queued):
                return dict.fromkeys(marker.partitions, ErrorCode.NETWORK_EXCEPTION)
        self._send_next(queue)
        return queued.answer

    @property
    def leaderless(self) -> int:
        """Number of markers that wait for a leader to be known."""
        return len(self._leaderless)

    def _look_for_leaders(self, some: Sequence[_Queued]) -> None:
        """Repeat the requests whose partitions have got a leader, or are deleted."""
        reachable = [each for each in some if any(map(self._is_reachable, each.marker.partitions))]
        with self._lock:
            found = [each for each in reachable if self._leaderless.pop(each, self) is None]
        for each in found:
            each.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _is_reachable(self, partition: TopicPartition) -> bool:
        state = self._metadata.partition(partition)
        return state is None or state.leader == self._metadata.broker_id or self._node(state.leader) is not None

    def drop(self, log_partition: int, coordinator_epoch: int) -> None:
        """Forget the markers that wait and are of a coordinator that has resigned, in this epoch or before.

        Those in flight may still be written.
        """

        def is_dropped(one: _Queued) -> bool:
            return one.marker.log_partition == log_partition and one.marker.coordinator_epoch <= coordinator_epoch

        with self._lock:
            dropped = [each for each in self._leaderless if is_dropped(each)]
            for each in dropped:
                del self._leaderless[each]
        for queue in self._all_queues():
            with self._lock:
                of_queue = [each for each in queue.waiting if is_dropped(each)]
                queue.remove(of_queue)
            dropped.extend(of_queue)
        for each in dropped:
            each.refuse(ErrorCode.NOT_COORDINATOR)

    def _metadata_changed(self, topics: Collection[str]) -> None:
        """Answer the markers for brokers that no longer lead the partitions, or are elsewhere: they are sent again.

        A marker without a changed topic is not looked at, unless brokers have come, gone or moved.
        """
        brokers = self._metadata.snapshot.brokers
        has_other_brokers, self._brokers = brokers != self._brokers, brokers
        if self._leaderless:
            changed = [each for each in list(self._leaderless) if has_other_brokers or not each.topics.isdisjoint(topics)]
            self._look_for_leaders(changed)
        for queue in self._all_queues():
            broker_id = queue.broker_id
            with self._lock:
                is_gone = self._is_gone(queue)
                changed = [each for each in queue.waiting if is_gone or not each.topics.isdisjoint(topics)]
                moved = [each for each in changed if is_gone or not self._is_led(each.marker.partitions, broker_id)]
                queue.remove(moved)
            for each in moved:
                each.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if is_gone:
                self._client.disconnect(broker_id)

    def _node(self, broker_id: int) -> Node | None:
        return self._metadata.node(broker_id, self._listener_name)

    def _is_gone(self, queue: _BrokerQueue) -> bool:
        """Whether there is a request in flight to an address that the broker no longer has."""
        return queue.sent_to is not None and queue.sent_to != self._node(queue.broker_id)

    def _is_led(self, partitions: Collection[TopicPartition], broker_id: int) -> bool:
        states = [self._metadata.partition(each) for each in partitions]
        return all(state is not None and state.leader == broker_id for state in states)

    def _all_queues(self) -> list[_BrokerQueue]:
        with self._lock:
            return list(self._queues.values())

    def _send_next(self, queue: _BrokerQueue) -> None:
        """Send what waits for a broker, unless a request is in flight: this is called again when that is answered."""
        while True:  # requests that fail at once, as when this broker stops, are no calls within calls
            with self._lock:
                if queue.sent_to is not None or not queue.waiting:
                    return
                node = self._node(queue.broker_id)  # not where it was when they came
                sent = queue.remove_all() if node is None else queue.take()
                queue.sent_to = node
            if node is None:
                for each in sent:
                    each.refuse(ErrorCode.LEADER_NOT_AVAILABLE)
                return
            done = self._client.send(node, WriteTxnMarkersRequest(markers=[_marker(each.marker) for each in sent]))
            if not done.done():
                if self._node(queue.broker_id) != node:  # changed just before the send, with nothing to disconnect
                    self._client.disconnect(queue.broker_id)
                done.add_done_callback(partial(self._answered, queue, sent))
                return
            queue.sent_to = None
            self._answer(queue, sent, done)

    def _answered(self, queue: _BrokerQueue, sent: Sequence[_Queued], done: "Future[WriteTxnMarkersResponse]") -> None:
        queue.sent_to = None
        self._send_next(queue)
        self._answer(queue, sent, done)

    def _answer(self, queue: _BrokerQueue, sent: Sequence[_Queued], done: "Future[WriteTxnMarkersResponse]") -> None:
        """Complete a request's markers with their results."""
        failure = done.exception()
        if failure is None:
            answers = _errors(done.result())
        else:
            answers = {}
            if self._failures.allow():
                _log.warn(
                    "No response to {n} transaction markers from broker {id}, which are sent again: {failure}{more}",
                    n=len(sent),
                    id=queue.broker_id,
                    failure=failure,
                    more=self._failures.take_suppressed(),
                )
        missing = ErrorCode.UNKNOWN_SERVER_ERROR if failure is None else ErrorCode.NETWORK_EXCEPTION
        for each in sent:
            found = answers.get(each.marker.producer.producer_id, {})
            each.answer.set_result({partition: found.get(partition, missing) for partition in each.marker.partitions})


def _marker(marker: TransactionMarker) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(marker.partitions):
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.epoch,
        transaction_result=marker.committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _errors(response: WriteTxnMarkersResponse) -> dict[int, MarkerErrors]:
    """Return the errors by producer id."""
    found: dict[int, MarkerErrors] = {}
    for marker in response.markers:
        errors = found.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for result in topic.partitions:
                errors[TopicPartition(topic.name, result.partition_index)] = error_code_of(result.error_code)
    return found
