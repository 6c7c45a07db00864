"""Questions to this broker without a socket.

A request takes the path of any client's: the request queue, a handler, the gate of KafkaApis, the authorizer, quotas, metrics and
the access log. Only the bytes do not leave the process. So a user of the console may do what the same user may do with a client.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from twisted.logger import Logger

from twisted_kafka.client.node_api_versions import NodeApiVersions
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request import SEND, START_THROTTLING, Request, ThrottlingResponse
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersion
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.network.loop.processor import Processor

CLIENT_ID: Final = "twisted-kafka-console"
"""The client id of all requests of the console: quotas and the access log know it by that."""
TIMEOUT_S: Final = 10.0
"""The longest time of one operation with its retries."""

_SIZE_BYTES: Final = 4

_log = Logger()


_Kept = TypeVar("_Kept")

MOST_KEPT: Final = 4
"""Most results that are kept. One of 10,000 topics takes up some 2 MB."""


class KeptResults:
    """Results of whole answers, valid while the broker's state, metadata and ACLs, is the same object as then."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._results: OrderedDict[Hashable, tuple[tuple[object, ...], object]] = OrderedDict()

    def get(self, key: Hashable, state: tuple[object, ...], make: Callable[[], _Kept]) -> _Kept:
        """Return the result of ``make`` for this state: an earlier one, or a new one."""
        with self._lock:
            found = self._results.get(key)
            if found is not None and all(one is other or one == other for one, other in zip(found[0], state, strict=True)):
                self._results.move_to_end(key)
                return cast(_Kept, found[1])
        made = make()
        with self._lock:
            self._results[key] = state, made
            self._results.move_to_end(key)
            while len(self._results) > MOST_KEPT:
                self._results.popitem(last=False)
        return made


class LocalBroker(NamedTuple):
    """What sessions in process need of this broker."""

    node_id: Callable[[], int]
    channel: RequestChannel
    served: Callable[[], Mapping[int, tuple[int, int]]]
    """The versions of each API that ApiVersions reports."""
    observers: Sequence[IRequestObserver]
    listener: tuple[str, str]
    """The name and the security protocol of a listener: its addresses of brokers are in the answers to Metadata."""
    clock: IClock
    state: Callable[[], tuple[object, ...] | None]
    """The objects that decide which topics a user sees; None if their changes cannot be seen."""
    kept: KeptResults

    def session(self, principal: KafkaPrincipal, client_address: str, timeout_s: float = TIMEOUT_S) -> Session:
        """Return a session of this principal, which comes from this IP address. It costs nothing until it asks."""
        return Session(InProcess(self, principal, client_address), self.clock, timeout_s)


_numbers = itertools.count(1)


