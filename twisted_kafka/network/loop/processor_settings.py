"""The settings of a processor."""

from twisted_kafka.network.accepting.interfaces import IConnectionQuotas, NoQuotas
from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, IChannelBuilder
from twisted_kafka.network.requests.memory_pool import MemoryPool

FAILED_AUTHENTICATION_DELAY_MS = 100
"""The default of ``connection.failed.authentication.delay.ms``."""


class ProcessorSettings:
    """Keys ``socket.request.max.bytes``, ``connections.max.idle.ms`` and ``connection.failed.authentication.delay.ms``.

    ``memory_pool`` (``queued.max.request.bytes``) and ``quotas`` belong to the broker; without them nothing is limited.
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
