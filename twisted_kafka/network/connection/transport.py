"""A TCP connection that sends lists of byte strings and file regions.

Compared with Twisted's own connection: a response is sent immediately, small parts gathered into one ``sendmsg`` and regions
of log files with ``sendfile``; only what the socket does not take waits for the reactor. A large request is received directly into
its frame's buffer.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from twisted.internet import error, main
from twisted.internet.interfaces import IReactorFDSet
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.network.connection.channel import READ_BYTES, KafkaChannel
from twisted_kafka.network.connection.framing import NOT_NOW
from twisted_kafka.protocol.regions import Buffer, FileRegion, Part
from twisted_kafka.system import machine
from twisted_kafka.system.buffers import receive, send_gathered
from twisted_kafka.system.platform import HAS_POSITIONS

GATHERED_PARTS = 64
"""Most parts in one sendmsg (the system's own limit, IOV_MAX, is 1,024)."""

TURN_BYTES = 4 * 1024 * 1024
"""The most bytes that one connection sends before other connections get their turn."""

WOULD_BLOCK = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR, errno.ENOBUFS)
_CLIENT_IS_GONE = (
    errno.EPIPE,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ENOTCONN,
    errno.ESHUTDOWN,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
)
"""The errors of ``sendfile`` that come from the socket; any other comes from the file."""
_MSG_MORE = getattr(socket, "MSG_MORE", 0)
_LOST = Failure(main.CONNECTION_LOST)  # type: ignore[no-untyped-call]
_HAS_SENDFILE = HAS_POSITIONS and hasattr(os, "sendfile")


class UnreadableFileError(Exception):
    """A part of a response cannot be read from its file; the text names the file."""

    def __init__(self, region: FileRegion, why: object) -> None:
        # An OSError's own text would name no file, for it comes from a descriptor.
        super().__init__(f"cannot read {region.file.name}: {why}")


def read_region(region: FileRegion) -> bytes:
    """Return the bytes of ``region``; raises UnreadableFileError."""
    try:
        return region.read()
    except OSError as error:
        raise UnreadableFileError(region, error.strerror) from error


