"""What a channel needs of the connection under it."""

from collections.abc import Sequence

from zope.interface import Interface

from twisted_kafka.protocol.regions import Part


class IChannelTransport(Interface):
    """The connection of one channel."""

    def send(parts: Sequence[Part], size_bytes: int) -> bool:  # noqa: N805
        """Send all parts. Return whether the socket took everything; otherwise the channel's ``sent`` is called later."""

    def resume_sending() -> None:
        """Continue with a response whose files have been loaded."""

    def end_sending() -> None:
        """Send nothing more; after the data sent so far, the client sees the end of the stream."""

    def pauseProducing() -> None:
        """Stop reading."""

    def resumeProducing() -> None:
        """Start or resume reading."""

    def has_unread() -> bool:
        """Whether the client has sent data that was not read yet."""

    def abortConnection() -> None:
        """Close at once and discard unsent data."""
