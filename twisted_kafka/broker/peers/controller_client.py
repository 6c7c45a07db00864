"""This broker's requests to the controller (Kafka: ``NodeToControllerChannelManager``)."""

from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient, StoppedError
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode, RequestTimedOutError, UnsupportedVersionError
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer

_log = Logger()

RETRY_BACKOFF_MS: Final = 100
"""How long until a request is sent again that no controller has answered."""

MAX_WAITING: Final = 1_000
"""Requests that wait for an answer; more are refused."""

_FATAL: Final = (UnsupportedVersionError, StoppedError)
"""Failures that another attempt would not change."""


class TooManyWaitingError(Exception):
    """The limit of requests that wait for the controller is reached."""


class _Request:
    """A request until it is answered."""

    __slots__ = ("answer", "deadline_ns", "latest_version", "message")

    def __init__(self, message: Message, latest_version: int | None, deadline_ns: int) -> None:
        self.message = message
        self.latest_version = latest_version
        self.deadline_ns = deadline_ns
        self.answer: Future[Any] = Future()
        self.answer.set_running_or_notify_cancel()  # nobody cancels it


class ControllerClient:
    """Finds the controller in the metadata cache, and sends requests again if it did not answer or another broker is controller."""

    def __init__(
        self,
        client: InterBrokerClient,
        metadata: MetadataCache,
        listener_name: str,
        retries: Timer,
        clock: IClock,
        timeout_ms: int,
    ) -> None:
        """``listener_name`` is the control plane's, or the inter-broker listener. ``timeout_ms`` is ``request.timeout.ms``."""
        self._client = client
        self._metadata = metadata
        self._listener_name = listener_name
        self._retries = retries
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lock = machine.Lock()
        self._waiting: set[_Request] = set()
        self._is_stopped = False
        self._failures = LogRateLimit(clock.monotonic_ns)

    def send(self, request: Message, latest_version: int | None = None) -> "Future[Any]":
        """Send a request; see IControllerChannel."""
        one = _Request(request, latest_version, self._clock.monotonic_ns() + self._timeout_ms * 1_000_000)
        with self._lock:
            if self._is_stopped:
                one.answer.set_exception(StoppedError("this broker stops"))
                return one.answer
            if len(self._waiting) >= MAX_WAITING:
                one.answer.set_exception(TooManyWaitingError(f"{MAX_WAITING} requests wait for the controller"))
                return one.answer
            self._waiting.add(one)
        self._try(one)
        return one.answer

    def stop(self) -> None:
        """Fail all requests, and send no more."""
        with self._lock:
            self._is_stopped = True
            waiting = list(self._waiting)
        for one in waiting:
            self._fail(one, StoppedError("this broker stops"))

    def _try(self, one: _Request) -> None:
        if one.answer.done():
            return
        controller = self._metadata.controller_id
        node = None if controller is None else self._metadata.node(controller, self._listener_name)
        if node is None:
            self._again(one, "no controller is known")
            return
        self._client.send(node, one.message, one.latest_version).add_done_callback(partial(self._answered, one, node))

    def _answered(self, one: _Request, node: Node, done: "Future[Any]") -> None:
        failure = done.exception()
        if failure is None:
            response = done.result()
            if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                self._again(one, f"broker {node.id} is not the controller any more")
            elif self._take(one):
                one.answer.set_result(response)
        elif isinstance(failure, _FATAL):
            self._fail(one, failure)
        else:
            self._again(one, str(failure))

    def _again(self, one: _Request, why: str) -> None:
        """Send the request later: by then the metadata may name another controller."""
        if self._failures.allow():
            _log.info(
                "{request} is sent to the controller again: {why}{more}",
                request=type(one.message).__name__,
                why=why,
                more=self._failures.take_suppressed(),
            )
        if self._clock.monotonic_ns() >= one.deadline_ns:
            self._fail(one, RequestTimedOutError(f"The controller did not answer within {self._timeout_ms} ms: {why}"))
            return
        self._retries.add(RETRY_BACKOFF_MS, partial(self._try, one))

    def _take(self, one: _Request) -> bool:
        """Return whether the request has still to be answered; that is up to the caller then."""
        with self._lock:
            if one not in self._waiting:
                return False
            self._waiting.remove(one)
            return True

    def _fail(self, one: _Request, why: BaseException) -> None:
        if self._take(one):
            one.answer.set_exception(why)
