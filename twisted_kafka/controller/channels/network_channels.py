"""The controller's channels to all brokers, its own included (Kafka: ``ControllerChannelManager``, with its ``RequestSendThread``).

Each broker has a queue, and one request at a time in flight: what the controller decides arrives in that order. A request without
a response is sent again until there is one, or until the broker is gone.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

from twisted.logger import Logger

from twisted_kafka.controller.channels.interfaces import ControlRequest, OnResponse
from twisted_kafka.controller.channels.request_shapes import ShapedRequest
from twisted_kafka.metadata.cache import Node
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import BrokerNode, EndPointText
from twisted_kafka.metrics.instruments import Histogram
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer

_log = Logger()

RETRY_BACKOFF_MS: Final = 100
"""The pause before a request without an answer is sent again."""

MAX_QUEUED: Final = 10_000
"""Most requests that wait for one broker. Beyond it, all are dropped, and the broker gets the whole state again."""

MAX_QUEUED_STATES: Final = 200_000
"""Most states of partitions in these requests, each about half a kilobyte, unless a few requests have more: what the broker gets
in place of them has the states of all partitions, perhaps twice."""

WHOLE_STATES: Final = 4
"""So many requests like the largest one may wait in any case."""

_METRICS: Final = "ControllerChannelManager"
_MS_PER_NS: Final = 1e-6


class IControlClient(Protocol):
    """Sends the controller's requests (implemented by ``InterBrokerClient`` and ``ControlClients``)."""

    def send(self, node: Node, request: ShapedRequest, latest_version: int) -> "Future[Any]":
        """Return a future of the response; nothing is sent twice."""

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to a broker, and fail the requests to it."""


class _Queued:
    """A request that waits for one broker, or is in flight."""

    __slots__ = ("on_response", "queued_ns", "request", "states")

    def __init__(self, request: ControlRequest | None, on_response: OnResponse | None, queued_ns: int) -> None:
        """Without a request, ``on_response`` is called when it is its turn."""
        self.request = request
        self.states = 0
        if request is not None:
            for topic in request.topic_states:
                self.states += len(topic.partition_states)
        self.on_response = on_response
        self.queued_ns = queued_ns


class _Channel:
    """The queue of one broker."""

    __slots__ = ("broker_id", "in_flight", "is_closed", "node", "queue_times", "states", "waiting")

    def __init__(self, broker_id: int, queue_times: Histogram) -> None:
        self.broker_id = broker_id
        self.node: Node | None = None
        """None if the broker does not have the listener."""
        self.waiting: deque[_Queued] = deque()
        self.states = 0
        """The number of states of partitions in the waiting requests."""
        self.in_flight: _Queued | None = None
        self.is_closed = False
        self.queue_times = queue_times

    def has_only_whole_states(self, queued: _Queued) -> bool:
        """Return whether there are not many more states with this request than in a few of the largest."""
        return self.states + queued.states <= WHOLE_STATES * max(each.states for each in (*self.waiting, queued))

    def drop(self) -> list[_Queued]:
        """Drop the waiting requests, and return them."""
        dropped = list(self.waiting)
        self.waiting.clear()
        self.states = 0
        return dropped


class NetworkChannels:
    """A channel to each broker. Methods may be called on any thread."""

    def __init__(
        self,
        client: IControlClient,
        latest_versions: dict[type[Message], int],
        own: Node,
        listener_name: str,
        retries: Timer,
        clock: IClock,
        metrics: MetricsRegistry,
    ) -> None:
        """``own`` is this broker, which needs no listener. ``listener_name`` is the others', for the controller or brokers."""
        self._own = own
        self._client = client
        self._latest_versions = latest_versions
        self._listener_name = listener_name
        self._retries = retries
        self._clock = clock
        self._metrics = metrics
        self._lock = machine.Lock()
        self._channels: dict[int, _Channel] = {}
        self._failures = LogRateLimit(clock.monotonic_ns)
        self._on_overflow: Callable[[int], None] | None = None
        metrics.gauge(_METRICS, "TotalQueueSize", lambda: sum(len(each.waiting) for each in list(self._channels.values())))

    def set_overflow_listener(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with a broker's id when its requests were dropped, as it has not answered for too long."""
        self._on_overflow = listener

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse | None) -> None:
        """Send a request behind those sent before. ``on_response`` is called, on any thread, if a response arrives."""
        queued = _Queued(request, on_response, self._clock.monotonic_ns())
        with self._lock:
            channel = self._channels.get(broker_id)
            if channel is None:
                _log.warn("Dropping a request to broker {broker}: it is not registered", broker=broker_id)
                return
            is_full = len(channel.waiting) >= MAX_QUEUED or (
                channel.states + queued.states > MAX_QUEUED_STATES and not channel.has_only_whole_states(queued)
            )
            dropped = channel.drop() if is_full else []
            if not is_full:
                channel.waiting.append(queued)
                channel.states += queued.states
        if is_full:
            _tell(dropped)
            _log.error("Broker {broker} does not answer: dropping its {n} requests", broker=broker_id, n=len(dropped))
            if self._on_overflow is not None:
                self._on_overflow(broker_id)
            return
        self._send_next(channel)

    def drained(self, broker_id: int) -> "Future[None]":
        """Return a future that is done when a broker has answered all requests up to now, or is gone."""
        answered: Future[None] = Future()
        with self._lock:
            channel = self._channels.get(broker_id)
            if channel is not None:
                channel.waiting.append(_Queued(None, lambda _: answered.set_result(None), self._clock.monotonic_ns()))
        if channel is None:
            answered.set_result(None)
        else:
            self._send_next(channel)
        return answered

    def add_broker(self, broker_id: int, node: BrokerNode) -> None:
        """Make a channel, which connects for its first request. An existing channel uses the new address from now on."""
        address = self._address(broker_id, node)
        if address is None:
            _log.error("Broker {broker} has no listener {name}", broker=broker_id, name=self._listener_name)
        with self._lock:
            channel = self._channels.get(broker_id)
            is_new = channel is None
            if channel is None:
                tags = {"broker-id": broker_id}
                queue_times = self._metrics.add(Histogram(_MS_PER_NS), _METRICS, "RequestRateAndQueueTimeMs", **tags)
                channel = self._channels[broker_id] = _Channel(broker_id, queue_times)
                waiting = channel.waiting
                self._metrics.gauge(_METRICS, "QueueSize", lambda: len(waiting), **tags)
            is_elsewhere = channel.node not in (None, address)
            channel.node = address
        if is_elsewhere and not is_new:
            self._client.disconnect(broker_id)  # the request in flight fails, and is sent to the new address

    def remove_broker(self, broker_id: int) -> None:
        """Drop the channel and its requests."""
        with self._lock:
            channel = self._channels.pop(broker_id, None)
            if channel is None:
                return
            channel.is_closed = True
            dropped = channel.drop()
        _tell(dropped)
        for name in ("QueueSize", "RequestRateAndQueueTimeMs"):
            self._metrics.remove(_METRICS, name, **{"broker-id": broker_id})
        self._client.disconnect(broker_id)

    def remove_all(self) -> None:
        """Drop all channels."""
        for broker_id in list(self._channels):
            self.remove_broker(broker_id)

    def _address(self, broker_id: int, node: BrokerNode) -> Node | None:
        if broker_id == self._own.id:
            return self._own
        for text in node.endpoints:
            try:
                point = EndPointText.parse(text)
            except BadNodeError:
                continue
            if point.listener_name == self._listener_name:
                return Node(broker_id, point.host, point.port, node.rack)
        return None

    def _send_next(self, channel: _Channel) -> None:
        """Send the next request to a broker, unless one is in flight: its answer calls this again."""
        while True:
            with self._lock:
                if channel.is_closed or channel.in_flight is not None or not channel.waiting:
                    return
                queued = channel.waiting.popleft()
                channel.states -= queued.states
                if queued.request is not None:
                    channel.in_flight = queued
                    break
            _tell([queued])  # no call within a call: very many may wait for the same answer
        channel.queue_times.update(self._clock.monotonic_ns() - queued.queued_ns)
        self._attempt(channel, queued)

    def _attempt(self, channel: _Channel, queued: _Queued) -> None:
        node = channel.node
        if channel.is_closed:
            return
        if node is None:
            self._again(channel, queued, f"it has no listener {self._listener_name}")
            return
        assert queued.request is not None
        latest = self._latest_versions[type(queued.request)]
        sent = self._client.send(node, ShapedRequest(queued.request), latest)
        sent.add_done_callback(partial(self._answered, channel, queued))

    def _answered(self, channel: _Channel, queued: _Queued, done: "Future[Any]") -> None:
        failure = done.exception()
        if failure is not None:
            self._again(channel, queued, str(failure))
            return
        with self._lock:
            if channel.is_closed:
                return
            channel.in_flight = None
        response = done.result()
        try:
            if queued.on_response is not None:
                queued.on_response(response)
            elif response.error_code:
                _log.error(
                    "Broker {broker} refused {request}: error {code}",
                    broker=channel.broker_id,
                    request=type(queued.request).__name__,
                    code=response.error_code,
                )
        finally:
            self._send_next(channel)

    def _again(self, channel: _Channel, queued: _Queued, why: str) -> None:
        if channel.is_closed:
            return
        if self._failures.allow():
            _log.warn(
                "{request} is sent to broker {broker} again: {why}{more}",
                request=type(queued.request).__name__,
                broker=channel.broker_id,
                why=why,
                more=self._failures.take_suppressed(),
            )
        self._retries.add(RETRY_BACKOFF_MS, partial(self._attempt, channel, queued))


def _tell(dropped: Iterable[_Queued]) -> None:
    """Release the callers that waited for their turn in the dropped queue, without a request."""
    for queued in dropped:
        if queued.request is None and queued.on_response is not None:
            queued.on_response(None)
