"""The requests to one node, waiting and in flight, and its connection."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_kafka.client import node_connection_state as states
from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.broker_connection import BrokerConnection
from twisted_kafka.client.connections.connector import IConnector
from twisted_kafka.client.errors import (
    AuthenticationError,
    ConnectError,
    DisconnectedError,
    InvalidResponseError,
    NetworkClientError,
    PeerRefusedError,
    ResponseTimeoutError,
    TooManyRequestsError,
)
from twisted_kafka.client.node_api_versions import FIRST_VERSION, NodeApiVersions, parse_response
from twisted_kafka.client.outgoing_request import IOutgoingRequest
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.regions import Buffer

SOFTWARE_NAME: Final = "twisted-kafka"

_CORRELATION_IDS: Final = 0x7FFFFFFF

MULTIPLIER: Final = 2.0
"""How much longer a delay is after each failure."""

JITTER: Final = 0.2
"""Random variation of a delay, so that the clients of a failed broker do not all reconnect at once."""

_EXPONENT_MAX: Final = 30

_log = Logger()


class ExponentialBackoff:
    """Delays: ``first`` without a failure, twice as much after each, at most ``last``; with a jitter of 20 %. (Kafka's class.)"""

    __slots__ = ("_first", "_last", "_random")

    def __init__(self, first: float, last: float, random: Callable[[], float]) -> None:
        """``random`` returns numbers from 0 to 1."""
        self._first = first
        self._last = max(first, last)
        self._random = random

    def delay(self, failures: int) -> float:
        """Return the delay after this many failures in a row, in the unit of ``first``."""
        delay = min(self._first * MULTIPLIER ** min(failures, _EXPONENT_MAX), self._last)
        return delay * (1 - JITTER + 2 * JITTER * self._random())


class PendingRequest:
    """A request from the call until its Deferred fires."""

    __slots__ = ("api_key", "correlation_id", "deferred", "is_over", "latest", "message", "timer", "version")

    # Set when it is sent.
    version: int
    correlation_id: int

    def __init__(self, message: IOutgoingRequest, latest: int | None) -> None:
        self.message = message
        self.latest = latest
        self.api_key = message.KEY
        self.is_over = False
        self.timer: IDelayedCall | None = None
        self.deferred: Deferred[Message] = Deferred(self._cancelled)

    def succeed(self, response: Message) -> None:
        """Fire the Deferred with the response, unless it has fired or was cancelled."""
        self.stop_timer()
        if not self.is_over:
            self.is_over = True
            self.deferred.callback(response)

    def fail(self, error: BaseException) -> None:
        """Fire the Deferred with an error, unless it has fired or was cancelled."""
        self.stop_timer()
        if not self.is_over:
            self.is_over = True
            self.deferred.errback(Failure(error))  # type: ignore[no-untyped-call]

    def stop_timer(self) -> None:
        """Cancel the timeout."""
        if self.timer is not None and self.timer.active():
            self.timer.cancel()

    def _cancelled(self, _: object) -> None:
        # The timer keeps running: the response to a request that was sent is still awaited.
        self.is_over = True


class NodeClient:
    """The client of one node. Everything runs on the reactor's thread."""

    def __init__(
        self, node: Node, settings: ClientSettings, connector: IConnector, reactor: Any, random: Callable[[], float]
    ) -> None:
        self.node = node
        self.state = states.DISCONNECTED
        self.failures = 0
        self._settings = settings
        self._connector = connector
        self._reactor = reactor
        self._reconnect = ExponentialBackoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random)
        self._setup = ExponentialBackoff(settings.connection_setup_timeout_ms, settings.connection_setup_timeout_max_ms, random)
        self._waiting: deque[PendingRequest] = deque()
        self._in_flight: deque[PendingRequest] = deque()
        self._connection: BrokerConnection | None = None
        self._connecting: Deferred[object] | None = None
        self._timer: IDelayedCall | None = None
        self._may_connect_at_s = self._used_at_s = reactor.seconds()
        self._versions: NodeApiVersions | None = None
        self._discovery_version = FIRST_VERSION
        self._correlation_id = 0
        self._has_answered = False
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """How many requests have been sent and not answered."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """How many requests wait to be sent."""
        return len(self._waiting)

    def send(self, message: IOutgoingRequest, latest: int | None, timeout_ms: int) -> "Deferred[Message]":
        """Send as soon as the connection allows. The timeout starts now."""
        request = PendingRequest(message, latest)
        if len(self._waiting) >= self._settings.max_queued_requests:
            request.fail(TooManyRequestsError(f"{len(self._waiting)} requests are waiting for {self.node.text}"))
        else:
            request.timer = self._reactor.callLater(timeout_ms / 1000, self._time_out, request, timeout_ms)
            self._waiting.append(request)
            self._advance()
        return request.deferred

    def close(self, why: NetworkClientError) -> None:
        """Fail all requests and close the connection for good."""
        self._is_closed = True
        if self.state in (states.BACKOFF, states.CONNECTING, states.CHECKING_API_VERSIONS, states.READY):
            self._disconnect(why, why)
        self._fail(self._waiting, why)

    # Connecting.

    def _advance(self) -> None:
        """Send waiting requests, or start connecting for them."""
        if self.state == states.READY:
            self._send_waiting()
        elif self.state == states.DISCONNECTED and self._waiting and not self._is_closed:
            delay_s = self._may_connect_at_s - self._reactor.seconds()
            if delay_s > 0:
                self._go(states.BACK_OFF)
                self._timer = self._reactor.callLater(delay_s, self._connect)
            else:
                self._connect()

    def _go(self, event: int) -> None:
        self.state = states.next_state(self.state, event)

    def _connect(self) -> None:
        if not self._waiting:  # all requests have timed out or failed meanwhile
            self._go(states.DISCONNECT)
            return
        self._go(states.CONNECT)
        settings = self._settings
        timeout_s = self._setup.delay(self.failures) / 1000
        delay_s = self._reconnect.delay(self.failures) / 1000
        self._may_connect_at_s = self._reactor.seconds() + delay_s
        self._discovery_version = FIRST_VERSION
        self._has_answered = False
        # The connector limits the time until the connection is established, this timer the time until it is ready.
        self._timer = self._reactor.callLater(timeout_s, self._setup_timed_out, timeout_s)
        connecting = self._connecting = maybeDeferred(
            self._connector.connect, self.node, self, settings.max_response_bytes, timeout_s
        )
        connecting.addErrback(self._connect_failed, connecting)

    def _connect_failed(self, failure: Failure, connecting: "Deferred[object]") -> None:
        if self._connecting is connecting:
            error = ConnectError(f"Cannot connect to {self.node.text}: {failure.getErrorMessage()}")
            self._disconnect(error, error)

    def _setup_timed_out(self, timeout_s: float) -> None:
        error = ConnectError(f"Cannot connect to {self.node.text}: timed out after {timeout_s:.1f} s")
        self._disconnect(error, error)

    def connection_made(self, connection: BrokerConnection) -> None:
        """Keep the connection, which is not ready yet (``IConnectionOwner``)."""
        if self.state == states.CONNECTING:
            self._connection = connection
        else:
            connection.close(ConnectError("the connection was established too late"))

    def connection_secured(self, connection: BrokerConnection) -> None:
        """Ask for the node's API versions, or become ready (``IConnectionOwner``)."""
        if connection is not self._connection:
            return
        if self._settings.discover_versions:
            self._go(states.CHECK_API_VERSIONS)
            self._request_versions(FIRST_VERSION)
        else:
            self._become_ready()

    def _request_versions(self, version: int) -> None:
        self._discovery_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._settings.software_version)
        self._write(int(ApiKey.API_VERSIONS), version, self._next_correlation_id(), request.encode(version))

    def _become_ready(self) -> None:
        self._go(states.BECOME_READY)
        self._stop_timer()
        self.failures = 0
        self._used_at_s = self._reactor.seconds()
        self._check_idle()
        self._send_waiting()

    def _check_idle(self) -> None:
        """Close the connection if it has been idle for too long; otherwise check again when it may be."""
        limit_s = self._settings.connections_max_idle_ms / 1000
        if limit_s <= 0:
            return
        left_s = self._used_at_s + limit_s - self._reactor.seconds()
        if left_s <= 0 and not self._in_flight:
            why = DisconnectedError(f"the connection to {self.node.text} was idle for {limit_s:.0f} s")
            self._disconnect(why, why)
        else:
            self._timer = self._reactor.callLater(left_s if left_s > 0 else limit_s, self._check_idle)

    # Requests.

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_IDS
        return self._correlation_id

    def _send_waiting(self) -> None:
        limit = self._settings.max_in_flight_requests_per_connection
        if self._waiting and self._is_session_ending():
            if not self._in_flight:  # otherwise when they are answered
                why = DisconnectedError(f"the session with {self.node.text} is about to end")
                self._disconnect(why, why)
            return
        while self._waiting and len(self._in_flight) < limit and self.state == states.READY:
            request = self._waiting.popleft()
            if request.is_over:
                request.stop_timer()
                continue
            try:
                request.version = self._version_of(request)
                body = request.message.encode(request.version)
            except Exception as error:  # noqa: BLE001 the caller gets it, whatever it is: nothing else ends this request
                request.fail(error)
                continue
            request.correlation_id = self._next_correlation_id()
            self._in_flight.append(request)
            self._write(request.api_key, request.version, request.correlation_id, body)

    def _is_session_ending(self) -> bool:
        """Return whether the connection has to be replaced before another request is sent (KIP-368)."""
        renew_at_s = None if self._connection is None else self._connection.renew_at_s
        return renew_at_s is not None and self._reactor.seconds() >= renew_at_s

    def _version_of(self, request: PendingRequest) -> int:
        if self._versions is not None:
            return self._versions.usable(request.message, request.latest)
        last = request.message.VERSIONS[1]
        return last if request.latest is None else min(last, request.latest)

    def _write(self, api_key: int, version: int, correlation_id: int, body: bytes) -> None:
        assert self._connection is not None
        self._used_at_s = self._reactor.seconds()
        header = encode_request_header(api_key, version, correlation_id, self._settings.client_id)
        self._connection.send_frame((header, body))

    # Responses.

    def frame_received(self, connection: BrokerConnection, frame: Buffer) -> None:
        """Process a response. An invalid one closes the connection (``IConnectionOwner``)."""
        if connection is not self._connection:
            return
        self._has_answered = True
        self._used_at_s = self._reactor.seconds()
        try:
            if self.state == states.CHECKING_API_VERSIONS:
                self._process_versions(frame)
            else:
                self._process_response(frame)
        except (MalformedMessageError, UnsupportedVersionError, InvalidResponseError) as error:
            why = InvalidResponseError(f"{self.node.text} sent an invalid response: {error}")
            _log.error("Closing the connection to {node}: {why}", node=self.node.text, why=why)
            self._disconnect(why, why)

    def _process_versions(self, frame: Buffer) -> None:
        correlation_id, offset = parse_response_header(ApiKey.API_VERSIONS, self._discovery_version, frame)
        self._check_correlation(correlation_id, self._correlation_id)
        answer = parse_response(frame, offset, self._discovery_version)
        if isinstance(answer, int):
            self._request_versions(answer)
        else:
            self._versions = NodeApiVersions(answer.api_keys)
            self._become_ready()

    def _process_response(self, frame: Buffer) -> None:
        if not self._in_flight:
            raise InvalidResponseError("no request is in flight")
        request = self._in_flight[0]
        correlation_id, offset = parse_response_header(request.api_key, request.version, frame)
        self._check_correlation(correlation_id, request.correlation_id)
        response = response_class(request.api_key).decode(frame, request.version, offset)
        self._in_flight.popleft()
        request.succeed(response)
        self._send_waiting()

    def _check_correlation(self, found: int, expected: int) -> None:
        if found != expected:
            raise InvalidResponseError(f"its correlation id is {found} instead of {expected}")

    # Timeouts and disconnection.

    def _time_out(self, request: PendingRequest, timeout_ms: int) -> None:
        error = ResponseTimeoutError(f"{ApiKey(request.api_key).title} to {self.node.text} got no response within {timeout_ms} ms")
        # Remove it from the queues first: a callback may do anything, even close this client.
        if request in self._in_flight:
            self._in_flight.remove(request)
            # As in Kafka, the connection is closed: the responses behind this one would be late too.
            why = DisconnectedError(f"the connection to {self.node.text} was closed because a request timed out")
            self._disconnect(why, why)
        else:
            self._waiting.remove(request)
        request.fail(error)

    def connection_lost(self, connection: BrokerConnection, why: BaseException | None) -> None:
        """Fail the requests in flight (``IConnectionOwner``)."""
        if connection is not self._connection:
            return
        error: NetworkClientError
        if isinstance(why, PeerRefusedError) and not self._has_answered:
            error = AuthenticationError(f"Authentication with {self.node.text} failed: {why}")
        elif self.state == states.READY:
            error = DisconnectedError(f"the connection to {self.node.text} was lost: {why}")
        else:
            error = ConnectError(f"Cannot connect to {self.node.text}: {why}")
        self._disconnect(error, error)

    def _disconnect(self, for_sent: NetworkClientError, for_waiting: NetworkClientError) -> None:
        """Close the connection and fail its requests. Waiting requests fail too, unless the connection had been ready."""
        was_ready = self.state == states.READY
        self._go(states.DISCONNECT)
        self._stop_timer()
        connection, self._connection = self._connection, None
        connecting, self._connecting = self._connecting, None
        self._versions = None
        if not was_ready:
            self.failures += 1
        if connection is not None:
            connection.close(for_sent)
        elif connecting is not None and not connecting.called:
            connecting.cancel()
        self._fail(self._in_flight, for_sent)
        if not was_ready:
            self._fail(self._waiting, for_waiting)
        self._advance()

    def _fail(self, requests: deque[PendingRequest], why: NetworkClientError) -> None:
        # Requests that callbacks add meanwhile are not failed with the others.
        for request in [requests.popleft() for _ in range(len(requests))]:
            request.fail(why)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
