"""A client for other brokers, which costs a broker that is alone nothing: it is made for the first request."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.cache import Node
from twisted_kafka.system import machine
from twisted_kafka.system.installation import installed_version
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.client.blocking import BlockingNetworkClient
    from twisted_kafka.client.connections.connector import IConnector
    from twisted_kafka.client.outgoing_request import IOutgoingRequest

_log = Logger()


_SEPARATORS: Final = re.compile("[+!]")
"""Characters of a Python package version that brokers refuse in ApiVersions."""


class StoppedError(Exception):
    """The client was stopped: this broker stops."""


class InterBrokerClient:
    """Sends to a listener of other brokers, on a thread of its own (``IBrokerClient``)."""

    def __init__(
        self,
        config: KafkaConfig,
        thread_name: str,
        purpose: str,
        clock: IClock,
        listener_name: str | None = None,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """``purpose`` becomes part of the client id. Without ``listener_name`` it is the inter-broker listener.

        ``receive_buffer_bytes``: -1 leaves it to the system.
        """
        self._receive_buffer_bytes = receive_buffer_bytes
        self._listener_name = listener_name
        self._config = config
        self._thread_name = thread_name
        self._purpose = purpose
        self._clock = clock
        self._lock = machine.Lock()
        self._client: BlockingNetworkClient | None = None
        self._connector: IConnector | None = None
        self._refused = ""
        self._is_stopped = False

    def send(
        self,
        node: Node,
        request: "IOutgoingRequest",
        latest_version: int | None = None,
        timeout_ms: int | None = None,
        line: int = 0,
    ) -> "Future[Any]":
        """Send a request; see IBrokerClient.

        ``latest_version`` is the newest version to use. ``timeout_ms`` is used in place of ``request.timeout.ms``. Each ``line``
        is a connection of its own.
        """
        from twisted_kafka.client.client_settings import Node as Address  # loaded when there are other brokers

        try:
            client = self._running_client()
        except Exception as error:  # noqa: BLE001 the future has it; a listener's settings may be wrong
            refused: Future[Any] = Future()
            refused.set_exception(error)
            return refused
        address = Address(node.id, node.host, node.port, line)
        return client.send(address, request, latest_version=latest_version, timeout_ms=timeout_ms)

    def run(self, action: Callable[[], object]) -> None:
        """Call ``action`` on the client's thread. Raises ConfigError if the listener's settings are of no use, StoppedError."""
        self._running_client().run(action)

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to a broker; see IBrokerClient."""
        client = self._client
        if client is not None:
            client.disconnect(broker_id)

    def refresh(self) -> None:
        """Use changed certificates and settings for new connections; ignore unusable ones."""
        connector = self._connector
        if connector is None:
            return
        refused = ""
        try:
            connector.reconfigure(self._config)
        except ConfigError as error:
            refused = str(error)
            if refused != self._refused:
                _log.error("{thread} keeps its certificates: {why}", thread=self._thread_name, why=refused)
        self._refused = refused

    def stop(self) -> None:
        """Fail all requests, and send no more."""
        with self._lock:
            self._is_stopped = True
            client = self._client
        if client is not None:
            client.stop()

    def _running_client(self) -> "BlockingNetworkClient":
        with self._lock:
            if self._is_stopped:
                raise StoppedError("this broker stops")
            client = self._client
            if client is None or not client.is_running:  # its thread may have ended with an error
                client = self._client = self._make()
                client.start()
            return client

    def _make(self) -> "BlockingNetworkClient":
        """Raise ConfigError if the inter-broker listener's settings are of no use."""
        from twisted_kafka.client.blocking import BlockingNetworkClient
        from twisted_kafka.client.client_settings import ClientSettings
        from twisted_kafka.client.connections.inter_broker import connector_for
        from twisted_kafka.client.network_client import NetworkClient

        config = self._config
        settings = ClientSettings.of_broker(
            config,
            self._purpose,
            request_timeout_ms=config.int("request.timeout.ms"),
            max_in_flight_requests_per_connection=1,
            software_version=_SEPARATORS.sub("-", installed_version()),
        )

        listener_name = self._listener_name or config.inter_broker_listener_name
        uses_sasl = config.security_protocol_map[listener_name].startswith("SASL_")
        if uses_sasl:
            from twisted_kafka.security.sasl.clients import InterBrokerClients

        def make(reactor: Any) -> NetworkClient:
            clients = InterBrokerClients(config, listener_name, self._clock) if uses_sasl else None
            connector = self._connector = connector_for(config, listener_name, reactor, clients, self._receive_buffer_bytes)
            return NetworkClient(reactor, connector, settings)

        return BlockingNetworkClient(self._thread_name, make, self._clock)
