"""The connection of one channel over TLS: OpenSSL on the socket itself, between the reactor and the channel.

Unlike Twisted's ``TLSMemoryBIOProtocol`` there are no memory BIOs in between: decrypted bytes go to the channel, those of a large
frame directly into its buffer; a response is encrypted piece by piece as the socket takes it (docs/adr/0009).
"""

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from OpenSSL import SSL
from twisted.internet import main
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.framing import NOT_NOW
from twisted_kafka.network.connection.transport import TURN_BYTES, WOULD_BLOCK, KafkaTransport, UnreadableFileError, read_region
from twisted_kafka.network.tls.handshakes import Handshakes
from twisted_kafka.protocol.regions import Buffer, FileRegion, Part
from twisted_kafka.tls.distinguished_name import java_name
from twisted_kafka.tls.ssl_context import is_end_of_file, reason_of

RECORD_BYTES: Final = 16 * 1024
"""Most bytes in a TLS record."""

RECORDS_PER_TURN: Final = 16
"""Most records read from one connection before the others get their turn."""

PIECE_BYTES: Final = 128 * 1024
"""How much of a response is read from its file and held in memory at a time."""

# A connection's phases.
NEW: Final = 0
HANDSHAKE: Final = 1
OPEN: Final = 2
REFUSED: Final = 3

_TLS_HANDSHAKE: Final = 0x16
_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"PRI ", b"CONN", b"DELE")
_PEEK_BYTES: Final = 4

_log = Logger()


