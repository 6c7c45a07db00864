"""What a processor is told at its start, and what it counts."""

from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, IChannelBuilder
from twisted_kafka.network.interfaces import IConnectionQuotas, NoQuotas
from twisted_kafka.network.requests.memory_pool import MemoryPool

FAILED_AUTHENTICATION_DELAY_MS = 100
"""The default of ``connection.failed.authentication.delay.ms``."""


class ProcessorSettings:
    """Keys ``socket.request.max.bytes``, ``connections.max.idle.ms``, ``connection.failed.authentication.delay.ms``.

    ``memory_pool`` (``queued.max.request.bytes``) and ``quotas`` are the broker's; without them nothing is limited.
    """

    __slots__ = (
        "channel_builder",
        "failed_authentication_delay_ms",
        "idle_ms",
        "is_privileged",
        "listener_name",
        "max_request_bytes",
        "memory_pool",
        "quotas",
        "security_protocol",
    )

    def __init__(self, listener_name: str, security_protocol: str, max_request_bytes: int, idle_ms: int) -> None:
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.max_request_bytes = max_request_bytes
        self.idle_ms = idle_ms
        self.failed_authentication_delay_ms = FAILED_AUTHENTICATION_DELAY_MS
        self.is_privileged = False
        self.memory_pool: MemoryPool | None = None
        self.quotas: IConnectionQuotas = NoQuotas()
        self.channel_builder: IChannelBuilder = PLAINTEXT_BUILDER


class ProcessorStats:
    """Totals of one processor since its start. Only its thread adds to them; who reads a greatest value sets it back to 0."""

    __slots__ = (
        "connections_closed",
        "connections_created",
        "dropped_responses",
        "expired_connections_killed",
        "failed_authentications",
        "failed_reauthentications",
        "max_reauthentication_ms",
        "max_response_bytes",
        "reauthentication_ms",
        "request_bytes",
        "response_bytes",
        "responses",
        "successful_authentications",
        "successful_authentications_no_reauth",
        "successful_reauthentications",
    )

    def __init__(self) -> None:
        self.connections_created = 0
        self.connections_closed = 0
        self.expired_connections_killed = 0
        self.dropped_responses = 0
        """Answers to connections that were closed meanwhile."""
        self.request_bytes = 0
        self.responses = 0
        self.response_bytes = 0
        self.max_response_bytes = 0
        # Counted by the transports of TLS, and by SASL.
        self.failed_authentications = 0
        self.failed_reauthentications = 0
        self.successful_authentications = 0
        self.successful_authentications_no_reauth = 0
        """Those whose client knows no re-authentication (KIP-368)."""
        self.successful_reauthentications = 0
        self.reauthentication_ms = 0
        self.max_reauthentication_ms = 0
