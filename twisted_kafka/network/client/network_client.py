"""Requests to other brokers. (Kafka: NetworkClient, with its ClusterConnectionStates and InFlightRequests.)

Connections are opened when something is to be sent, one for each node, and opened anew after they were lost, with pauses that grow.
A request fails with a NetworkClientError when no response will come, or UnsupportedVersionError when the node has no version
of it. Nothing is sent twice: whether to try again is the caller's decision.
"""

import random as chance
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from twisted_kafka.network.client import node_connection_state as states
from twisted_kafka.network.client.client_settings import ClientSettings, Node
from twisted_kafka.network.client.connector import IConnector
from twisted_kafka.network.client.errors import ClientClosedError, DisconnectedError
from twisted_kafka.network.client.node_client import NodeClient
from twisted_kafka.protocol.codec import Message

_log = Logger()


class NetworkClient:
    """Sends to any number of nodes; all of it runs on the reactor's thread."""

    def __init__(
        self, reactor: Any, connector: IConnector, settings: ClientSettings, random: Callable[[], float] = chance.random
    ) -> None:
        """``random`` gives numbers from 0 to 1, for the length of pauses."""
        self._reactor = reactor
        self._connector = connector
        self._settings = settings
        self._random = random
        self._nodes: dict[int, NodeClient] = {}
        self._is_closed = False

    def send(
        self, node: Node, request: Message, *, latest_version: int | None = None, timeout_ms: int | None = None
    ) -> "Deferred[Any]":
        """Send a request that has a response; return a Deferred of it, which may be cancelled.

        ``latest_version`` bounds the version, ``timeout_ms`` the time from now until the response (``request_timeout_ms`` when
        None). A node known by another address is connected to anew.
        """
        if self._is_closed:
            return fail(ClientClosedError("the client was closed"))
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        return self._client_of(node).send(request, latest_version, limit_ms)

    def is_ready(self, node_id: int) -> bool:
        """Tell whether there is a connection to a node that a request would be sent on."""
        return self.state_of(node_id) == states.STATE_NAMES[states.READY]

    def state_of(self, node_id: int) -> str:
        """Return the name of the state of the connection to a node."""
        client = self._nodes.get(node_id)
        return states.STATE_NAMES[client.state if client is not None else states.DISCONNECTED]

    def in_flight(self, node_id: int) -> int:
        """Return how many requests to a node were sent and not answered."""
        client = self._nodes.get(node_id)
        return client.in_flight if client is not None else 0

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node, failing what waits for it, and forget the node."""
        client = self._nodes.pop(node_id, None)
        if client is not None:
            client.close(DisconnectedError(f"the connection to {client.node.text} was closed by this side"))

    def close(self) -> None:
        """Fail all requests and close all connections."""
        self._is_closed = True
        clients, self._nodes = list(self._nodes.values()), {}
        for client in clients:
            client.close(ClientClosedError("the client was closed"))

    def _client_of(self, node: Node) -> NodeClient:
        client = self._nodes.get(node.id)
        if client is not None and client.node != node:
            self.disconnect(node.id)
            client = None
        if client is None:
            client = self._nodes[node.id] = NodeClient(node, self._settings, self._connector, self._reactor, self._random)
        return client
