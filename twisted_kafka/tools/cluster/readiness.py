"""Asks servers whether they are ready: a broker for the number of brokers it knows, ZooKeeper for its state."""

import struct
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.messages.metadata import MetadataRequest

_TIMEOUT_S: Final = 2.0
_VERSION: Final = 1
_HEADER = struct.Struct(">hhih")
_INT = struct.Struct(">i")
_ANSWER_BYTES: Final = 1 << 20


def known_brokers(reactor: Any, host: str, port: int) -> "Deferred[int]":
    """Return the number of brokers that a broker knows; 0 if it does not answer."""
    body = _HEADER.pack(MetadataRequest.KEY, _VERSION, 0, -1) + MetadataRequest(topics=[]).encode(_VERSION)
    answer = _ask(reactor, host, port, _INT.pack(len(body)) + body, _is_whole)
    return answer.addCallbacks(_count, lambda _: 0)


def zookeeper_serves(reactor: Any, host: str, port: int) -> "Deferred[bool]":
    """Return whether a ZooKeeper is ready. It has to allow the command ``srvr``."""
    answer = _ask(reactor, host, port, b"srvr", lambda data: b"Mode:" in data)
    return answer.addCallbacks(lambda _: True, lambda _: False)


def _is_whole(data: bytes) -> bool:
    return len(data) >= _INT.size and len(data) >= _INT.size + int(_INT.unpack_from(data)[0])


def _count(data: bytes) -> int:
    answer: Any = response_class(MetadataRequest.KEY).decode(data, _VERSION, 2 * _INT.size)
    return len(answer.brokers)


def _ask(reactor: Any, host: str, port: int, request: bytes, is_whole: Any) -> "Deferred[bytes]":
    protocol = _Question(request, is_whole)
    end_point = TCP4ClientEndpoint(reactor, host, port, timeout=_TIMEOUT_S)
    factory = _Factory.forProtocol(lambda: protocol)
    asked: Deferred[Any] = end_point.connect(factory)
    asked.addCallback(lambda _: protocol.answer)
    asked.addTimeout(_TIMEOUT_S, reactor)
    return asked.addBoth(protocol.close)


class _Factory(Factory):
    noisy = False  # otherwise the log has a line for each check


class _Question(Protocol):
    """Sends bytes and collects an answer."""

    transport: Any = None

    def __init__(self, request: bytes, is_whole: Any) -> None:
        self.answer: Deferred[bytes] = Deferred()
        self._request = request
        self._is_whole = is_whole
        self._received = b""

    @override
    def connectionMade(self) -> None:
        """Send the question."""
        self.transport.write(self._request)

    @override
    def dataReceived(self, data: bytes) -> None:
        """Collect the answer. An answer longer than the limit counts as no answer."""
        self._received += data
        if not self.answer.called and self._is_whole(self._received):
            self.answer.callback(self._received)
        elif len(self._received) > _ANSWER_BYTES:
            self.transport.abortConnection()

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """There will be no answer."""
        if not self.answer.called:
            self.answer.errback(reason)

    def close(self, result: Any) -> Any:
        """Close the connection, if there is one, and pass the result on."""
        if self.transport is not None:
            self.transport.abortConnection()
        return result
