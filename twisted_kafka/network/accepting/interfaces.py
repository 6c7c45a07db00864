"""The interfaces between acceptors, processors and connection quotas."""

from typing import Final, Protocol

NEW_CONNECTIONS: Final = 20
"""How many accepted connections may wait for a processor (Kafka: Processor.ConnectionQueueSize)."""


class IConnectionQuotas(Protocol):
    """The part of ConnectionQuotas that a processor uses.

    The acceptor has already counted each connection that a processor gets.
    """

    def dec(self, listener_name: str, address: str) -> None:
        """Stop counting a connection. Called exactly once per connection, when its socket is closed; from any thread."""

    def claim_excess(self, listener_name: str) -> bool:
        """Return whether the caller must close one connection now: the broker has too many, and this listener is not protected.

        Only a processor with an open connection may ask. True is returned once per excess connection. When the limit is first
        exceeded, ConnectionQuotas calls ``check_connections`` of its processors. (Kafka's closeExcessConnections instead lets each
        processor that notices in time close one.)
        """


class NoQuotas:
    """No limits: for processors outside a broker."""

    def dec(self, listener_name: str, address: str) -> None: ...

    def claim_excess(self, listener_name: str) -> bool:
        """Return False."""
        return False