class InProcess:
    """One client's requests to this broker, without a connection. It blocks; other threads bring the answers.

    To the request channel it is the processor that owns the client's connection.
    """

    def __init__(self, broker: LocalBroker, principal: KafkaPrincipal, client_address: str) -> None:
        self._broker = broker
        name, protocol = broker.listener
        self._connection = ConnectionInfo(f"console-{next(_numbers)}", name, protocol, client_address)
        self._connection.principal = principal
        self._connection.software_name = CLIENT_ID
        self._versions = NodeApiVersions(
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in broker.served().items()
        )
        self._correlation_ids = itertools.count(1)
        self._answers: dict[Request, Future[bytes | None]] = {}
        self._unmuted = machine.Condition()
        self._throttles = 0

    # For a session.

    def close(self) -> None:
        """Close the connection for the handlers, which release its state."""
        self._connection.is_closed = True
        if self._connection.on_closed is not None:
            self._broker.channel.send_callback(self._connection.on_closed)

    def know(self, brokers: Mapping[int, Any]) -> None:
        """Take the brokers of the cluster: only this one is asked."""

    def forget(self, node: int | None) -> None:
        """There is no connection to close."""

    def version(self, kind: type[Message], node: int | None, left_s: float) -> int:
        """Return the version in which this broker is asked; -1 if it does not serve this API."""
        try:
            return self._versions.usable(kind)
        except UnsupportedVersionError:
            return -1

    def ask(self, request: Message, node: int | None, latest: int | None, left_s: float) -> Any:
        """Return the response. Raises CommandError, or TryAgainError after ``left_s``."""
        if node not in (None, self._broker.node_id()):
            raise CommandError(f"only broker {node} can answer this: use its console, or the command with -b and its address")
        try:
            version = self._versions.usable(request, latest)
        except UnsupportedVersionError:
            raise CommandError(f"this broker does not serve {ApiKey(request.KEY).title}") from None
        self._wait_until_unmuted(left_s)
        pending, future = self._queue(request, version)
        try:
            body = machine.result_of(future, left_s)
        except TimeoutError:
            self._give_up(pending)
            raise TryAgainError(f"the broker has not answered {ApiKey(request.KEY).title} within {left_s:g} s") from None
        if body is None:
            raise CommandError(f"the broker refused {ApiKey(request.KEY).title}: its log has the reason")
        return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])

    def derived(self, request: Message, convert: Callable[[Any], _Kept], left_s: float) -> _Kept:
        """Return ``convert`` of the response, or the result for the same user and state of the broker."""
        broker, connection = self._broker, self._connection
        state = broker.state()  # before the answer: a change meanwhile makes the result one of the former state
        if state is None:
            return convert(self.ask(request, None, None, left_s))
        key = str(connection.principal), connection.client_address, request.KEY, convert
        return broker.kept.get(key, state, lambda: convert(self.ask(request, None, None, left_s)))

    def send(self, request: Message, node: int, latest: int | None, left_s: float) -> None:
        """Send a request that has no response."""
        self._queue(request, self._versions.usable(request, latest))

    def _queue(self, request: Message, version: int) -> "tuple[Request, Future[bytes | None]]":
        context = RequestContext(request.KEY, version, next(self._correlation_ids), CLIENT_ID, self._connection)
        owner = cast("Processor", self)  # the channel calls only the methods below
        pending = Request(context, request.encode(version), 0, owner, self._broker.clock.monotonic_ns())
        future: Future[bytes | None] = Future()
        self._answers[pending] = future
        if not self._broker.channel.send_request(pending):
            del self._answers[pending]
            raise TryAgainError("the broker's request queue is full")
        self._broker.channel.wake_handler()
        return pending, future

    def _wait_until_unmuted(self, timeout_s: float) -> None:
        with self._unmuted:
            if not self._unmuted.wait_for(lambda: not self._throttles, timeout_s):
                raise TryAgainError(f"a quota holds the console's requests back: see the quotas of {self._connection.principal}")

    def _give_up(self, pending: Request) -> None:
        self._answers.pop(pending, None)
        if pending.context.give_up is not None:
            self._broker.channel.send_callback(pending.context.give_up)

    # For the request channel, from any thread.

    def append_response(self, response: Request | ThrottlingResponse) -> None:
        """Take a response, as a processor does."""
        if isinstance(response, ThrottlingResponse):
            with self._unmuted:
                self._throttles += 1 if response.response_kind == START_THROTTLING else -1
                self._unmuted.notify_all()
            return
        now_ns = self._broker.clock.monotonic_ns
        response.response_dequeued_ns = now_ns()
        future = self._answers.pop(response, None)
        try:
            body = join(list(response.parts)) if response.response_kind == SEND and future is not None else None
        except (OSError, EOFError) as error:
            _log.warn("The console could not read records from the log: {error}", error=error)
            body = None
        response.parts = ()
        response.sent_ns = now_ns()
        for observer in self._broker.observers:
            try:
                observer.request_completed(response)
            except Exception:  # noqa: BLE001 an observer's failure must not affect the client
                _log.failure("An observer of completed requests failed")
        if future is not None:
            future.set_result(None if body is None else body[_SIZE_BYTES:])

    def wake_for_responses(self) -> None:
        """Responses are taken at once."""

    def request_queue_drained(self) -> None:
        """A full queue is an error for the caller: nothing waits for room."""

    def has_channel(self, connection: ConnectionInfo) -> bool:
        """Whether the client still waits."""
        return connection is self._connection and not connection.is_closed
