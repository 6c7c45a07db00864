"""Many connections at once that pour bytes into a listener."""

import contextlib
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

READ_BYTES = 1 << 18
IDLE_S = 3.0
"""Connections to which nothing could be sent for this long have said what they had to say."""

CONNECT_S = 30.0
SPARE_DESCRIPTORS = 500
"""What a process needs besides the connections that stay."""
LIMIT_S = 120.0
"""A listener that closes what it does not like takes little: after this time it has been tried long enough."""


@dataclass
class Stream:
    """What one connection sends; with ``reads`` it takes what it is answered, with ``stays`` it stays open until the others end."""

    chunks: Iterator[bytes]
    reads: bool = True
    stays: bool = False


@dataclass
class Poured:
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
    closed_by_peer: int = 0


@dataclass(eq=False)
class _Pouring:
    socket: socket.socket
    stream: Stream
    left: memoryview = field(default_factory=lambda: memoryview(b""))
    is_done: bool = False

    def pour(self) -> int:
        """Send what the socket takes and return the count; raises StopIteration at the end of the stream."""
        if not self.left:
            self.left = memoryview(next(self.stream.chunks))
        sent = self.socket.send(self.left)
        self.left = self.left[sent:]
        return sent


def pour(port: int, streams: Iterator[Stream], budget_bytes: int, at_once: int = 20, limit_s: float = LIMIT_S) -> Poured:
    """Send streams, ``at_once`` at a time, until ``budget_bytes`` are sent, no stream or descriptor is left, or nothing moves."""
    done = Poured()
    selector = selectors.DefaultSelector()
    staying: list[socket.socket] = []
    most_staying = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS
    end = time.monotonic() + limit_s

    def close(each: _Pouring) -> None:
        selector.unregister(each.socket)
        if each.stream.stays:
            staying.append(each.socket)
        else:
            each.socket.close()

    def half_close(each: _Pouring) -> None:
        if not each.stream.reads or each.stream.stays:
            close(each)
            return
        with contextlib.suppress(OSError):
            each.socket.shutdown(socket.SHUT_WR)
        each.is_done = True
        selector.modify(each.socket, selectors.EVENT_READ, each)

    try:
        while time.monotonic() < end:
            is_spent = done.sent_bytes >= budget_bytes or len(staying) >= most_staying
            if is_spent:
                for key in list(selector.get_map().values()):
                    if key.events & selectors.EVENT_WRITE:
                        half_close(key.data)
                if not selector.get_map():
                    break
            while not is_spent and len(selector.get_map()) < at_once and (stream := next(streams, None)) is not None:
                connection = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_S)
                connection.setblocking(False)
                events = selectors.EVENT_WRITE | (selectors.EVENT_READ if stream.reads else 0)
                selector.register(connection, events, _Pouring(connection, stream))
                done.connections += 1
            ready = selector.select(IDLE_S)
            if not ready:
                break
            for key, events in ready:
                try:
                    if events & selectors.EVENT_READ:
                        received = len(key.data.socket.recv(READ_BYTES))
                        if not received:
                            raise ConnectionResetError
                        done.received_bytes += received
                    if events & selectors.EVENT_WRITE:
                        done.sent_bytes += key.data.pour()
                except BlockingIOError:
                    continue
                except StopIteration:
                    half_close(key.data)
                except OSError:
                    done.closed_by_peer += not key.data.is_done
                    key.data.stream.stays = False
                    close(key.data)
        return done
    finally:
        for key in list(selector.get_map().values()):
            key.data.socket.close()
        for each in staying:
            each.close()
        selector.close()


def peak_rss_bytes(pid: int) -> int:
    """Return the most memory that a process had since ``forget_peak_rss`` (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def forget_peak_rss(pid: int) -> None:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
