"""The counts of one processor's connections."""


class ConnectionStats:
    """Totals since the processor was made. Only its thread adds to them; a reader of a maximum resets it to 0."""

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
        """Those whose session ended without re-authentication. (Kafka does not count idle ones either.)"""
        self.dropped_responses = 0
        """Responses to connections that had been closed."""
        self.request_bytes = 0
        self.responses = 0
        self.response_bytes = 0
        self.max_response_bytes = 0
        # Counted by TLS transports and by SASL.
        self.failed_authentications = 0
        self.failed_reauthentications = 0
        self.successful_authentications = 0
        self.successful_authentications_no_reauth = 0
        """Those whose client does not support re-authentication (KIP-368)."""
        self.successful_reauthentications = 0
        self.reauthentication_ms = 0
        self.max_reauthentication_ms = 0
