"""StatePersister: routes requests for share partitions' states to the share coordinators (Kafka: DefaultStatePersister).

This broker's coordinator is called in process, the others with requests. What a coordinator cannot answer because it moves,
loads or is away is asked again after a while, wherever the coordinator is then.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.compiler.wire import EncodeError
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedVersionError, error_class, error_of
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC, TopicPartition
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.share_partition_key import coordinator_key
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_log = Logger()

FIRST_BACKOFF_MS: Final = 100
"""How long until the first repetition; twice as long after each further one."""
MAX_BACKOFF_MS: Final = 5_000
MAX_ATTEMPTS: Final = 8
"""Attempts before the last error is the answer: some 12 seconds."""
MAX_WAITING: Final = 100_000
"""Share partitions that wait for an answer at a time; more are refused with COORDINATOR_NOT_AVAILABLE."""

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class _Kind(NamedTuple):
    """One of the five APIs: the classes of its messages, and the method of this broker's coordinator."""

    request: Callable[..., Any]
    asked_topic: Callable[..., Any]
    response: Callable[..., Any]
    topic: Callable[..., Any]
    result: Callable[..., Any]
    local: Callable[[ShareCoordinator, Any], Any]


_INITIALIZE: Final = _Kind(
    wire.InitializeShareGroupStateRequest,
    wire.InitializeStateData,
    wire.InitializeShareGroupStateResponse,
    wire.InitializeStateResult,
    wire.InitializeShareGroupStateResponsePartitionResult,
    ShareCoordinator.initialize_state,
)
_READ: Final = _Kind(
    wire.ReadShareGroupStateRequest,
    wire.ReadStateData,
    wire.ReadShareGroupStateResponse,
    wire.ReadStateResult,
    wire.ReadShareGroupStateResponsePartitionResult,
    ShareCoordinator.read_state,
)
_WRITE: Final = _Kind(
    wire.WriteShareGroupStateRequest,
    wire.WriteStateData,
    wire.WriteShareGroupStateResponse,
    wire.WriteStateResult,
    wire.WriteShareGroupStateResponsePartitionResult,
    ShareCoordinator.write_state,
)
_DELETE: Final = _Kind(
    wire.DeleteShareGroupStateRequest,
    wire.DeleteStateData,
    wire.DeleteShareGroupStateResponse,
    wire.DeleteStateResult,
    wire.DeleteShareGroupStateResponsePartitionResult,
    ShareCoordinator.delete_state,
)
_SUMMARY: Final = _Kind(
    wire.ReadShareGroupStateSummaryRequest,
    wire.ReadStateSummaryData,
    wire.ReadShareGroupStateSummaryResponse,
    wire.ReadStateSummaryResult,
    wire.ReadShareGroupStateSummaryResponsePartitionResult,
    ShareCoordinator.read_state_summary,
)


class _Item(NamedTuple):
    """One share partition of a call: its position in the request, its topic id and its part of the request."""

    position: int
    topic_id: bytes
    asked: Any


