"""What acceptors, processors and connection quotas ask of one another."""

import socket
from typing import Any, Final

from zope.interface import Interface, implementer

NEW_CONNECTIONS: Final = 20
"""How many accepted connections may wait for a processor (Kafka: Processor.ConnectionQueueSize)."""


class IBlockedAcceptor(Interface):
    """An acceptor that holds an accepted connection which no processor could take yet."""

    def retry_connection() -> None:
        """Try again: a processor has room, or a limit allows more connections. From any thread; extra calls do no harm."""


class IConnectionProcessor(Interface):
    """Where an acceptor hands over connections. Every method may be called from any thread."""

    def accept(connected: socket.socket, peer: tuple[Any, ...], blocked: IBlockedAcceptor | None = None) -> bool:  # noqa: N805
        """Take over a connection that ConnectionQuotas has counted; return False if ``NEW_CONNECTIONS`` are waiting already.

        A full processor calls ``blocked.retry_connection`` once when it has room.
        """

    def check_connections() -> None:
        """Close the least recently used connection, one per turn, while ``IConnectionQuotas.claim_excess`` returns True."""


class IConnectionQuotas(Interface):
    """What a processor asks of ConnectionQuotas. The acceptor has already counted each connection that a processor gets."""

    def dec(listener_name: str, address: str) -> None:  # noqa: N805
        """Stop counting a connection. Called exactly once per connection, when its socket is closed; from any thread."""

    def claim_excess(listener_name: str) -> bool:  # noqa: N805
        """Return whether the caller must close one connection now: the broker has too many, and this listener is not protected.

        Only a processor with an open connection may ask. True is returned once per excess connection. When the limit is first
        exceeded, ConnectionQuotas calls ``check_connections`` of its processors. (Kafka's closeExcessConnections instead lets each
        processor that notices in time close one.)
        """


@implementer(IConnectionQuotas)
class NoQuotas:
    """No limits: for processors outside a broker."""

    def dec(self, listener_name: str, address: str) -> None: ...

    def claim_excess(self, listener_name: str) -> bool:
        """Return False."""
        return False
