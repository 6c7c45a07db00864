"""Requests to other brokers. (Kafka: NetworkClient, with its ClusterConnectionStates and InFlightRequests.)

There is one connection per node, and for each line to it. It is opened when there is a request to send, and reopened with
exponential backoff after it was lost. A request fails with NetworkClientError if no response will come, or UnsupportedVersionError
if both sides have no version in common. Nothing is sent twice: retrying is up to the caller.
"""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from twisted_kafka.client import node_connection_state
from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.connector import IConnector
from twisted_kafka.client.errors import ClientClosedError, DisconnectedError
from twisted_kafka.client.node_client import NodeClient
from twisted_kafka.client.outgoing_request import IOutgoingRequest
from twisted_kafka.system import machine

_log = Logger()


class NetworkClient:
    """Sends to any number of nodes. Everything runs on the reactor's thread."""

    def __init__(
        self, reactor: Any, connector: IConnector, settings: ClientSettings, random: Callable[[], float] | None = None
    ) -> None:
        """``random`` returns numbers from 0 to 1, for the jitter of backoffs."""
        self._reactor = reactor
        self._connector = connector
        self._settings = settings
        self._random = random if random is not None else machine.chance.random
        self._nodes: dict[tuple[int, int], NodeClient] = {}
        """By id and line."""
        self._is_closed = False

    def send(
        self, node: Node, request: IOutgoingRequest, *, latest_version: int | None = None, timeout_ms: int | None = None
    ) -> "Deferred[Any]":
        """Send a request; return a Deferred of its response, which can be cancelled.

        ``latest_version`` is the highest version to use. ``timeout_ms`` is the time from now to the response,
        ``request_timeout_ms`` if None. If the node's address has changed, the client reconnects.
        """
        if self._is_closed:
            return fail(ClientClosedError("the client was closed"))
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        return self._client_of(node).send(request, latest_version, limit_ms)

    def is_ready(self, node_id: int) -> bool:
        """Return whether the connection to a node is ready for requests."""
        return self.state_of(node_id) == node_connection_state.STATE_NAMES[node_connection_state.READY]

    def state_of(self, node_id: int) -> str:
        """Return the name of the state of the connection to a node."""
        client = self._nodes.get((node_id, 0))
        return node_connection_state.STATE_NAMES[client.state if client is not None else node_connection_state.DISCONNECTED]

    def in_flight(self, node_id: int) -> int:
        """Return how many requests to a node have been sent and not answered."""
        client = self._nodes.get((node_id, 0))
        return client.in_flight if client is not None else 0

    def disconnect(self, node_id: int) -> None:
        """Close the connections to a node, fail its requests and forget the node."""
        for key in [key for key in self._nodes if key[0] == node_id]:
            client = self._nodes.pop(key)
            client.close(DisconnectedError(f"the connection to {client.node.text} was closed by this side"))

    def close(self) -> None:
        """Fail all requests and close all connections."""
        self._is_closed = True
        clients, self._nodes = list(self._nodes.values()), {}
        for client in clients:
            client.close(ClientClosedError("the client was closed"))

    def _client_of(self, node: Node) -> NodeClient:
        client = self._nodes.get((node.id, node.line))
        if client is not None and client.node != node:
            self.disconnect(node.id)
            client = None
        if client is None:
            client = self._nodes[node.id, node.line] = NodeClient(
                node, self._settings, self._connector, self._reactor, self._random
            )
        return client
