"""How kazoo's connection thread reads, writes and wakes up, through the seam that kazoo has for this: its handler.

Kazoo's own handler makes an epoll object for each wait, waits before each read and write, is woken by a byte for each request, and
completes requests on a further thread. A controller that takes over sends thousands of requests, so here answers are read together,
a thread that is awake is not woken, and the thread that reads an answer passes it directly to the waiting thread.

Kazoo counts each request as a ping, and does not check for missing answers. So this module closes a silent connection, when nothing
was read for two thirds of the session's timeout: ZooKeeper's own client does the same.
"""

import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

READ_BYTES: Final = 64 * 1024
_MS: Final = 1000
_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR


class Result(AsyncResult):  # type: ignore[misc]
    """Kazoo's result of a request; ``when_done`` runs callbacks on the connection thread."""

    def __init__(self, handler: "Handler") -> None:
        super().__init__(handler)
        self._waiting: list[Callable[[], None]] = []

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when there is an answer or an error, on the thread that completes this. It must not block."""
        self._waiting.append(callback)
        if self.ready():
            self._tell()

    def set(self, value: Any = None) -> None:
        """Store the answer."""
        super().set(value)
        self._tell()

    def set_exception(self, exception: Exception) -> None:
        """Store the error."""
        super().set_exception(exception)
        self._tell()

    def _tell(self) -> None:
        # Kazoo may complete a request twice: with its answer, and with the session that ends at the same time.
        while self._waiting:
            try:
                callback = self._waiting.pop()
            except IndexError:
                return
            callback()


class BufferedSocket:
    """A connection that reads ahead; ``pending`` says how much, as a TLS socket does."""

    def __init__(self, connected: socket.socket, now_ns: Callable[[], int]) -> None:
        self._socket = connected
        self._now_ns = now_ns
        self._last_read_ns = now_ns()
        self._buffer = b""
        self._at = 0

    def pending(self) -> int:
        """Return how many bytes can be read without waiting; at least how many."""
        left = len(self._buffer) - self._at
        if not left and isinstance(self._socket, ssl.SSLSocket):
            return self._socket.pending()
        return left

    @property
    def silent_s(self) -> float:
        """For how long nothing was read."""
        return (self._now_ns() - self._last_read_ns) / 1e9

    def recv(self, most: int) -> bytes:
        """Return up to ``most`` bytes."""
        if self._at == len(self._buffer):
            self._buffer, self._at = self._socket.recv(READ_BYTES), 0
            self._last_read_ns = self._now_ns()
        found = self._buffer[self._at : self._at + most]
        self._at += len(found)
        return found

    def send(self, data: Any) -> int:
        """Send some of the bytes; return how many."""
        return self._socket.send(data)

    def setblocking(self, is_blocking: bool) -> None:
        """Set whether calls block."""
        self._socket.setblocking(bool(is_blocking))

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class WakeUps:
    """The reading end of the pair that wakes kazoo's connection thread: one byte for each waiting request.

    The bytes are counted. Only the first one for a thread that sleeps goes through a socket.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._is_asleep = False
        self._is_woken = False
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self.sender = WakeUpSender(self._wake, self.close)

    def _wake(self, count: int) -> None:
        with self._lock:
            self._count += count
            if self._writing.fileno() < 0:
                raise OSError("closed")
            if self._is_asleep and not self._is_woken:
                self._is_woken = True
                self._writing.send(b"\0")

    def fall_asleep(self) -> bool:
        """Take note that the thread is about to wait for the socket; return whether there is nothing to do first."""
        with self._lock:
            self._is_asleep = not self._count
            return self._is_asleep

    def awake(self) -> bool:
        """Take note that the thread does not wait any more; return whether there is something to do."""
        with self._lock:
            self._is_asleep = False
            if self._is_woken:
                self._is_woken = False
                self._reading.recv(1)
            return self._count > 0

    def recv(self, most: int) -> bytes:
        """Take bytes out; raises BlockingIOError if it has none."""
        with self._lock:
            taken = min(most, self._count)
            if not taken:
                raise BlockingIOError("no requests are waiting")
            self._count -= taken
        return bytes(taken)

    def fileno(self) -> int:
        """Return the file descriptor on which a thread that has fallen asleep waits."""
        return self._reading.fileno()

    def close(self) -> None:
        """Close both ends. A sender gets OSError from now on."""
        with self._lock:
            self._reading.close()
            self._writing.close()


