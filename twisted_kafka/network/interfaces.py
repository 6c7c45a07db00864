"""What the network layer calls and others implement."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zope.interface import Interface

from twisted_kafka.protocol.regions import Part

if TYPE_CHECKING:
    from twisted_kafka.network.request import Request


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

    def append_response(request: "Request") -> None:  # noqa: N805
        """Have the response of ``request`` sent on the processor's thread, when that is awake."""

    def wake_for_responses() -> None:
        """Wake the processor's thread if it sleeps and responses were appended, or if it waits for the handlers."""

    def request_queue_drained() -> None:
        """There is room in the request queue again."""