class KafkaTransport(Connection):
    """The connection of one channel, on the reactor of its processor."""

    # Twisted's base classes need an instance dictionary: no __slots__ here.
    protocol: KafkaChannel  # type: ignore[assignment]

    def __init__(self, connected: socket.socket, channel: KafkaChannel, reactor: IReactorFDSet) -> None:
        super().__init__(connected, channel, reactor)  # type: ignore[arg-type]
        self.connected = 1
        self._is_new = True
        self._parts: deque[Part] = deque()

    @override
    def resumeProducing(self) -> None:
        """Start or resume reading. The first time, read immediately: a new client's first request has usually arrived already."""
        super().resumeProducing()  # type: ignore[no-untyped-call]
        if self._is_new:
            self._is_new = False
            why = self.doRead()
            if isinstance(why, Exception):
                self.connectionLost(Failure(why))  # type: ignore[no-untyped-call]

    @override
    def doRead(self) -> object:  # type: ignore[override]
        """Read once and pass the bytes to the channel."""
        channel = self.protocol
        view = channel.get_buffer()
        if view is NOT_NOW:
            return None
        try:
            if view is None:
                data = receive(self.socket, channel.read_bytes)
                count = len(data)
            else:
                with view:
                    count = self.socket.recv_into(view)
        except OSError as error:
            return None if error.errno in WOULD_BLOCK or channel.eof_received() else main.CONNECTION_LOST
        if not count:
            return None if channel.eof_received() else main.CONNECTION_DONE
        if view is None:
            channel.dataReceived(data)
        else:
            channel.buffer_updated(count)
        return None

    def send(self, parts: Sequence[Part], size_bytes: int) -> bool:
        """Send all parts. Return whether the socket took everything; otherwise the channel's ``send_completed`` is called later."""
        if len(parts) == 1 and not self._parts:
            data = parts[0]
            if type(data) is bytes:
                try:
                    count = self.socket.send(data)
                except OSError as error:
                    if error.errno not in WOULD_BLOCK:
                        self.connectionLost(_LOST)
                        return False
                    count = 0
                if count == size_bytes:
                    return True
                self._parts.append(memoryview(data)[count:])
                self.startWriting()  # type: ignore[no-untyped-call]
                return False
        self._parts.extend(parts)
        why = self._push()
        if why is not None:
            self.connectionLost(_LOST)
            return False
        if self._parts:
            self.startWriting()  # type: ignore[no-untyped-call]
            return False
        return True

    def resume_sending(self) -> None:
        """Continue with a response whose files have been loaded."""
        if self.connected and self._parts:
            self.startWriting()  # type: ignore[no-untyped-call]

    def end_sending(self) -> None:
        """Shut down the sending side. Data that the socket has not taken yet is discarded."""
        self._parts.clear()
        self.stopWriting()  # type: ignore[no-untyped-call]
        with suppress(OSError):  # the client may have disconnected
            self.socket.shutdown(socket.SHUT_WR)

    def has_unread(self) -> bool:
        """Whether the client has sent something that was not read yet."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    @override
    def readConnectionLost(self, reason: Failure) -> None:
        """Close. A client that has only shut down its sending side is handled by ``KafkaChannel.eof_received``."""
        self.connectionLost(reason)

    @override
    def connectionLost(self, reason: Failure) -> None:
        """Close the socket and notify the channel. Further calls do nothing.

        This replaces Twisted's implementation, without the parts that no channel has (producers, IHalfCloseableProtocol).
        """
        if self.disconnected:
            return
        self.disconnected = 1
        self.connected = 0
        self.reactor.removeReader(self)
        self.reactor.removeWriter(self)
        self._closeSocket(not isinstance(reason.value, error.ConnectionAborted))
        channel = self.protocol
        del self.protocol, self.socket, self.fileno  # breaks the reference cycle
        channel.connectionLost(reason)

    @override
    def _closeSocket(self, orderly: bool) -> None:
        if orderly:
            self.socket.close()  # Twisted calls shutdown first: one more system call with the same effect
        else:
            super()._closeSocket(orderly)  # type: ignore[no-untyped-call]

    @override
    def abortConnection(self) -> None:
        """Close at once and discard unsent data."""
        if self.connected:
            self.connectionLost(Failure(main.CONNECTION_DONE))  # type: ignore[no-untyped-call]

    @override
    def doWrite(self) -> object:  # type: ignore[override]
        """Continue sending when the socket takes more."""
        if not self.connected:
            return None
        if not self._parts:
            return super().doWrite()  # type: ignore[no-untyped-call]
        regions = [part for part in self._parts if isinstance(part, FileRegion)]
        if regions and self.protocol.load(regions):
            self.stopWriting()  # type: ignore[no-untyped-call]
            return None
        before = self._remaining_parts()
        why = self._push()
        if why is not None:
            return why
        if not self._parts:
            self.stopWriting()  # type: ignore[no-untyped-call]
            self.protocol.send_completed()
        elif self._remaining_parts() != before:
            self.protocol.send_progressed()
        return None

    def _remaining_parts(self) -> tuple[int, int]:
        return len(self._parts), len(self._parts[0]) if self._parts else 0

    def _push(self) -> Exception | None:
        """Send until nothing is left, the socket is full or the turn is over. Return the error if the connection is lost."""
        parts = self._parts
        left = TURN_BYTES
        try:
            while parts and left > 0:
                head = parts[0]
                if isinstance(head, FileRegion):
                    count = self._send_region(head, left)
                else:
                    count = self._send_gathered()
                left -= count
        except OSError as error:
            return None if error.errno in WOULD_BLOCK else main.CONNECTION_LOST
        except UnreadableFileError as error:
            self.protocol.response_unreadable(str(error))
            return main.CONNECTION_LOST
        return None

    def _send_gathered(self) -> int:
        buffers: list[Buffer] = []
        flags = 0
        for part in self._parts:
            if isinstance(part, FileRegion):
                flags = _MSG_MORE
                break
            if len(buffers) == GATHERED_PARTS:
                break
            buffers.append(part)
        count = send_gathered(self.socket, buffers, flags)
        self._drop(count)
        return count

    def _send_region(self, region: FileRegion, limit: int) -> int:
        size = min(region.size_bytes, limit)
        if size:
            if _HAS_SENDFILE and not machine.is_simulated:
                count = self._sendfile(region, size)
            else:
                count = self.socket.send(read_region(region.slice(0, min(size, READ_BYTES))))
        else:
            count = 0
        self._drop(count)
        return count

    def _sendfile(self, region: FileRegion, size: int) -> int:
        try:
            count = os.sendfile(self.socket.fileno(), region.file.fileno(), region.position, size)
        except OSError as error:
            if error.errno in WOULD_BLOCK or error.errno in _CLIENT_IS_GONE:
                raise
            # The disk's error, which Apache Kafka takes for a client that went away (KAFKA-16304).
            raise UnreadableFileError(region, error) from error
        if not count:
            raise UnreadableFileError(region, f"the file ends before position {region.position + region.size_bytes}")
        return count

    def _drop(self, count: int) -> None:
        parts = self._parts
        while parts:
            head = parts[0]
            size = len(head)
            if count < size:
                if count:
                    parts[0] = head.slice(count, size - count) if isinstance(head, FileRegion) else memoryview(head)[count:]
                return
            count -= size
            parts.popleft()
