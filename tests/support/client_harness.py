"""A NetworkClient without sockets: the test is the node."""

import struct
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.broker_connection import BrokerConnection, IConnectionOwner
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_response_header, parse_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

NODE = Node(1, "kafka.example", 9092)


class NodeTransport(StringTransport):
    is_aborted = False
    has_no_delay = is_kept_alive = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.has_no_delay = enabled

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self.is_kept_alive = enabled

    def abortConnection(self) -> None:
        self.is_aborted = True


class Attempt:
    """One attempt to connect, which the test lets succeed or fail."""

    def __init__(self, node: Node, connection: BrokerConnection, timeout_s: float) -> None:
        self.node = node
        self.connection = connection
        self.timeout_s = timeout_s
        self.is_cancelled = False
        self.deferred: Deferred[object] = Deferred(self._cancel)
        self.transport = NodeTransport()  # type: ignore[no-untyped-call]
        self._data = b""

    def _cancel(self, _: object) -> None:
        self.is_cancelled = True

    def succeed(self) -> "Attempt":
        self.connection.makeConnection(self.transport)  # type: ignore[no-untyped-call]
        self.deferred.callback(self.connection)
        return self

    def fail(self, error: Exception) -> None:
        self.deferred.errback(Failure(error))  # type: ignore[no-untyped-call]

    def lose(self, error: Exception) -> None:
        self.connection.connectionLost(Failure(error))  # type: ignore[no-untyped-call]

    def requests(self) -> list[tuple[int, int, int, str | None, bytes]]:
        """What was sent since the last time: key, version, correlation id, client id, body."""
        self._data += self.transport.value()  # type: ignore[no-untyped-call]
        self.transport.clear()  # type: ignore[no-untyped-call]
        found = []
        while len(self._data) >= 4:
            (size,) = struct.unpack_from(">i", self._data)
            frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
            header = parse_request_header(frame)
            found.append((header.api_key, header.api_version, header.correlation_id, header.client_id, frame[header.body_offset :]))
        return found

    def answer(
        self, request: tuple[Any, ...], response: Message, version: int | None = None, correlation_id: int | None = None
    ) -> None:
        key, asked, its_id, *_ = request
        used = asked if version is None else version
        head = encode_response_header(key, used, its_id if correlation_id is None else correlation_id)
        self.raw(head + response.encode(used))

    def raw(self, frame: bytes) -> None:
        self.connection.dataReceived(struct.pack(">i", len(frame)) + frame)


class FakeConnector:
    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        attempt = Attempt(node, BrokerConnection(owner, max_response_bytes), timeout_s)
        self.attempts.append(attempt)
        return attempt.deferred

    def reconfigure(self, config: KafkaConfig) -> None:
        pass


class Harness:
    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.connector = FakeConnector()
        settings.setdefault("discover_versions", False)
        self.client = NetworkClient(self.clock, self.connector, ClientSettings(client_id="me", **settings), lambda: 0.5)

    @property
    def attempts(self) -> list[Attempt]:
        return self.connector.attempts

    def send(self, request: Message, **more: Any) -> "Outcome":
        return Outcome(self.client.send(NODE, request, **more))


class Outcome:
    def __init__(self, deferred: "Deferred[Any]") -> None:
        self.deferred = deferred
        self.results: list[Any] = []
        deferred.addBoth(self.results.append)

    @property
    def response(self) -> Any:
        assert len(self.results) == 1
        assert not isinstance(self.results[0], Failure), self.results[0]
        return self.results[0]

    @property
    def error(self) -> Any:
        assert len(self.results) == 1
        assert isinstance(self.results[0], Failure)
        return self.results[0].value


def versions(**ranges: tuple[int, int]) -> ApiVersionsResponse:
    found = {"API_VERSIONS": (0, 4), **ranges}
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=int(ApiKey[name]), min_version=low, max_version=high) for name, (low, high) in found.items()]
    )
