"""A proxy in front of any Kafka broker, including Apache Kafka, that records requests and answers.

Addresses of brokers in answers become the proxy's own, one port for each broker, so that clients stay behind it. It speaks plain
text on both sides. What it cannot read (an API that is newer than this program) it takes out of the answer to ApiVersions, so that
clients do not use it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connections.connector import endpoint_of
from twisted_kafka.network.connection.framing import FrameReader, InvalidReceiveError
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.headers import encode_response_header, parse_request_header, parse_response_header
from twisted_kafka.recording.recording import ANSWERED, CLOSED, NO_ANSWER, Exchange, Recording
from twisted_kafka.timing.clock import IClock

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
MAX_BROKERS: Final = 100
MAX_CONNECTIONS: Final = 1_000
MAX_PENDING: Final = 1_000
"""The proxy stops reading a connection while this many of its requests wait for answers."""
MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""The same for the bytes of these requests, without the last one's."""
CONNECT_S: Final = 10.0
_LEAST_SASL_HANDSHAKE: Final = 1
"""After version 0, tokens follow that look like requests."""

_log = Logger()


@dataclass(slots=True)
class _Pending:
    """A request that was passed on."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message | None
    size_bytes: int
    began_ns: int


class Proxy:
    """Listens for clients of one Kafka. Everything runs on the reactor's thread."""

    def __init__(self, reactor: Any, clock: IClock, recording: Recording) -> None:
        self.reactor = reactor
        self.clock = clock
        self.connections = 0
        """The number of clients that have connected so far."""
        self._recording = recording
        self._began_ns = clock.monotonic_ns()
        self._host = ""
        self._ports: dict[tuple[str, int], Any] = {}
        self._open: set[_ClientSide] = set()
        self._lines = LogRateLimit(clock.monotonic_ns)

    def listen(self, host: str, port: int, to: tuple[str, int]) -> int:
        """Listen for the Kafka at ``to``; return the port. Raises twisted.internet.error.CannotListenError."""
        self._host = host
        self._ports[to] = self.reactor.listenTCP(port, _ClientFactory(self, to), interface=host)
        return int(self._ports[to].getHost().port)

    def port_of(self, broker: tuple[str, int]) -> int | None:
        """Return this proxy's port for a broker, and listen on it if it does not yet. None: there are too many brokers."""
        known = self._ports.get(broker)
        if known is None:
            if len(self._ports) > MAX_BROKERS:
                self.warn(f"more than {MAX_BROKERS} brokers: clients reach {broker[0]}:{broker[1]} without the proxy")
                return None
            known = self._ports[broker] = self.reactor.listenTCP(0, _ClientFactory(self, broker), interface=self._host)
        return int(known.getHost().port)

    def admit(self, client: "_ClientSide") -> int | None:
        """Return the number of a new connection; None if there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            self.warn(f"more than {MAX_CONNECTIONS} connections")
            return None
        self._open.add(client)
        self.connections += 1
        return self.connections

    def forget(self, client: "_ClientSide") -> None:
        """A connection is closed."""
        self._open.discard(client)

    def record(self, number: int, pending: _Pending, response: Message | None, outcome: str) -> None:
        """Record an exchange of a connection."""
        now_ns = self.clock.monotonic_ns()
        at_ms, took_ms = (pending.began_ns - self._began_ns) / 1e6, (now_ns - pending.began_ns) / 1e6
        exchange = Exchange(
            number, pending.client_id, pending.key, pending.version, pending.message, response, at_ms, took_ms, outcome
        )
        try:
            self._recording.add(exchange)
        except OSError as error:
            self.warn(f"the recording ends: {error}")
            self._recording.close()

    def warn(self, text: str) -> None:
        """Log a line, unless there are many."""
        if self._lines.allow():
            _log.warn("Recording: {text}{more}", text=text, more=self._lines.take_suppressed())

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        for port in self._ports.values():
            port.stopListening()
        self._ports.clear()
        for client in list(self._open):
            client.close()


class _ClientFactory(Factory):
    noisy = False

    def __init__(self, proxy: Proxy, broker: tuple[str, int]) -> None:
        self._proxy = proxy
        self._broker = broker

    @override
    def buildProtocol(self, addr: object) -> Protocol:
        return _ClientSide(self._proxy, self._broker)


class _Side(Protocol):
    """One of the two connections: frames in, frames out. Each side reads only while the other one can write."""

    transport: Any  # ITCPTransport and IConsumer

    def __init__(self) -> None:
        self._reader = FrameReader(MAX_FRAME_BYTES)

    @override
    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)

    @override
    def dataReceived(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self.frame_received(bytes(frame))
        except InvalidReceiveError as error:
            self.refuse(str(error))
        except Exception as error:  # noqa: BLE001 no client may stop the proxy
            self.refuse(f"{type(error).__name__}: {error}")

    def send(self, frame: bytes) -> None:
        self.transport.writeSequence([len(frame).to_bytes(4, "big"), frame])

    def frame_received(self, frame: bytes) -> None:
        raise NotImplementedError

    def refuse(self, why: str) -> None:
        raise NotImplementedError


class _BrokerSide(_Side):
    def __init__(self, client: "_ClientSide") -> None:
        super().__init__()
        self._client = client

    @override
    def connectionMade(self) -> None:
        super().connectionMade()
        self._client.broker_connected(self)

    @override
    def frame_received(self, frame: bytes) -> None:
        self._client.answer(frame)

    @override
    def refuse(self, why: str) -> None:
        self._client.refuse(f"the broker: {why}")

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        self._client.broker_lost()


class _ClientSide(_Side):
    """A client's connection, and the one to its broker."""

    def __init__(self, proxy: Proxy, broker: tuple[str, int]) -> None:
        super().__init__()
        self._proxy = proxy
        self._to = broker
        self._broker: _BrokerSide | None = None
        self._number = 0
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._is_paused = False

    @override
    def connectionMade(self) -> None:
        super().connectionMade()
        number = self._proxy.admit(self)
        if number is None:
            self.transport.abortConnection()
            return
        self._number = number
        self.transport.pauseProducing()
        endpoint = endpoint_of(self._proxy.reactor, Node(-1, *self._to), CONNECT_S)
        factory = Factory.forProtocol(lambda: _BrokerSide(self))
        factory.noisy = False
        endpoint.connect(factory).addErrback(self._not_connected)

    def _not_connected(self, failure: Failure) -> None:
        self.refuse(f"{self._to[0]}:{self._to[1]} cannot be reached: {failure.getErrorMessage()}")

    def broker_connected(self, broker: _BrokerSide) -> None:
        """The connection to the broker is open."""
        if self._number == 0 or self.transport.disconnecting:
            broker.transport.abortConnection()
            return
        self._broker = broker
        # Read each side only as fast as the other one takes data.
        self.transport.registerProducer(broker.transport, True)
        broker.transport.registerProducer(_Reading(self), True)
        self.transport.resumeProducing()

    @override
    def frame_received(self, frame: bytes) -> None:
        """Pass on a request."""
        pending = _read_request(frame, self._proxy.clock.monotonic_ns())
        if pending.key == ApiKey.SASL_HANDSHAKE and pending.version < _LEAST_SASL_HANDSHAKE:
            self.refuse("SaslHandshake v0 cannot be recorded, because its tokens look like requests: use a newer client")
            return
        if self._broker is None:
            return
        if getattr(pending.message, "acks", None) == 0 and pending.key == ApiKey.PRODUCE:
            self._proxy.record(self._number, pending, None, NO_ANSWER)
        else:
            self._pending.append(pending)
            self._pending_bytes += pending.size_bytes
            self.read_if_there_is_room()
        self._broker.send(frame)

    def answer(self, frame: bytes) -> None:
        """Pass on an answer of the broker, with the proxy's addresses."""
        pending = self._take(int.from_bytes(frame[:4], "big", signed=True))
        response = None if pending.message is None else _read_response(pending, frame)
        self._proxy.record(self._number, pending, response, ANSWERED)
        if response is not None and _change(response, self._own_address):
            frame = encode_response_header(pending.key, pending.version, pending.correlation_id) + response.encode(pending.version)
        self.send(frame)
        self.read_if_there_is_room()

    def _take(self, correlation_id: int) -> _Pending:
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            raise ValueError(f"an answer to request {correlation_id}, which was not the next one")
        pending = self._pending.popleft()
        self._pending_bytes -= pending.size_bytes
        return pending

    def _own_address(self, host: str, port: int) -> tuple[str, int] | None:
        own = self._proxy.port_of((host, port))
        return None if own is None else (self.transport.getHost().host, own)

    def read_if_there_is_room(self, is_wanted: bool | None = None) -> None:
        """Read the client unless too much waits for the broker, or the broker does not read."""
        if is_wanted is not None:
            self._is_paused = not is_wanted
        is_full = len(self._pending) >= MAX_PENDING or self._pending_bytes >= MAX_PENDING_BYTES
        if self._is_paused or is_full:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    @override
    def refuse(self, why: str) -> None:
        """Log the reason, and close both connections."""
        self._proxy.warn(f"connection {self._number} is closed: {why}")
        self.close()

    def close(self) -> None:
        """Close both connections."""
        self.transport.abortConnection()
        if self._broker is not None:
            self._broker.transport.abortConnection()

    def broker_lost(self) -> None:
        """The broker has closed its connection: waiting requests get no answer."""
        self._give_up()
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        """The client is gone."""
        self._number, number = 0, self._number
        if number:
            self._proxy.forget(self)
        if self._broker is not None:
            self._broker.transport.unregisterProducer()
            self._broker.transport.loseConnection()

    def _give_up(self) -> None:
        while self._pending and self._number:
            self._proxy.record(self._number, self._pending.popleft(), None, CLOSED)


