"""The requests to one node: those that wait, those under way, and the connection that there is or will be."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_kafka.network.client import node_connection_state as states
from twisted_kafka.network.client.backoff import ExponentialBackoff
from twisted_kafka.network.client.broker_connection import BrokerConnection, IConnectionOwner, PeerRefusedError
from twisted_kafka.network.client.client_settings import ClientSettings, Node
from twisted_kafka.network.client.connector import IConnector
from twisted_kafka.network.client.errors import (
    AuthenticationError,
    ClientClosedError,
    ConnectError,
    DisconnectedError,
    InvalidResponseError,
    NetworkClientError,
    ResponseTimeoutError,
    TooManyRequestsError,
)
from twisted_kafka.network.client.node_api_versions import FIRST_ASKED, NodeApiVersions, read_answer
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.wire import EncodeError, MalformedMessageError

SOFTWARE_NAME: Final = "twisted-kafka"

_CORRELATION_IDS: Final = 0x7FFFFFFF

_log = Logger()


class PendingRequest:
    """A request from the call until its Deferred fires, once."""

    __slots__ = ("api_key", "correlation_id", "deferred", "is_over", "latest", "message", "timer", "version")

    def __init__(self, message: Message, latest: int | None) -> None:
        self.message = message
        self.latest = latest
        self.api_key = message.KEY
        self.version = -1
        self.correlation_id = -1
        self.is_over = False
        self.timer: IDelayedCall | None = None
        self.deferred: Deferred[Message] = Deferred(self._cancelled)

    def succeed(self, response: Message) -> None:
        """Give the response, unless nobody waits any more."""
        self.stop_timer()
        if not self.is_over:
            self.is_over = True
            self.deferred.callback(response)

    def fail(self, error: BaseException) -> None:
        """Give an error instead."""
        self.stop_timer()
        if not self.is_over:
            self.is_over = True
            self.deferred.errback(Failure(error))  # type: ignore[no-untyped-call]

    def stop_timer(self) -> None:
        """Let it take as long as it will."""
        if self.timer is not None and self.timer.active():
            self.timer.cancel()

    def _cancelled(self, _: object) -> None:
        # Its timer goes on: of one that was sent the response is awaited all the same.
        self.is_over = True


@implementer(IConnectionOwner)
class NodeClient:
    """One node's; all of it runs on the reactor's thread."""

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
        self._asked_version = FIRST_ASKED
        self._correlation_id = 0
        self._has_answered = False
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """Requests that were sent and not answered."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """Requests that are not sent yet."""
        return len(self._waiting)

    def send(self, message: Message, latest: int | None, timeout_ms: int) -> "Deferred[Message]":
        """Send when there is a connection and room on it; the time runs from now on."""
        request = PendingRequest(message, latest)
        if self._is_closed:
            request.fail(ClientClosedError(f"the connection to {self.node.text} was closed"))
        elif len(self._waiting) >= self._settings.max_queued_requests:
            request.fail(TooManyRequestsError(f"{len(self._waiting)} requests wait for {self.node.text}"))
        else:
            request.timer = self._reactor.callLater(timeout_ms / 1000, self._time_out, request, timeout_ms)
            self._waiting.append(request)
            self._advance()
        return request.deferred

    def close(self, why: NetworkClientError) -> None:
        """Fail all requests and close the connection, for good."""
        self._is_closed = True
        self._stop_timer()
        if self.state in (states.BACKOFF, states.CONNECTING, states.CHECKING_API_VERSIONS, states.READY):
            self._lose(why, why)
        self._fail(self._waiting, why)

    # Towards a connection.

    def _advance(self) -> None:
        """Do what can be done for what waits."""
        if self.state == states.READY:
            self._send_waiting()
        elif self.state == states.DISCONNECTED and self._waiting and not self._is_closed:
            pause_s = self._may_connect_at_s - self._reactor.seconds()
            if pause_s > 0:
                self._go(states.WAIT)
                self._timer = self._reactor.callLater(pause_s, self._connect)
            else:
                self._connect()

    def _go(self, event: int) -> None:
        self.state = states.next_state(self.state, event)

    def _connect(self) -> None:
        if not self._waiting:  # whoever wanted something has given it up meanwhile
            self._go(states.LOSE)
            return
        self._go(states.CONNECT)
        settings = self._settings
        timeout_s = self._setup.pause(self.failures) / 1000
        pause_s = self._reconnect.pause(self.failures) / 1000
        self._may_connect_at_s = self._reactor.seconds() + pause_s
        self._asked_version = FIRST_ASKED
        self._has_answered = False
        # The connector bounds the time until there is a connection, this one the time until it is of use.
        self._timer = self._reactor.callLater(timeout_s, self._setup_timed_out, timeout_s)
        connecting = self._connecting = maybeDeferred(
            self._connector.connect, self.node, self, settings.max_response_bytes, timeout_s
        )
        connecting.addErrback(self._connect_failed, connecting)

    def _connect_failed(self, failure: Failure, connecting: "Deferred[object]") -> None:
        if self._connecting is connecting:
            error = ConnectError(f"Cannot connect to {self.node.text}: {failure.getErrorMessage()}")
            self._lose(error, error)

    def _setup_timed_out(self, timeout_s: float) -> None:
        error = ConnectError(f"Cannot connect to {self.node.text}: it was not ready within {timeout_s:.1f} s")
        self._lose(error, error)

    def connection_made(self, connection: BrokerConnection) -> None:
        """Take a connection, which is not to be used yet."""
        if self.state == states.CONNECTING:
            self._connection = connection
        else:
            connection.close(ConnectError("it came too late"))

    def connection_secured(self, connection: BrokerConnection) -> None:
        """Go on with a connection that may be used."""
        if connection is not self._connection:
            return
        if self._settings.discover_versions:
            self._go(states.CHECK_API_VERSIONS)
            self._ask_versions(FIRST_ASKED)
        else:
            self._be_ready()

    def _ask_versions(self, version: int) -> None:
        self._asked_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._settings.software_version)
        self._write(int(ApiKey.API_VERSIONS), version, self._next_correlation_id(), request.encode(version))

    def _be_ready(self) -> None:
        self._go(states.BE_READY)
        self._stop_timer()
        self.failures = 0
        self._used_at_s = self._reactor.seconds()
        self._look_for_idleness()
        self._send_waiting()

    def _look_for_idleness(self) -> None:
        """Close the connection when nothing has passed on it for so long; look again when that may be."""
        limit_s = self._settings.connections_max_idle_ms / 1000
        if limit_s < 0:
            return
        left_s = self._used_at_s + limit_s - self._reactor.seconds()
        if left_s <= 0 and not self._in_flight:
            why = DisconnectedError(f"the connection to {self.node.text} was idle for {limit_s:.0f} s")
            self._lose(why, why)
        else:
            self._timer = self._reactor.callLater(left_s if left_s > 0 else limit_s, self._look_for_idleness)

    # Requests out.

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_IDS
        return self._correlation_id

    def _send_waiting(self) -> None:
        limit = self._settings.max_in_flight_requests_per_connection
        while self._waiting and len(self._in_flight) < limit and self.state == states.READY:
            request = self._waiting.popleft()
            if request.is_over:
                request.stop_timer()
                continue
            try:
                request.version = self._version_of(request)
                body = request.message.encode(request.version)
            except (UnsupportedVersionError, EncodeError) as error:
                request.fail(error)
                continue
            request.correlation_id = self._next_correlation_id()
            self._in_flight.append(request)
            self._write(request.api_key, request.version, request.correlation_id, body)

    def _version_of(self, request: PendingRequest) -> int:
        if self._versions is not None:
            return self._versions.usable(type(request.message), request.latest)
        last = request.message.VERSIONS[1]
        return last if request.latest is None else min(last, request.latest)

    def _write(self, api_key: int, version: int, correlation_id: int, body: bytes) -> None:
        assert self._connection is not None
        self._used_at_s = self._reactor.seconds()
        header = encode_request_header(api_key, version, correlation_id, self._settings.client_id)
        self._connection.send_frame((header, body))

    # Responses in.

    def frame_received(self, connection: BrokerConnection, frame: Buffer) -> None:
        """Take a response; what is none ends the connection."""
        if connection is not self._connection:
            return
        self._has_answered = True
        self._used_at_s = self._reactor.seconds()
        try:
            if self.state == states.CHECKING_API_VERSIONS:
                self._take_versions(frame)
            else:
                self._take_response(frame)
        except (MalformedMessageError, UnsupportedVersionError, InvalidResponseError) as error:
            why = InvalidResponseError(f"{self.node.text} sent no response to what it was asked: {error}")
            _log.error("Closing the connection to {node}: {why}", node=self.node.text, why=why)
            self._lose(why, why)

    def _take_versions(self, frame: Buffer) -> None:
        correlation_id, offset = parse_response_header(ApiKey.API_VERSIONS, self._asked_version, frame)
        self._check_correlation(correlation_id, self._correlation_id)
        answer = read_answer(frame, offset, self._asked_version)
        if isinstance(answer, int):
            self._ask_versions(answer)
        else:
            self._versions = NodeApiVersions(answer.api_keys)
            self._be_ready()

    def _take_response(self, frame: Buffer) -> None:
        if not self._in_flight:
            raise InvalidResponseError("nothing was asked")
        request = self._in_flight[0]
        correlation_id, offset = parse_response_header(request.api_key, request.version, frame)
        self._check_correlation(correlation_id, request.correlation_id)
        response = response_class(request.api_key).decode(frame, request.version, offset)
        self._in_flight.popleft()
        request.succeed(response)
        self._send_waiting()

    def _check_correlation(self, found: int, expected: int) -> None:
        if found != expected:
            raise InvalidResponseError(f"its correlation id is {found}, not {expected}")

    # The end of requests and connections.

    def _time_out(self, request: PendingRequest, timeout_ms: int) -> None:
        error = ResponseTimeoutError(f"{ApiKey(request.api_key).title} to {self.node.text} got no response within {timeout_ms} ms")
        # Out of the queues first: whoever is told may do anything, close this client too.
        if request in self._in_flight:
            self._in_flight.remove(request)
            # What comes for the requests behind it is not to be waited for either: as Kafka, begin anew.
            why = DisconnectedError(f"the connection to {self.node.text} was given up, for a request on it got no response in time")
            self._lose(why, why)
        else:
            self._waiting.remove(request)
        request.fail(error)

    def connection_lost(self, connection: BrokerConnection, why: BaseException | None) -> None:
        """Fail what was under way on it."""
        if connection is not self._connection:
            return
        error: NetworkClientError
        if isinstance(why, PeerRefusedError) and not self._has_answered:
            error = AuthenticationError(f"No safe connection to {self.node.text}: {why}")
        elif self.state == states.READY:
            error = DisconnectedError(f"the connection to {self.node.text} was lost: {why}")
        else:
            error = ConnectError(f"Cannot connect to {self.node.text}: {why}")
        self._lose(error, error)

    def _lose(self, for_sent: NetworkClientError, for_waiting: NetworkClientError) -> None:
        """Be without a connection; what was never sent fails too, unless there had been a connection that worked."""
        was_ready = self.state == states.READY
        self._go(states.LOSE)
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
        # Those that come meanwhile, from who is told, are not failed with the others.
        for request in [requests.popleft() for _ in range(len(requests))]:
            request.fail(why)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
