"""One connection to a node: frames out, frames in."""

import typing
from collections.abc import Sequence
from struct import Struct
from typing import Final

from twisted.internet import interfaces
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.network.connection.framing import FrameReader, InvalidReceiveError
from twisted_kafka.protocol.regions import Buffer

_SIZE: Final = Struct(">i")


class IConnectionOwner(typing.Protocol):
    """Receives the events of a connection. ``connection_lost`` is the last one."""

    def connection_made(self, connection: "BrokerConnection") -> None:
        """The connection is established, but with TLS not usable yet."""

    def connection_secured(self, connection: "BrokerConnection") -> None:
        """The connection may be used."""

    def frame_received(self, connection: "BrokerConnection", frame: Buffer) -> None:
        """Process a frame."""

    def connection_lost(self, connection: "BrokerConnection", why: BaseException | None) -> None:
        """The connection is closed; ``why`` is PeerRefusedError if one side rejected the other."""


class BrokerConnection(Protocol):
    """The protocol of a plain-text connection."""

    transport: interfaces.ITCPTransport

    def __init__(self, owner: IConnectionOwner, max_response_bytes: int) -> None:
        self._owner: IConnectionOwner | None = owner
        self._reader = FrameReader(max_response_bytes)
        self._is_lost = False
        self.renew_at_s: float | None = None
        """When another connection has to take its place, in the reactor's seconds; None for never."""

    @override
    def connectionMade(self) -> None:
        """Set the socket options and notify the owner."""
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
        """Send these parts as one frame."""
        self.transport.writeSequence([_SIZE.pack(sum(map(len, parts))), *parts])

    @override
    def dataReceived(self, data: bytes) -> None:
        """Split bytes into frames and pass them to the owner."""
        try:
            for frame in self._reader.feed(data):
                if self._owner is not None:
                    self._owner.frame_received(self, frame)
        except InvalidReceiveError as error:
            self.close(error)

    def close(self, why: Exception) -> None:
        """Close at once; the owner is notified immediately, with ``why``."""
        self._notify_lost(why)
        if self.transport is not None and not self._is_lost:
            self.transport.abortConnection()

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        """Notify the owner."""
        self._is_lost = True
        assert reason is not None
        self._notify_lost(reason.value)

    def _notify_lost(self, why: BaseException | None) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.connection_lost(self, why)
