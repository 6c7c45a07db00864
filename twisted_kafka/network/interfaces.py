"""What the network layer calls and others implement."""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zope.interface import Interface, implementer

from twisted_kafka.protocol.regions import Part

if TYPE_CHECKING:
    from twisted_kafka.network.requests.request import Request, ThrottleMark


class IRequestObserver(Interface):
    """Is told of every request that entered the request channel, once, when it is over."""

    def request_completed(request: "Request") -> None:  # noqa: N805
        """Note a request whose response is sent, or dropped.

        Called on its processor's thread, or on a handler's when there is no processor any more: be quick, do not block.
        """


class IChannelTransport(Interface):
    """What a channel needs of the connection under it."""

    def send(parts: Sequence[Part], size_bytes: int) -> bool:  # noqa: N805
        """Send all parts; return whether they are gone already. If not, the channel's ``sent`` is called later."""

    def pauseProducing() -> None:
        """Stop reading."""

    def resumeProducing() -> None:
        """Read again."""

    def abortConnection() -> None:
        """Close at once, without sending what is left."""


class IProcessorControl(Interface):
    """What others may ask a processor, from any thread."""

    def append_response(response: "Request | ThrottleMark") -> None:  # noqa: N805
        """Have a response sent on the processor's thread, when that is awake."""

    def wake_for_responses() -> None:
        """Wake the processor's thread if it sleeps and responses were appended, or if it waits for the handlers."""

    def request_queue_drained() -> None:
        """There is room in the request queue again."""


class IBlockedAcceptor(Interface):
    """An acceptor that has accepted a connection and nowhere to put it."""

    def room_for_connections() -> None:
        """Try again: a full processor has room, or a limit allows more. From any thread; once too often is fine."""


class IConnectionProcessor(Interface):
    """Where an acceptor puts connections; all methods are for any thread."""

    def accept(connected: socket.socket, peer: tuple[Any, ...], blocked: IBlockedAcceptor | None = None) -> bool:  # noqa: N805
        """Take over an accepted connection that ConnectionQuotas has counted; return False when too many wait already.

        With ``blocked``, a processor that is full tells it once when there is room. At most ``NEW_CONNECTIONS`` wait.
        """

    def check_connections() -> None:
        """Close the least recently used connection while ``IConnectionQuotas.claim_excess`` says so, one each turn."""


class IConnectionQuotas(Interface):
    """What a processor asks of ConnectionQuotas. The acceptor has counted each connection that the processor is given."""

    def dec(listener_name: str, address: str) -> None:  # noqa: N805
        """Count a connection no more. To be called exactly once for each, when its socket is closed; from any thread."""

    def claim_excess(listener_name: str) -> bool:  # noqa: N805
        """Whether the caller has to close a connection, for the broker has too many and this listener's are not protected.

        To be asked by who has one, and closes it at once: so many are told as there are connections too many.
        When there begin to be, ConnectionQuotas calls ``check_connections`` of the processors that it was told of.
        (Kafka's closeExcessConnections, where each processor that looks in time closes one.)
        """


@implementer(IConnectionQuotas)
class NoQuotas:
    """No limits: for processors without a broker around them."""

    def dec(self, listener_name: str, address: str) -> None:
        """Count nothing."""

    def claim_excess(self, listener_name: str) -> bool:
        """Allow all."""
        return False


class IQueueListener(Interface):
    """A processor that found the queue full."""

    def request_queue_drained() -> None:
        """There is room again; called from a handler's thread."""