class _Reading:
    """Pauses reading the client while the broker's connection cannot write (IPushProducer)."""

    def __init__(self, client: _ClientSide) -> None:
        self._client = client

    def pauseProducing(self) -> None:
        """Do not read."""
        self._client.read_if_there_is_room(False)

    def resumeProducing(self) -> None:
        """Read."""
        self._client.read_if_there_is_room(True)

    def stopProducing(self) -> None:
        pass  # the client's own connection handles this


def _read_request(frame: bytes, now_ns: int) -> _Pending:
    key, version = int.from_bytes(frame[:2], "big", signed=True), int.from_bytes(frame[2:4], "big", signed=True)
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    client_id, message = None, None
    try:
        header = parse_request_header(frame)
        client_id = header.client_id
        message = request_class(key).decode(frame, version, header.body_offset)
    except (KafkaError, ValueError):  # a newer API or version: passed on unchanged
        message = None
    return _Pending(key, version, correlation_id, client_id, message, len(frame), now_ns)


def _read_response(pending: _Pending, frame: bytes) -> Message | None:
    try:
        _, at = parse_response_header(pending.key, pending.version, frame)
        return response_class(pending.key).decode(frame, pending.version, at)
    except (KafkaError, ValueError):  # ApiVersions in a version that the broker does not have is answered in version 0
        return None