class WakeUpSender:
    """The writing end."""

    def __init__(self, wake: Callable[[int], None], close: Callable[[], None]) -> None:
        self._wake = wake
        self.close = close

    def send(self, data: bytes) -> int:
        """Wake the thread up, unless it is awake. Raises OSError once either end is closed."""
        self._wake(len(data))
        return len(data)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Kazoo's threads; connects with a TLS context if there is one, and keeps the last error."""

    def __init__(self, tls: ssl.SSLContext | None, now_ns: Callable[[], int]) -> None:
        """``now_ns`` is a clock that nobody sets."""
        super().__init__()
        self._tls = tls
        self._now_ns = now_ns
        self.last_error = ""
        self.read_timeout_s: float | None = None
        """How long the connection may be silent; None: for as long as it likes. A silent one answers no ping either."""

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> BufferedSocket:
        """Connect to a server; its certificate must name ``hostname``."""
        connected = None
        try:
            connected = socket.create_connection(address, timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return BufferedSocket(connected, self._now_ns)
            return BufferedSocket(self._tls.wrap_socket(connected, server_hostname=hostname), self._now_ns)
        except OSError as error:
            self.last_error = f"{hostname}:{address[1]}: {error}"
            if connected is not None:
                connected.close()
            raise

    def create_socket_pair(self) -> tuple[WakeUps, WakeUpSender]:
        """Return the sockets that wake the connection thread: the reading and the writing end."""
        wake_ups = WakeUps()
        return wake_ups, wake_ups.sender

    def async_result(self) -> Result:
        """Return a new result for a request."""
        return Result(self)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as ``select.select`` does. A socket with bytes that were read ahead is ready.

        Raises ConnectionDropped when the connection has been silent for too long.
        """
        wake_ups = next((each for each in readers if isinstance(each, WakeUps)), None)
        others = [each for each in readers if not isinstance(each, WakeUps)]
        ready: list[Any] = [each for each in others if each.pending()]
        if wake_ups is None:
            return (ready, [], []) if ready else self._wait(others, writers, timeout)
        if not ready:
            ready = self._read_or_dropped(others)
        if ready or not wake_ups.fall_asleep():
            return [*ready, *([wake_ups] if wake_ups.awake() else [])], [], []
        try:
            ready = self._wait([*others, wake_ups], writers, self._patience_s(others, timeout))[0]
        finally:
            has_requests = wake_ups.awake()
        return [each for each in ready if not isinstance(each, WakeUps)] + [wake_ups] * has_requests, [], []

    def _read_or_dropped(self, connections: Sequence[Any]) -> list[Any]:
        """Raise ConnectionDropped if a connection has been silent for too long. Return one that can be read after all."""
        if self.read_timeout_s is None:
            return []
        silent = [each for each in connections if each.silent_s >= self.read_timeout_s]
        if not silent:
            return []
        ready = self._wait(silent, [], 0)[0]
        if not ready:
            raise ConnectionDropped(f"nothing was read for {silent[0].silent_s:.1f} s")
        return ready

    def _patience_s(self, connections: Sequence[Any], timeout: float | None) -> float | None:
        """Return for how long to wait: ``timeout``, but not longer than until a connection has been silent for too long."""
        if self.read_timeout_s is None or not connections:
            return timeout
        left_s: float = max(0.0, self.read_timeout_s - max(each.silent_s for each in connections))
        return left_s if timeout is None else min(timeout, left_s)

    def _wait(
        self, readers: Sequence[Any], writers: Sequence[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for each in readers:
            poll.register(each.fileno(), _READABLE)
        for each in writers:
            poll.register(each.fileno(), select.POLLOUT)
        found = dict(poll.poll(None if timeout is None else timeout * _MS))
        return [each for each in readers if each.fileno() in found], [each for each in writers if each.fileno() in found], []
