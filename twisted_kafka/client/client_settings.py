"""Nodes, and the settings of a client."""

from dataclasses import dataclass
from typing import NamedTuple, Self

from twisted_kafka.config.broker_config import KafkaConfig


class Node(NamedTuple):
    """A broker's id and address."""

    id: int
    host: str
    port: int
    line: int = 0
    """Which of the connections to the node, where there are several."""

    @property
    def text(self) -> str:
        """``broker 1 at host:9092``."""
        return f"broker {self.id} at {f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of a client, named after Kafka's client configs. The defaults are Kafka's between brokers.

    ``max_queued_requests`` limits the requests that wait for a node, in addition to ``max_in_flight_requests_per_connection``.
    If ``connections_max_idle_ms`` is 0 or less, connections may be idle without limit, as those of Kafka's controller.
    Without ``discover_versions`` the client sends no ApiVersions request and uses the newest version up to ``latest_version``.
    """

    client_id: str
    software_version: str = "unknown"
    request_timeout_ms: int = 30_000
    max_in_flight_requests_per_connection: int = 5
    max_queued_requests: int = 1_000
    max_response_bytes: int = 1 << 30
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    discover_versions: bool = True

    @classmethod
    def of_broker(cls, config: KafkaConfig, purpose: str, **more: object) -> Self:
        """Return the settings of a broker's client. ``purpose`` becomes part of its client id."""
        return cls(
            client_id=f"broker-{config.broker_id}-{purpose}",
            connection_setup_timeout_ms=config.long("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max_ms=config.long("socket.connection.setup.timeout.max.ms"),
            **{"connections_max_idle_ms": config.long("connections.max.idle.ms"), **more},  # type: ignore[arg-type]
        )
