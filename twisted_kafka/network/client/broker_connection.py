"""One connection to a node: frames out, frames in. It knows nothing of what they mean."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from twisted.internet import interfaces
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from zope.interface import Interface

from twisted_kafka.network.connection.framing import FrameReader, InvalidReceiveError
from twisted_kafka.protocol.regions import Buffer

_SIZE: Final = Struct(">i")


class PeerRefusedError(Exception):
    """One side of a TLS connection refused the other; the text says why."""


class IConnectionOwner(Interface):
    """What a connection tells; nothing any more after ``connection_lost``."""

    def connection_made(connection: "BrokerConnection") -> None:  # noqa: N805
        """Note that it is there, though perhaps not safe yet."""

    def connection_secured(connection: "BrokerConnection") -> None:  # noqa: N805
        """Note that it may be used."""

    def frame_received(connection: "BrokerConnection", frame: Buffer) -> None:  # noqa: N805
        """Take a frame."""

    def connection_lost(connection: "BrokerConnection", why: BaseException | None) -> None:  # noqa: N805
        """Note that it is over; PeerRefusedError when one side refused the other."""


class BrokerConnection(Protocol):
    """The protocol on a plain-text connection."""

    transport: interfaces.ITCPTransport

    def __init__(self, owner: IConnectionOwner, max_response_bytes: int) -> None:
        self._owner: IConnectionOwner | None = owner
        self._reader = FrameReader(max_response_bytes)
        self._is_lost = False

    def connectionMade(self) -> None:
        """Begin."""
        self.transport.setTcpNoDelay(True)
        self.transport.setTcpKeepAlive(True)
        if self._owner is not None:
            self._owner.connection_made(self)
        self._begin()

    def _begin(self) -> None:
        self._secured()

    def _secured(self) -> None:
        if self._owner is not None:
            self._owner.connection_secured(self)

    def send_frame(self, parts: Sequence[bytes]) -> None:
        """Send one frame made of these parts."""
        self.transport.writeSequence([_SIZE.pack(sum(map(len, parts))), *parts])

    def dataReceived(self, data: bytes) -> None:
        """Take bytes."""
        try:
            for frame in self._reader.feed(data):
                if self._owner is not None:
                    self._owner.frame_received(self, frame)
        except InvalidReceiveError as error:
            self.close(error)

    def close(self, why: Exception) -> None:
        """Close it at once; the owner is told now, with ``why``."""
        self._tell(why)
        if self.transport is not None and not self._is_lost:
            self.transport.abortConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Tell the owner."""
        self._is_lost = True
        assert reason is not None
        self._tell(reason.value)

    def _tell(self, why: BaseException | None) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.connection_lost(self, why)
