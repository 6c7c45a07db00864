"""The network between the brokers of a cluster, as proxies before their listeners for one another, that can be cut.

Bytes that are cut off are not lost but late, as TCP has it: they arrive when the cut is mended.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.support.eventually import WAIT_S, join

_CHUNK_BYTES = 1 << 16


class Network:
    """All ways between brokers; ``processes`` tells which process is which broker now."""

    def __init__(self, processes: Callable[[], dict[int, int]]) -> None:
        """``processes`` returns the brokers' ids by process id."""
        self._processes = processes
        self._gate = threading.Condition()
        self._cut: set[tuple[int, int]] = set()
        self._is_closed = False
        self._listening: list[socket.socket] = []
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def add(self, broker_id: int, port: int) -> int:
        """Return the port by which the others reach a broker that listens on ``port``."""
        listening = socket.create_server(("127.0.0.1", 0))
        self._listening.append(listening)
        self._start(self._accept, listening, broker_id, port)
        return int(listening.getsockname()[1])

    def cut(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Let nothing through that a source sends to a target, whoever opened the connection."""
        ends = list(targets)
        with self._gate:
            self._cut |= {(source, target) for source in sources for target in ends if source != target}

    def isolate(self, broker_id: int, others: Iterable[int]) -> None:
        """Cut a broker off from others, both ways."""
        rest = list(others)
        self.cut([broker_id], rest)
        self.cut(rest, [broker_id])

    def mend(self) -> None:
        """Let everything through again."""
        with self._gate:
            self._cut.clear()
            self._gate.notify_all()

    def close(self) -> None:
        """Stop; the brokers are gone."""
        with self._gate:
            self._is_closed = True
            self._gate.notify_all()
            sockets = [*self._listening, *self._sockets]
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        join(self._threads)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True, name="network-between-brokers")
        with self._gate:
            self._threads = [each for each in self._threads if each.is_alive() or each.ident is None]
            self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket, target: int, port: int) -> None:
        while True:
            try:
                client, address = listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", port), WAIT_S)
            except OSError:  # that broker is down
                client.close()
                continue
            server.settimeout(None)
            source = _owner(self._processes(), address[1], int(listening.getsockname()[1]))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._gate:
                self._sockets |= {client, server}
            self._start(self._pass_on, client, server, (source, target))
            self._start(self._pass_on, server, client, (target, source))

    def _pass_on(self, source: socket.socket, target: socket.socket, way: tuple[int, int]) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                self._wait_for(way)
                target.sendall(data)
            self._wait_for(way)
        except OSError:
            pass
        for each in (source, target):
            with suppress(OSError):  # the other way's thread has closed it
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._gate:
            self._sockets -= {source, target}

    def _wait_for(self, way: tuple[int, int]) -> None:
        with self._gate:
            self._gate.wait_for(lambda: way not in self._cut or self._is_closed)


_NOBODY = -1


def _owner(processes: dict[int, int], port: int, peer_port: int) -> int:
    """Return the broker whose process has the socket of this port that is connected to the other; -1 if it is none's."""
    name = f"socket:[{_inode(port, peer_port)}]"
    for pid, broker_id in processes.items():
        with suppress(OSError):  # it has just ended
            for descriptor in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    if os.readlink(descriptor.path) == name:
                        return broker_id
    return _NOBODY


def _inode(port: int, peer_port: int) -> str | None:
    ends = f":{port:04X}", f":{peer_port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                return fields[9]
    return None