class TlsTransport(KafkaTransport):
    """Performs the handshake, registered with its processor's ``Handshakes``, and then serves the channel."""

    def __init__(
        self, connected: socket.socket, channel: KafkaChannel, reactor: Any, tls: SSL.Connection, handshakes: Handshakes
    ) -> None:
        super().__init__(connected, channel, reactor)
        self._tls = tls
        self._handshakes = handshakes
        self._phase = NEW
        self._kind: tuple[str, str] | None = None
        self._is_piece = False  # whether the first part was passed to OpenSSL, which must get the same bytes until it takes them
        self._reads_when_writable = False
        handshakes.begin(self)

    @override
    def doRead(self) -> object:  # type: ignore[override]
        """Read some records and pass the bytes to the channel."""
        if self._phase != OPEN:
            return self._advance()
        channel, tls = self.protocol, self._tls
        try:
            for _ in range(RECORDS_PER_TURN):
                view = channel.get_buffer()
                if view is NOT_NOW:
                    return None
                if view is None:
                    data = tls.recv(RECORD_BYTES)
                    count = len(data)
                    channel.dataReceived(data)
                else:
                    with view:
                        count = tls.recv_into(view, RECORD_BYTES)
                    channel.buffer_updated(count)
                    # The record may continue after the frame, and the reactor does not see bytes that OpenSSL holds.
                    while self.connected and (rest := tls.pending()):
                        channel.dataReceived(tls.recv(rest))
                if not self.connected or count < RECORD_BYTES or channel.is_paused:
                    return None
        except SSL.Error as error:
            return self._read_error(error)
        return None

    def _read_error(self, error: SSL.Error) -> object:
        if isinstance(error, SSL.WantReadError):
            return None
        if isinstance(error, SSL.WantWriteError):  # a key update has to be sent, and the socket is full
            self._reads_when_writable = True
            self.startWriting()  # type: ignore[no-untyped-call]
            return None
        if not isinstance(error, SSL.ZeroReturnError | SSL.SysCallError) and not is_end_of_file(error):
            self.protocol.refuse(reason_of(error))
            return None
        if self.protocol.eof_received():
            return None
        return main.CONNECTION_DONE if isinstance(error, SSL.ZeroReturnError) else main.CONNECTION_LOST

    @override
    def send(self, parts: Sequence[Part], size_bytes: int) -> bool:
        """Send all parts. Return whether the socket took everything; otherwise the channel's ``send_completed`` is called later."""
        if len(parts) == 1 and not self._parts and size_bytes <= RECORD_BYTES and type(parts[0]) is bytes:
            self._parts.append(parts[0])
            self._is_piece = True
        else:
            self._parts.extend(parts)
        why = self._push()
        if why is not None:
            self.connectionLost(Failure(why))  # type: ignore[no-untyped-call]
            return False
        if self._parts:
            self.startWriting()  # type: ignore[no-untyped-call]
            return False
        return True

    @override
    def doWrite(self) -> object:  # type: ignore[override]
        """Continue when the socket takes more."""
        if self._phase != OPEN:
            self.stopWriting()  # type: ignore[no-untyped-call]
            return self._advance()
        if self._reads_when_writable:
            self._reads_when_writable = False
            if not self._parts:
                self.stopWriting()  # type: ignore[no-untyped-call]
            why = self.doRead()
            if why is not None or not self._parts or not self.connected:
                return why
        return super().doWrite()

    @override
    def _push(self) -> Exception | None:
        parts, tls = self._parts, self._tls
        left = TURN_BYTES
        try:
            while parts and left > 0:
                if not self._is_piece:
                    self._make_piece()
                head = parts[0]
                tls.send(head)  # type: ignore[arg-type]  # all of it, or it raises: partial writes are off (ssl_context.py)
                left -= len(head)
                parts.popleft()
                self._is_piece = False
        except (SSL.WantWriteError, SSL.WantReadError):
            return None
        except SSL.Error:
            return main.CONNECTION_LOST
        except UnreadableFileError as error:
            self.protocol.response_unreadable(str(error))
            return main.CONNECTION_LOST
        return None

    def _make_piece(self) -> None:
        """Make the first part one piece of bytes, joining small parts and cutting large parts and file regions."""
        parts = self._parts
        found: list[Buffer] = []
        room = PIECE_BYTES
        while parts and room > 0:
            head = parts[0]
            size = min(len(head), room)
            if size:
                found.append(read_region(head.slice(0, size)) if isinstance(head, FileRegion) else memoryview(head)[:size])
            self._drop(size)
            room -= size
            if parts and not len(parts[0]):
                parts.popleft()
        parts.appendleft(found[0] if len(found) == 1 else b"".join(found))
        self._is_piece = True

    # The handshake.

    def _advance(self) -> object:
        if self._phase == REFUSED:
            return main.CONNECTION_DONE  # the client has disconnected; nothing more is read
        if self._phase == NEW:
            first = self._first_bytes()
            if first is None:
                return None
            if not first:
                return main.CONNECTION_DONE  # a port check that sends nothing
            if first[0] != _TLS_HANDSHAKE:
                return self._refuse(_identify(first))
            self._phase = HANDSHAKE
            self.protocol.has_sent = True
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            return None
        except SSL.WantWriteError:
            self.startWriting()  # type: ignore[no-untyped-call]
            return None
        except SSL.Error as error:
            return self._refuse(reason_of(error, self._tls))
        return self._authenticated()

    def _first_bytes(self) -> bytes | None:
        try:
            return self.socket.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except OSError as error:
            return None if error.errno in WOULD_BLOCK else b""

    def _authenticated(self) -> object:
        tls, connection = self._tls, self.protocol.connection
        uses_sasl = connection.authenticator is not None
        certificate = None if uses_sasl else tls.get_peer_certificate(as_cryptography=True)
        if certificate is not None:
            try:
                connection.principal = self._handshakes.to_principal(java_name(certificate.subject.public_bytes()), connection)
            except ValueError as error:
                return self._refuse(str(error))
        if not uses_sasl:
            stats = self.protocol.stats
            stats.successful_authentications += 1
            stats.successful_authentications_no_reauth += 1  # there is no re-authentication with certificates
        protocol = tls.get_protocol_version_name()
        self._kind = self._handshakes.succeed(self, tls.get_cipher_name() or "unknown", protocol)
        self._phase = OPEN
        _log.debug(
            "SSL handshake of {id} completed: {principal}, {protocol}, {suite}",
            id=connection.connection_id,
            principal=str(connection.principal),
            protocol=protocol,
            suite=self._kind[0],
        )
        return None

    def _refuse(self, why: str) -> object:
        """Stop sending, and close after a delay: closing a socket with unread bytes at once would discard the TLS alert."""
        self._phase = REFUSED
        self._handshakes.fail(self, self.protocol.connection_id, why)
        self.protocol.tell_refusal(why)
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        self.protocol.close_after_failed_authentication()
        return None

    @property
    def is_silent(self) -> bool:
        """Whether its client has sent nothing."""
        return self._phase == NEW and bool(self.connected) and not self._first_bytes()

    def give_up(self, why: str) -> None:
        """Close a connection whose handshake takes too long."""
        if self.connected:
            self._handshakes.fail(self, self.protocol.connection_id, why)
            self.protocol.stats.failed_authentications += 1
            self.abortConnection()

    # Closing.

    @override
    def end_sending(self) -> None:
        """Send a close_notify alert and shut down the sending side. Data that the socket has not taken yet is discarded."""
        if self._phase == OPEN and not self._parts:
            with suppress(SSL.Error):
                self._tls.shutdown()
        super().end_sending()

    @override
    def abortConnection(self) -> None:
        """Close at once and discard unsent data, except for a close_notify alert."""
        if self.connected and self._phase == OPEN and not self._parts:
            with suppress(SSL.Error):
                self._tls.shutdown()
        super().abortConnection()

    @override
    def connectionLost(self, reason: Failure) -> None:
        """Close the socket and update the handshakes."""
        self._handshakes.forget(self)
        if self._kind is not None:
            self._handshakes.disconnected(self._kind)
            self._kind = None
        super().connectionLost(reason)


def _identify(first: bytes) -> str:
    if first[:1] == b"\0":
        return "the client speaks Kafka without TLS: set its security.protocol to SSL, or use a plain-text listener"
    if first in _HTTP:
        return "the client speaks HTTP, but this listener speaks the Kafka protocol over TLS"
    return "the client's first bytes are not TLS"
