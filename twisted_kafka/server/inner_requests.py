"""Requests that come over no connection of their own: from this broker's console, or in an Envelope of another broker.

Such a request takes the path of any client's: the request queue, a handler, the gate of KafkaApis, the authorizer, quotas, metrics
and the access log.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.network.requests.request import SEND, START_THROTTLING, Request, ThrottlingResponse
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_SIZE_BYTES: Final = 4

_log = Logger()


class InnerConnection(ConnectionInfo):
    """The connection of a client in this process, which takes long answers as they are, without their bytes.

    Thousands of groups would take three times as long to encode and decode as to find.
    """

    __slots__ = ("answers",)

    answers: dict[int, Any]
    """By correlation id: objects with the fields of the message. The answer with bytes has no contents then."""


def is_handed_over(context: RequestContext, response: Message) -> bool:
    """Whether the client has taken the answer as it is. Then its handler returns an answer without contents."""
    connection = context.connection
    if not isinstance(connection, InnerConnection):
        return False
    connection.answers[context.correlation_id] = response
    return True


class QueueFullError(Exception):
    """The request queue has no room."""


class Serving(NamedTuple):
    """The parts of a broker that serve requests."""

    channel: RequestChannel
    observers: Sequence[IRequestObserver]
    clock: IClock


class InnerRequests:
    """The requests of one client without a connection. It owns them, as a processor owns those of its connections."""

    def __init__(self, serving: Serving, connection: ConnectionInfo) -> None:
        self._serving = serving
        self._connection = connection
        self._answers: dict[Request, Future[bytes | None]] = {}
        self._unmuted = machine.Condition()
        self._throttles = 0
        self._held: Callable[[], object] | None = None
        self.handled_ns = 0
        """The time that handlers have spent on its requests."""

    def close(self) -> None:
        """Close the connection for the handlers, which release its state. No quota holds a closed connection back."""
        with self._unmuted:
            if self._connection.is_closed:
                return
            self._connection.is_closed = True
            held, self._held = self._held, None
        if self._connection.on_closed is not None:
            self._serving.channel.send_callback(self._connection.on_closed)
        if held is not None:
            held()

    def queue(self, context: RequestContext, data: Buffer, body_offset: int) -> "tuple[Request, Future[bytes | None]]":
        """Queue a request; return it and the future of the response with its header, None if the broker refuses to answer.

        Raises QueueFullError.
        """
        request = Request(context, data, body_offset, self, self._serving.clock.monotonic_ns())
        future: Future[bytes | None] = Future()
        self._answers[request] = future
        if not self._serving.channel.send_request(request):
            del self._answers[request]
            raise QueueFullError
        self._serving.channel.wake_handler()
        return request, future

    def give_up(self, request: Request) -> None:
        """Wait no longer for a response."""
        if self._answers.pop(request, None) is None:  # it has just come, and nobody takes it
            self._drop(request)
        if request.context.give_up is not None:
            self._serving.channel.send_callback(request.context.give_up)

    def hurry(self, request: Request) -> None:
        """Have a request answered now if it waits for something to happen: the client has gone. Closes the connection."""
        self.close()  # first: a handler sets the other first, and then looks at this
        if request.context.give_up is not None:
            self._serving.channel.send_callback(request.context.give_up)

    def wait_until_unmuted(self, timeout_s: float) -> bool:
        """Wait until no quota holds the client back; return whether that was in time."""
        with self._unmuted:
            return self._unmuted.wait_for(lambda: not self._throttles, timeout_s)

    def when_unmuted(self, action: Callable[[], object]) -> None:
        """Call ``action``, one at a time, as soon as no quota holds the client back: now, or on the thread that ends it."""
        with self._unmuted:
            if self._throttles and not self._connection.is_closed:
                self._held = action
                return
        action()

    # The owner of the requests (``IRequestOwner``), called on any thread.

    def append_response(self, response: Request | ThrottlingResponse) -> None:
        """Take a response, as a processor does."""
        if isinstance(response, ThrottlingResponse):
            self._mute(1 if response.response_kind == START_THROTTLING else -1)
            return
        now_ns = self._serving.clock.monotonic_ns
        response.response_dequeued_ns = now_ns()
        future = self._answers.pop(response, None)
        if future is None:
            self._drop(response)
        try:
            body = join(list(response.parts)) if response.response_kind == SEND and future is not None else None
        except (OSError, EOFError) as error:
            _log.warn("Records of an answer without a connection could not be read from the log: {error}", error=error)
            body = None
        response.parts = ()
        response.sent_ns = now_ns()
        self.handled_ns += max(0, response.local_complete_ns - response.dequeued_ns)
        for observer in self._serving.observers:
            try:
                observer.request_completed(response)
            except Exception:  # noqa: BLE001 an observer's failure must not affect the client
                _log.failure("An observer of completed requests failed")
        if future is not None:
            future.set_result(None if body is None else body[_SIZE_BYTES:])

    def _drop(self, request: Request) -> None:
        """Keep no answer as it is for a client that does not wait any more."""
        if isinstance(self._connection, InnerConnection):
            self._connection.answers.pop(request.context.correlation_id, None)

    def _mute(self, change: int) -> None:
        held = None
        with self._unmuted:
            self._throttles += change
            self._unmuted.notify_all()
            if not self._throttles:
                held, self._held = self._held, None
        if held is not None:
            held()

    def wake_for_responses(self) -> None:
        """Responses are taken at once."""

    def has_channel(self, connection: ConnectionInfo) -> bool:
        """Whether the client still waits."""
        return connection is self._connection and not connection.is_closed