def _change(response: Message, own_address: Any) -> bool:
    """Put the proxy's addresses into a response; leave only readable APIs in ApiVersions; return whether anything changed."""
    if response.KEY == ApiKey.API_VERSIONS:
        _narrow(response)
        return True
    changed = False
    for node in _nodes(response) if has_nodes(type(response)) else ():
        if node.host and node.port > 0:
            own = own_address(node.host, node.port)
            if own is not None:
                node.host, node.port = own
                changed = True
    return changed


def _narrow(response: Any) -> None:
    kept = []
    for api in response.api_keys:
        if api.api_key not in ApiKey.__members__.values():
            continue
        low, high = request_class(api.api_key).VERSIONS
        if api.api_key == ApiKey.SASL_HANDSHAKE:
            low = _LEAST_SASL_HANDSHAKE
        api.min_version, api.max_version = max(api.min_version, low), min(api.max_version, high)
        if api.min_version <= api.max_version:
            kept.append(api)
    response.api_keys = kept


@cache
def has_nodes(cls: StructType) -> bool:
    """Whether messages of this class contain addresses of brokers."""
    if {"host", "port"} <= {field.name for field in cls.FIELDS}:
        return True
    kinds = [field.type.element if isinstance(field.type, ListOf) else field.type for field in cls.FIELDS]
    return any(isinstance(kind, StructType) and has_nodes(kind) for kind in kinds)


def _nodes(struct: Any) -> Iterator[Any]:
    if {"host", "port"} <= {field.name for field in struct.FIELDS}:
        yield struct
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(type(each), StructType):
                yield from _nodes(each)
