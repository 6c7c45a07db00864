"""A real ZooKeeper for tests, and a proxy before it that loses answers and ends sessions.

The server takes a second to start, so a process of tests has one at most, and each test a path of its own on it.
"""

import shutil
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.clients.clients import java_class_path, java_machine
from tests.support.eventually import eventually, join
from tests.support.ports import free_port
from tests.support.processes import start_tied

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_NAMES, SYNC, GET_CHILDREN, MULTI, CLOSE = 1, 2, 3, 4, 5, 8, 9, 12, 14, -11
"""Types of requests. GET_NAMES is ZooKeeper's getChildren, GET_CHILDREN its getChildren2."""
_INT = struct.Struct("!i")
_CONNECT = struct.Struct("!iqiqi16s?")
_CONNECTED = struct.Struct("!iiqi16s")
TICK_MS = 100
"""ZooKeeper's unit: the shortest session timeout is two of them."""
_LONG_S = 10
"""How long the servers of an ensemble wait for one another."""


class ZooKeeper:
    """A server alone below ``directory``, with more ``settings`` of its properties file."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.directory = directory
        self.port = free_port()
        self._settings = settings
        self.java_options: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.launch()
        self.wait_until_it_serves()

    def launch(self) -> None:
        """Start it."""
        class_path = java_class_path()
        assert class_path is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "zookeeper.properties"
        values: dict[str, object] = {
            "dataDir": self.directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": TICK_MS,
            "maxSessionTimeout": 60_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,wchp",
            **self._settings,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        command = [*java_machine(class_path), "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(properties)]
        command[1:1] = ["-Dzookeeper.forceSync=no", "-XX:+UseSerialGC", "-Xshare:auto", *self.java_options]
        with (self.directory / "log").open("ab") as log:
            self._process = start_tied(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_until_it_serves(self) -> None:
        """Wait for a server that was launched. One of an ensemble serves while most of that run."""
        eventually(self._serves, lambda: (self.directory / "log").read_text()[-2000:])

    @property
    def leads(self) -> bool:
        """Whether it leads its ensemble."""
        return b"Mode: leader" in self._status()

    def _serves(self) -> bool:
        assert self._process.poll() is None, (self.directory / "log").read_text()[-2000:]
        return b"Mode:" in self._status()

    def _status(self) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.settimeout(1)
                probe.sendall(b"srvr")
                return probe.recv(4096)
        except OSError:
            return b""

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None


class Ensemble:
    """Servers of which one leads, while most of them run."""

    def __init__(self, directory: Path, count: int) -> None:
        peers = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in range(1, count + 1)}
        limits = {"initLimit": _LONG_S * 1000 // TICK_MS, "syncLimit": _LONG_S * 1000 // TICK_MS}
        self.servers = [ZooKeeper(directory / str(number), **peers, **limits) for number in range(1, count + 1)]

    @property
    def address(self) -> str:
        return ",".join(each.address for each in self.servers)

    @property
    def port(self) -> int:
        """The port of the first one."""
        return self.servers[0].port

    @property
    def leader(self) -> ZooKeeper:
        """The server that leads; waits until one does."""
        return eventually(lambda: next((each for each in self.servers if each.leads), None))

    def start(self) -> None:
        """Start them and wait until all serve."""
        for number, server in enumerate(self.servers, 1):
            data = server.directory / "data"
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(str(number))
            server.launch()
        for server in self.servers:
            server.wait_until_it_serves()

    def kill(self) -> None:
        """End them at once."""
        for server in self.servers:
            server.kill()


def needs_zookeeper() -> None:
    """Skip the test where there is no Java to run a ZooKeeper."""
    if not (shutil.which("java") and shutil.which("mvn")):
        pytest.skip("needs Java and Maven, for ZooKeeper")


@contextmanager
def proxied(server: ZooKeeper) -> Iterator["Proxy"]:
    """A proxy before a server."""
    proxy = Proxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()


class Proxy:
    """Passes frames on between clients and a server, and fails on request."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lock = threading.Lock()
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lost_type: int | None = None
        self._refuses = False
        self._silent: set[tuple[socket.socket, socket.socket]] = set()
        self.sessions: list[tuple[int, bytes]] = []
        """Id and password of each session that was opened through it, in order."""
        self.connections = 0
        """How many there have been."""
        self.requests: list[int] = []
        """The types of the requests so far."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def lose_answer_of(self, request_type: int) -> None:
        """Have the next request of this type executed, and close the client's connection instead of answering."""
        self._lost_type = request_type

    def fall_silent(self) -> None:
        """Pass no answers on over the connections that there are. Requests still arrive."""
        with self._lock:
            self._silent.update(self._links)

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._refuses = True
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            _close(link)

    def mend(self) -> None:
        """Accept connections again."""
        self._refuses = False

    def expire(self) -> None:
        """End the latest session on the server, behind its client's back."""
        session, password = self.sessions[-1]
        with socket.create_connection(("127.0.0.1", self._server_port)) as other:
            _send(other, _CONNECT.pack(0, 0, 10_000, session, 16, password, False))
            assert _CONNECTED.unpack_from(_frame(other))[2] == session
            _send(other, struct.pack("!ii", 1, CLOSE))
            _frame(other)

    def close(self) -> None:
        """Stop."""
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        join(self._threads)

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            link = (client, server)
            for end in link:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            with self._lock:
                self._links.append(link)
            lost: set[int] = set()
            self._start(self._pass_requests, link, lost)
            self._start(self._pass_answers, link, lost)

    def _pass_requests(self, link: tuple[socket.socket, socket.socket], lost: set[int]) -> None:
        client, server = link
        try:
            _send(server, _frame(client))
            while True:
                frame = _frame(client)
                xid, kind = struct.unpack_from("!ii", frame)
                self.requests.append(kind)
                if kind == self._lost_type:
                    self._lost_type = None
                    lost.add(xid)
                _send(server, frame)
        except OSError:
            _close(link)

    def _pass_answers(self, link: tuple[socket.socket, socket.socket], lost: set[int]) -> None:
        client, server = link
        try:
            frame = _frame(server)
            _, timeout_ms, session, _, password = _CONNECTED.unpack_from(frame)
            if timeout_ms > 0 and (session, password) not in self.sessions:
                self.sessions.append((session, password))
            _send(client, frame)
            while True:
                frame = _frame(server)
                if _INT.unpack_from(frame)[0] in lost:
                    raise OSError("lost")
                if link not in self._silent:
                    _send(client, frame)
        except OSError:
            _close(link)


def _send(to: socket.socket, frame: bytes) -> None:
    to.sendall(_INT.pack(len(frame)) + frame)


def _frame(peer: socket.socket) -> bytes:
    return _exactly(peer, _INT.unpack(_exactly(peer, 4))[0])


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def _close(link: tuple[socket.socket, socket.socket]) -> None:
    for end in link:
        with suppress(OSError):  # closed already
            end.shutdown(socket.SHUT_RDWR)
        end.close()
