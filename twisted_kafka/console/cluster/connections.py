"""Questions to brokers over connections, with a client's settings. Errors are one line each, with the remedy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError
from twisted_kafka.client.node_api_versions import NodeApiVersions
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError
from twisted_kafka.console.cluster.reach import NoAnswerError, Reach
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.metadata import MetadataResponseBroker

CLIENT_ID: Final = "twisted-kafka"
STEP_S: Final = 10.0
"""The longest wait for a connection, and for each step of a login."""

_Result = TypeVar("_Result")

_FAILURES: Final = (OSError, PeerRefusedError, NotAResponseError, MalformedMessageError)


class Connections:
    """One connection to each broker that was asked, made on demand. They block, and belong to one thread."""

    handled_ns: Final = 0
    """Other processes work on the questions."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], settings: Mapping[str, str], timeout_s: float, client_id: str = CLIENT_ID
    ) -> None:
        """``settings`` are a client's, by Kafka's names. Raises ConfigError."""
        self._addresses = addresses
        self._reach = Reach(settings, client_id, min(timeout_s, STEP_S))
        self._connections: dict[int | None, tuple[SocketConnection, NodeApiVersions]] = {}
        self._brokers: Mapping[int, MetadataResponseBroker] = {}
        self._has_answer = False

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1][0].close()

    def know(self, brokers: Mapping[int, MetadataResponseBroker]) -> None:
        """Take the addresses of the cluster's brokers, by id."""
        self._brokers = brokers

    def ask(self, request: Message, node: int | None, latest: int | None, left_s: float) -> Any:
        """Return a broker's response, any one's if ``node`` is None. Raises CommandError, or TryAgainError."""
        where = self._address_of(node)
        try:
            connection, versions = self._connection(node, left_s)
            version = versions.usable(request, latest)
            response = connection.ask(request, version, left_s)
        except UnsupportedVersionError as error:
            text = str(error).replace("this broker", "this tool").replace("the node", where)
            remedy = "the command needs a newer broker" if "does not support" in text else "update the older one"
            raise CommandError(f"{text}: {remedy}") from None
        except _FAILURES as error:
            self.forget(node)
            raise self._unanswered(error, node) from None
        self._has_answer = True
        return response

    def ask_each(self, requests: Mapping[int, Message], latest: int | None, left_s: float) -> dict[int, Any]:
        """Return each broker's response, or its CommandError. They are asked one after the other."""
        found: dict[int, Any] = {}
        for node, request in requests.items():
            try:
                found[node] = self.ask(request, node, latest, left_s)
            except CommandError as error:
                found[node] = error
        return found

    def derived(self, request: Message, convert: Callable[[Any], _Result], left_s: float) -> _Result:
        """Return ``convert`` of any broker's response; raises like ``ask``."""
        return convert(self.ask(request, None, None, left_s))

    def send(self, request: Message, node: int, latest: int | None, left_s: float) -> None:
        """Send a broker a request that has no response; raises like ``ask``."""
        try:
            connection, versions = self._connection(node, left_s)
            connection.send(request, versions.usable(request, latest), left_s)
        except (OSError, PeerRefusedError) as error:
            self.forget(node)
            raise self._unanswered(error, node) from None

    def version(self, kind: type[Message], node: int | None, left_s: float) -> int:
        """Return the version in which a broker is asked; -1 if it does not support this API. Raises like ``ask``."""
        try:
            return self._connection(node, left_s)[1].usable(kind)
        except UnsupportedVersionError:
            return -1
        except _FAILURES as error:
            raise self._unanswered(error, node) from None

    def forget(self, node: int | None) -> None:
        """Close the connection to a broker, or to any one."""
        old = self._connections.pop(node, None)
        if old is not None:
            old[0].close()

    def _connection(self, node: int | None, left_s: float) -> tuple[SocketConnection, NodeApiVersions]:
        if node not in self._connections:
            made = self._connect_to_any(left_s) if node is None else self._connect(*self._address(node), left_s)
            self._connections[node] = made
        return self._connections[node]

    def _connect_to_any(self, left_s: float) -> tuple[SocketConnection, NodeApiVersions]:
        """Connect to a bootstrap server, or later to one of the brokers that it knows."""
        error: Exception | None = None
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        for host, port in (*self._addresses, *known):
            try:
                return self._connect(host, port, left_s)
            except (CommandError, NoAnswerError) as caught:
                error = error or caught
        assert error is not None
        raise CommandError(str(error)) if not self._has_answer else TryAgainError(str(error))

    def _connect(self, host: str, port: int, left_s: float) -> tuple[SocketConnection, NodeApiVersions]:
        try:
            connection = self._reach.connect(host, port)
        except NoAnswerError as error:
            raise (CommandError if error.is_refused else TryAgainError)(str(error)) from None
        try:
            return connection, connection.versions(left_s)
        except _FAILURES as error:
            connection.close()
            raise TryAgainError(str(self._reach.explained(error, host, port))) from None

    def _unanswered(self, error: Exception, node: int | None) -> CommandError:
        """Return what a failed request means: before the first answer, a retry does not help."""
        host, port = self._address(node)
        text = self._reach.explained(error, host, port)
        if self._has_answer:
            return TryAgainError(str(text))
        return CommandError(str(self._reach.with_missing_login(text, host, port)))

    def _address(self, node: int | None) -> tuple[str, int]:
        if node is None:
            return self._addresses[0]
        if node not in self._brokers:
            known = ", ".join(map(str, sorted(self._brokers)))
            raise CommandError(f"there is no broker {node}: the cluster has {known}")
        return self._brokers[node].host, self._brokers[node].port

    def _address_of(self, node: int | None) -> str:
        host, port = self._address(node)
        return f"{host}:{port}"
