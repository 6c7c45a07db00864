"""Questions to this broker without a socket.

A request takes the path of any client's (``server/inner_requests.py``); only the bytes do not leave the process. So a user of the
console may do what the same user may do with a client. What another broker leads or coordinates, this one asks it for.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar, cast

from twisted_kafka.client.node_api_versions import NodeApiVersions
from twisted_kafka.console.cluster.other_brokers import Asker, OtherBrokers
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersion
from twisted_kafka.server.inner_requests import InnerConnection, InnerRequests, QueueFullError, Serving
from twisted_kafka.system import machine

CLIENT_ID: Final = "twisted-kafka-console"
"""The client id of all requests of the console: quotas and the access log know it by that."""
TIMEOUT_S: Final = 10.0
"""The longest time of one operation with its retries."""


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
    serving: Serving
    served: Callable[[], Mapping[int, tuple[int, int]]]
    """The versions of each API that ApiVersions reports."""
    listener: tuple[str, str]
    """The name and the security protocol of a listener: its addresses of brokers are in the answers to Metadata."""
    others: OtherBrokers
    state: Callable[[], tuple[object, ...] | None]
    """The objects that decide which topics a user sees; None if their changes cannot be seen."""
    kept: KeptResults

    def session(self, principal: KafkaPrincipal, client_address: str, timeout_s: float = TIMEOUT_S) -> Session:
        """Return a session of this principal, which comes from this IP address. It costs nothing until it asks."""
        return Session(InProcess(self, principal, client_address), self.serving.clock, timeout_s)


_numbers = itertools.count(1)


class InProcess:
    """One client's requests to this broker, and through it to the others, without a connection.

    It blocks; other threads bring the answers.
    """

    def __init__(self, broker: LocalBroker, principal: KafkaPrincipal, client_address: str) -> None:
        self._broker = broker
        name, protocol = broker.listener
        self._connection = InnerConnection(f"console-{next(_numbers)}", name, protocol, client_address)
        self._connection.answers = {}
        self._connection.principal = principal
        self._connection.software_name = CLIENT_ID
        self._versions = NodeApiVersions(
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in broker.served().items()
        )
        self._correlation_ids = itertools.count(1)
        self._inner = InnerRequests(broker.serving, self._connection)
        self._asker = Asker(principal, client_address, CLIENT_ID)

    @property
    def handled_ns(self) -> int:
        """The time that this broker's handlers have spent on the questions."""
        return self._inner.handled_ns

    def close(self) -> None:
        """Close the connection for the handlers, which release its state."""
        self._inner.close()

    def know(self, brokers: Mapping[int, Any]) -> None:
        """Take the brokers of the cluster: this broker knows where they are."""

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
        return self._begin(request, node, latest, left_s)()

    def ask_each(self, requests: Mapping[int, Message], latest: int | None, left_s: float) -> dict[int, Any]:
        """Return each broker's response, or its CommandError. They work at the same time."""
        found: dict[int, Any] = {}
        waits: dict[int, Callable[[], Any]] = {}
        for node, request in requests.items():
            try:
                waits[node] = self._begin(request, node, latest, left_s)
            except CommandError as error:
                found[node] = error
        for node, wait in waits.items():
            try:
                found[node] = wait()
            except CommandError as error:
                found[node] = error
        return found

    def _begin(self, request: Message, node: int | None, latest: int | None, left_s: float) -> Callable[[], Any]:
        """Send a request; return what waits for the response. Both raise like ``ask``."""
        try:
            version = self._versions.usable(request, latest)
        except UnsupportedVersionError:
            raise CommandError(f"this broker does not serve {ApiKey(request.KEY).title}") from None
        if node is not None and node != self._broker.node_id():
            return self._broker.others.begin(node, request, version, self._asker, left_s)
        if not self._inner.wait_until_unmuted(left_s):
            raise TryAgainError(f"a quota holds the console's requests back: see the quotas of {self._connection.principal}")
        pending, future = self._queue(request, version)

        def wait() -> Any:
            try:
                body = machine.result_of(future, left_s)
            except TimeoutError:
                self._inner.give_up(pending)
                raise TryAgainError(f"the broker has not answered {ApiKey(request.KEY).title} within {left_s:g} s") from None
            if body is None:
                raise CommandError(f"the broker refused {ApiKey(request.KEY).title}: its log has the reason")
            response: Any = response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])
            return self._connection.answers.pop(pending.context.correlation_id, response)

        return wait

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
        try:
            return self._inner.queue(context, request.encode(version), 0)
        except QueueFullError:
            raise TryAgainError("the broker's request queue is full") from None