class _Call:
    """A call, and the results that it has so far."""

    __slots__ = ("answer", "group_id", "items", "kind", "left", "results", "topics")

    def __init__(self, kind: _Kind, request: Any) -> None:
        self.kind = kind
        self.group_id: str = request.group_id
        self.topics: list[tuple[bytes, int]] = [(topic.topic_id, len(topic.partitions)) for topic in request.topics]
        asked = [(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
        self.items = [_Item(position, topic_id, each) for position, (topic_id, each) in enumerate(asked)]
        self.left = len(self.items)
        self.results: list[Any] = [None] * self.left
        self.answer: Future[Any] = Future()

    def request(self, items: Sequence[_Item]) -> Any:
        """Return the request for some of the share partitions."""
        topics: dict[bytes, Any] = {}
        for item in items:
            topic = topics.get(item.topic_id)
            if topic is None:
                topic = topics[item.topic_id] = self.kind.asked_topic(topic_id=item.topic_id, partitions=[])
            topic.partitions.append(item.asked)
        return self.kind.request(group_id=self.group_id, topics=list(topics.values()))

    def failed(self, item: _Item, error: ErrorCode) -> Any:
        """Return a share partition's result with an error."""
        message = error_class(error).general_message
        return self.kind.result(partition=item.asked.partition, error_code=error, error_message=message)

    def response(self) -> Any:
        """Return the response, when all results are there."""
        results = iter(self.results)
        return self.kind.response(
            results=[
                self.kind.topic(topic_id=topic_id, partitions=[next(results) for _ in range(count)])
                for topic_id, count in self.topics
            ]
        )


class StatePersister(IPersister):
    """The share coordinators, wherever they are; see IPersister."""

    def __init__(
        self,
        coordinator: ShareCoordinator,
        metadata: MetadataCache,
        listener_name: str,
        client: IBrokerClient,
        threads: OtherThreads,
        clock: IClock,
        create_topic: Callable[[], object],
    ) -> None:
        """``client`` sends to the brokers' end points of this listener. ``create_topic`` begins to create the internal topic."""
        self._coordinator = coordinator
        self._metadata = metadata
        self._listener_name = listener_name
        self._client = client
        self._threads = threads
        self._create_topic = create_topic
        self._lock = machine.Lock()
        self._calls: dict[_Call, None] = {}
        self._waiting = 0
        self._is_stopped = False
        self._failures = LogRateLimit(clock.monotonic_ns)

    @override
    def initialize_state(self, request: wire.InitializeShareGroupStateRequest) -> "Future[wire.InitializeShareGroupStateResponse]":
        return self._call(_INITIALIZE, request)

    @override
    def read_state(self, request: wire.ReadShareGroupStateRequest) -> "Future[wire.ReadShareGroupStateResponse]":
        return self._call(_READ, request)

    @override
    def write_state(self, request: wire.WriteShareGroupStateRequest) -> "Future[wire.WriteShareGroupStateResponse]":
        return self._call(_WRITE, request)

    @override
    def delete_state(self, request: wire.DeleteShareGroupStateRequest) -> "Future[wire.DeleteShareGroupStateResponse]":
        return self._call(_DELETE, request)

    @override
    def read_state_summary(
        self, request: wire.ReadShareGroupStateSummaryRequest
    ) -> "Future[wire.ReadShareGroupStateSummaryResponse]":
        return self._call(_SUMMARY, request)

    def shutdown(self) -> None:
        """Answer what waits with COORDINATOR_NOT_AVAILABLE, and all later calls."""
        with self._lock:
            self._is_stopped = True
            calls, self._calls = list(self._calls), {}
        for call in calls:
            for item in call.items:
                if call.results[item.position] is None:
                    call.results[item.position] = call.failed(item, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            call.answer.set_result(call.response())

    def _call(self, kind: _Kind, request: Any) -> "Future[Any]":
        call = _Call(kind, request)
        items = call.items
        with self._lock:
            is_refused = self._is_stopped or self._waiting + len(items) > MAX_WAITING
            if not is_refused and items:
                self._calls[call] = None
                self._waiting += len(items)
        if is_refused or not items:
            call.results = [call.failed(item, ErrorCode.COORDINATOR_NOT_AVAILABLE) for item in items]
            call.answer.set_result(call.response())
        else:
            self._attempt(call, items, 1)
        return call.answer

    def _attempt(self, call: _Call, items: Sequence[_Item], attempt: int) -> None:
        """Ask for some share partitions of a call."""
        if self._is_stopped:
            return  # the call is answered
        by_leader: dict[int, list[_Item]] = {}
        for item in items:
            by_leader.setdefault(self._leader_of(call, item), []).append(item)
        for leader, its_items in by_leader.items():
            answered = partial(self._answered, call, its_items, attempt)
            try:
                self._ask(leader, call, its_items, answered)
            except Exception:  # noqa: BLE001 records whose change is never answered are lost to their group
                _log.failure("Cannot ask for the states of share partitions of group {group}", group=call.group_id[:100])
                answered([call.failed(item, ErrorCode.UNKNOWN_SERVER_ERROR) for item in its_items])

    def _ask(self, leader: int, call: _Call, items: Sequence[_Item], answered: Callable[[list[Any]], None]) -> None:
        if leader == self._metadata.broker_id:
            self._ask_here(call, items, answered)
            return
        node = self._metadata.node(leader, self._listener_name)
        if node is None:
            self._ask_nobody(call, items, answered)
        else:
            self._ask_elsewhere(node, call, items, answered)

    def _leader_of(self, call: _Call, item: _Item) -> int:
        key = coordinator_key(call.group_id, item.topic_id, item.asked.partition)
        state = self._metadata.partition(TopicPartition(SHARE_TOPIC, self._coordinator.partition_for(key)))
        return -1 if state is None else state.leader

    def _ask_here(self, call: _Call, items: Sequence[_Item], answered: Callable[[list[Any]], None]) -> None:
        response = call.kind.local(self._coordinator, call.request(items))
        if isinstance(response, Future):
            response.add_done_callback(lambda done: answered(_results(call, items, done)))
        else:
            answered(_matched(call, items, response))

    def _ask_elsewhere(self, node: Node, call: _Call, items: Sequence[_Item], answered: Callable[[list[Any]], None]) -> None:
        def done(finished: "Future[Any]") -> None:
            failure = finished.exception()
            if failure is not None and self._failures.allow():
                _log.warn(
                    "Broker {id} did not answer as share coordinator: {failure}{more}",
                    id=node.id,
                    failure=failure,
                    more=self._failures.take_suppressed(),
                )
            self._threads.later(lambda: answered(_results(call, items, finished)))

        self._client.send(node, call.request(items)).add_done_callback(done)

    def _ask_nobody(self, call: _Call, items: Sequence[_Item], answered: Callable[[list[Any]], None]) -> None:
        if not self._metadata.contains(SHARE_TOPIC):
            try:
                self._create_topic()
            except Exception:  # noqa: BLE001 it is tried again with the next attempt
                _log.failure("Cannot begin to create {topic}", topic=SHARE_TOPIC)
        answered([call.failed(item, ErrorCode.COORDINATOR_NOT_AVAILABLE) for item in items])

    def _answered(self, call: _Call, items: Sequence[_Item], attempt: int, results: list[Any]) -> None:
        """Keep the results; ask again for share partitions that may be answered later."""
        again = []
        with self._lock:
            for item, result in zip(items, results, strict=True):
                if result.error_code in _RETRIABLE and attempt < MAX_ATTEMPTS:
                    again.append(item)
                    continue
                call.results[item.position] = result
                call.left -= 1
                self._waiting -= 1
            is_done = call.left == 0 and self._calls.pop(call, self) is None
        if again:
            delay_ms = min(FIRST_BACKOFF_MS << (attempt - 1), MAX_BACKOFF_MS)
            self._threads.timer.add(delay_ms, partial(self._attempt, call, again, attempt + 1))
        elif is_done:
            call.answer.set_result(call.response())


def _results(call: _Call, items: Sequence[_Item], finished: "Future[Any]") -> list[Any]:
    """Return the results of a response, or the errors that stand for the failure of one."""
    failure = finished.exception()
    if failure is None:
        return _matched(call, items, finished.result())
    return [call.failed(item, _error_of(failure)) for item in items]


def _error_of(failure: BaseException) -> ErrorCode:
    from twisted_kafka.client.errors import AuthenticationError  # loaded when there are other brokers

    if isinstance(failure, UnsupportedVersionError | EncodeError):
        return ErrorCode.UNSUPPORTED_VERSION
    if isinstance(failure, AuthenticationError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    code = error_of(failure)
    return ErrorCode.NETWORK_EXCEPTION if code is ErrorCode.UNKNOWN_SERVER_ERROR else code


def _matched(call: _Call, items: Sequence[_Item], response: Any) -> list[Any]:
    """Return the results in the order of the items."""
    found = {(topic.topic_id, result.partition): result for topic in response.results for result in topic.partitions}
    return [found.get((item.topic_id, item.asked.partition)) or call.failed(item, ErrorCode.UNKNOWN_SERVER_ERROR) for item in items]
