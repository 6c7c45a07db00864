"""A network in memory: hosts with names and addresses, links with latency, bandwidth and partitions, and TCP between them.

A ``Socket`` has the methods of ``socket.socket`` that the broker's transports, Twisted and asyncio call, without blocking. Bytes
arrive in order, cut anywhere. As with TCP, a partition only delays bytes, a host without power never answers, and a process
that is gone answers with a reset.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final
from zlib import crc32

from typing_extensions import override

from twisted_kafka.world.machine.scheduler import Actor, Owner, Scheduler

READ: Final = 1
WRITE: Final = 2
WINDOW_BYTES: Final = 256 * 1024
"""Most bytes of one direction of a connection that are sent and not read yet."""
FIRST_DESCRIPTOR: Final = 1_000_000
"""Above the descriptors of real files, so that a call of the system for a simulated socket fails."""
FIRST_PORT: Final = 40_000
LAST_PORT: Final = 0xFFFF
SYN_RETRIES_NS: Final = tuple(seconds * 1_000_000_000 for seconds in (1, 2, 4, 8, 16, 32, 64))
"""When an unanswered connection attempt is repeated; after the last one it fails with ETIMEDOUT (Linux: tcp_syn_retries=6)."""
RETRANSMISSION_NS: Final = 900_000_000_000
"""An end of a connection whose bytes have not arrived for so long gives up with ETIMEDOUT (Linux: tcp_retries2=15)."""
BUSY_POLLS: Final = 50
"""After this number of polls in a row without a wait, a thread lets others go on and a microsecond pass."""
_SPLIT_SHARE: Final = 0.05
_YIELD_NS: Final = 1_000


class Host:
    """A machine of the network."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_up = True
        """Whether it has power. Bytes for a host without power wait for it, as for one behind a partition."""
        self.next_port = FIRST_PORT


class Link:
    """One direction between two hosts."""

    def __init__(self) -> None:
        self.is_cut = False
        self.extra_ns = 0
        """Added to the latency."""
        self.waiting: list[Callable[[], object]] = []
        """What arrives when the link works again."""


class Poller:
    """What one loop waits for (epoll). Level-triggered."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._interests: dict[int, tuple[Socket, int]] = {}
        self._changed: dict[int, None] = {}
        self._sleeper: Actor | None = None
        self._is_woken = False
        self._busy = 0

    def watch(self, watched: "Socket", events: int) -> None:
        """Report these events of a socket from now on; none if 0."""
        fd = watched.fileno()
        if not events:
            self._interests.pop(fd, None)
            self._changed.pop(fd, None)
            watched.pollers.pop(self, None)
            return
        self._interests[fd] = (watched, events)
        watched.pollers[self] = None
        self.changed(fd)

    def forget(self, fd: int) -> None:
        """Report nothing more of a socket that may be closed."""
        known = self._interests.pop(fd, None)
        self._changed.pop(fd, None)
        if known is not None:
            known[0].pollers.pop(self, None)

    def changed(self, fd: int) -> None:
        """Look at a socket again."""
        if fd in self._interests:
            self._changed[fd] = None
            if self._sleeper is not None:
                self._scheduler.wake(self._sleeper)

    def wake(self) -> None:
        """End the present or the next wait."""
        self._is_woken = True
        if self._sleeper is not None:
            self._scheduler.wake(self._sleeper)

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        """Return descriptors and their events; wait for one, for ``wake``, or for at most ``timeout_ns``."""
        found = self._collect()
        if found or self._is_woken or timeout_ns == 0:
            self._busy += 1
            if self._busy < BUSY_POLLS:
                self._is_woken = False
                return found
            timeout_ns = _YIELD_NS
        self._busy = 0
        self._sleeper = self._scheduler.current
        try:
            self._scheduler.wait(timeout_ns)
        finally:
            self._sleeper = None
        self._is_woken = False
        return self._collect()

    def _collect(self) -> list[tuple[int, int]]:
        found = []
        for fd in list(self._changed):
            watched, events = self._interests[fd]
            ready = events & watched.readiness()
            if ready:
                found.append((fd, ready))
            else:
                del self._changed[fd]
        return found


class Network:
    """All hosts and links of a world."""

    def __init__(self, scheduler: Scheduler, seed: int, note: Callable[[str, str], object]) -> None:
        """``note`` gets lines of the trace: who, and what happened."""
        self.scheduler = scheduler
        self.note = note
        self.latency_ns = (50_000, 1_000_000)
        self.bytes_per_second = 100_000_000
        self.hosts: dict[str, Host] = {}
        self.listeners: dict[tuple[str, int], Socket] = {}
        self.random = Random(seed)
        self._by_name: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._descriptor = FIRST_DESCRIPTOR
        self._open: dict[int, Socket] = {}
        self.bytes_arrived = 0

    # Hosts

    def add_host(self, name: str, address: str) -> Host:
        """Add a host, which has power."""
        host = self._by_name[name] = self.hosts[address] = Host(name, address)
        return host

    def resolve(self, name: str) -> str:
        """Return the address of a host's name. Raises socket.gaierror for an unknown one."""
        if name in self.hosts or name in ("127.0.0.1", "0.0.0.0"):
            return name
        if name == "localhost":
            return "127.0.0.1"
        host = self._by_name.get(name)
        if host is None:
            raise socket.gaierror(socket.EAI_NONAME, f"the world has no host {name!r}")
        return host.address

    def getaddrinfo(self, host: Any, port: Any, *_families: int, flags: int = 0, **_: int) -> list[tuple[Any, ...]]:
        """``socket.getaddrinfo``, which knows IPv4 and TCP only, whatever the caller asks for."""
        name = host.decode() if isinstance(host, bytes) else host
        if name is None or name == "":
            name = "0.0.0.0" if flags & socket.AI_PASSIVE else "127.0.0.1"
        if flags & socket.AI_NUMERICHOST and not name.replace(".", "").isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        address = self.resolve(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, name, (address, int(port or 0)))]

    def link(self, source: Host, target: Host) -> Link:
        """Return one direction between two hosts."""
        key = source.name, target.name
        found = self._links.get(key)
        if found is None:
            found = self._links[key] = Link()
        return found

    def cut(self, source: Host, target: Host) -> None:
        """Let nothing arrive in this direction until ``mend``."""
        self.link(source, target).is_cut = True

    def mend(self, source: Host, target: Host) -> None:
        """Let bytes arrive again, those of the meantime first."""
        link = self.link(source, target)
        link.is_cut = False
        self._release(link)

    def power_on(self, host: Host) -> None:
        """Let a host receive again."""
        host.is_up = True
        for (_, target), link in self._links.items():
            if target == host.name:
                self._release(link)

    def _release(self, link: Link) -> None:
        waiting, link.waiting = link.waiting, []
        delay_ns = self.delay_ns(0)
        for arrive in waiting:
            self.scheduler.call_later(delay_ns, arrive)

    def is_passable(self, source: Host, target: Host) -> bool:
        """Return whether something sent now arrives."""
        return source is target or (target.is_up and not self.link(source, target).is_cut)

    def delay_ns(self, size_bytes: int) -> int:
        """Draw the time that bytes of this size take."""
        return self.random.randint(*self.latency_ns) + size_bytes * 1_000_000_000 // self.bytes_per_second

    # Sockets

    def make_socket(self, *_: object, **__: object) -> "Socket":
        """Make a TCP socket of the current process (``socket.socket``)."""
        return Socket(self, self.scheduler.current.owner)

    def socket_of(self, fd: int) -> "Socket":
        """Return an open socket. Raises KeyError."""
        return self._open[fd]

    def register(self, made: "Socket") -> int:
        """Return a new descriptor."""
        self._descriptor += 1
        self._open[self._descriptor] = made
        return self._descriptor

    def forget(self, fd: int) -> None:
        """Forget a closed socket."""
        self._open.pop(fd, None)

    def process_gone(self, owner: Owner, *, silently: bool) -> None:
        """Close a process's sockets as the system does; ``silently`` if the system is gone, too."""
        for each in [each for each in self._open.values() if each.owner is owner]:
            if silently:
                each.vanish()
            else:
                each.shut()


class Socket:
    """One end of a connection, or a listening socket."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, network: Network, owner: Owner) -> None:
        self.owner = owner
        self.pollers: dict[Poller, None] = {}
        self._network = network
        self._scheduler = network.scheduler
        self._host: Host = owner.host
        self._fd = network.register(self)
        self._name: tuple[str, int] = ("0.0.0.0", 0)
        self._peer_name: tuple[str, int] | None = None
        self._peer: Socket | None = None
        self._peer_host: Host | None = None
        self._backlog: deque[Socket] | None = None
        self._most_waiting = 0
        self._received = bytearray()
        self._unarrived: deque[tuple[bytes, bool]] = deque()
        self._in_flight_bytes = 0
        self._last_arrival_ns = 0
        self._held_ns = 0
        """Since when bytes have waited at a link that is cut; 0 if none do."""
        self._has_eof = self._is_connected = self._is_connecting = self._is_shut = self._is_gone = False
        self._error = 0

    # Setting up

    def bind(self, address: tuple[str, int]) -> None:
        host, port = address[0], address[1]
        if host not in ("0.0.0.0", "127.0.0.1", self._host.address):
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        port = port or self._free_port()
        if (self._host.address, port) in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._name = (self._host.address, port)

    def _free_port(self) -> int:
        host = self._host
        while True:
            host.next_port = host.next_port + 1 if host.next_port < LAST_PORT else FIRST_PORT
            if (host.address, host.next_port) not in self._network.listeners:
                return host.next_port

    def listen(self, backlog: int = 128) -> None:
        self._backlog = deque()
        self._most_waiting = max(1, backlog)
        self._network.listeners[self._name] = self

    def accept(self) -> "tuple[Socket, tuple[str, int]]":
        self._scheduler.check_alive()
        if not self._backlog:
            raise BlockingIOError(errno.EAGAIN, "no connection waits")
        accepted = self._backlog.popleft()
        return accepted, accepted.getpeername()

    def connect(self, address: tuple[str, int]) -> None:
        """``socket.connect`` of a socket that does not block: raises BlockingIOError for an attempt that has begun."""
        code = self.connect_ex(address)
        if code == errno.EINPROGRESS:
            raise BlockingIOError(code, os.strerror(code))
        if code:
            raise OSError(code, os.strerror(code))

    def connect_ex(self, address: tuple[str, int]) -> int:
        self._scheduler.check_alive()
        if self._is_connected:
            return errno.EISCONN
        if self._is_connecting:
            return errno.EALREADY
        name = address[0]
        target = self._host if name in ("127.0.0.1", "0.0.0.0") else self._network.hosts.get(name)
        if target is None:
            return errno.ENETUNREACH
        self._is_connecting = True
        self._peer_host = target
        self._peer_name = (target.address, address[1])
        if not self._name[1]:
            self._name = (self._host.address, self._free_port())
        self._attempt(0)
        return errno.EINPROGRESS

    def _attempt(self, count: int) -> None:
        """Send the first packet of a connection (SYN), again if no answer comes."""
        assert self._peer_host is not None
        if not self._is_connecting or self._fd < 0:
            return
        if count > len(SYN_RETRIES_NS) - 1:
            self._fail(errno.ETIMEDOUT)
            return
        self._scheduler.call_later(self._network.delay_ns(0), self._syn_arrives)
        self._scheduler.call_later(SYN_RETRIES_NS[count], self._attempt, count + 1)

    def _syn_arrives(self) -> None:
        network, target = self._network, self._peer_host
        assert target is not None
        assert self._peer_name is not None
        if not self._is_connecting or self._is_gone or not network.is_passable(self._host, target):
            return
        listening = network.listeners.get(self._peer_name)
        if listening is None:
            self._answer(self._fail, errno.ECONNREFUSED)
            return
        backlog = listening._backlog
        if self._peer is not None and not self._peer._is_gone:
            return
        if backlog is None or len(backlog) >= listening._most_waiting or listening.owner.is_paused:
            return
        other = Socket(network, listening.owner)
        other._name, other._peer_name = self._peer_name, self._name
        other._peer, other._peer_host, other._is_connected = self, self._host, True
        self._peer = other
        backlog.append(other)
        network.note(listening.owner.name, f"connection from {self._host.name}:{self._name[1]}")
        listening._notify()
        self._answer(self._connected)

    def _answer(self, act: Callable[..., object], *arguments: object) -> None:
        """Let a packet come back from the other host."""
        assert self._peer_host is not None
        network = self._network
        if network.is_passable(self._peer_host, self._host):
            self._scheduler.call_later(network.delay_ns(0), act, *arguments)
        else:
            network.link(self._peer_host, self._host).waiting.append(lambda: act(*arguments))

    def _connected(self) -> None:
        if self._is_connecting and self._peer is not None and not self._peer._is_gone:
            self._is_connecting, self._is_connected = False, True
            self._notify()

    def _fail(self, code: int) -> None:
        if self._is_gone or self._fd < 0 or self._error:
            return
        self._is_connecting = self._is_connected = False
        self._error = code
        self._received.clear()
        self._notify()

    # Reading and writing

    def readiness(self) -> int:
        """Return which of READ and WRITE would not block."""
        if self._backlog is not None:
            return READ if self._backlog else 0
        if self._error:
            return READ | WRITE
        found = READ if self._received or self._has_eof else 0
        if self._is_connected and not self._is_shut and self._room() > 0:
            found |= WRITE
        return found

    def _room(self) -> int:
        peer = self._peer
        return WINDOW_BYTES - self._in_flight_bytes - (len(peer._received) if peer is not None else 0)

    def recv(self, size: int, flags: int = 0) -> bytes:
        self._check()
        if not self._received:
            if self._has_eof or self._is_shut:
                return b""
            raise BlockingIOError(errno.EAGAIN, "nothing was received")
        data = bytes(self._received[:size])
        if not flags & socket.MSG_PEEK:
            self._take(len(data))
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer)
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def _take(self, count: int) -> None:
        peer = self._peer
        was_full = peer is not None and peer._room() <= 0
        del self._received[:count]
        if was_full and peer is not None:
            peer._notify()

    def send(self, data: Any, flags: int = 0) -> int:
        self._check()
        if self._is_shut:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if not self._is_connected:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        room = self._room()
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        chunk = bytes(memoryview(data).cast("B")[:room])
        if chunk:
            self._transmit(chunk)
        return len(chunk)

    def sendmsg(self, buffers: Iterable[Any], ancillary: Sequence[object] = (), flags: int = 0) -> int:
        return self.send(b"".join(buffers), flags)

    def _transmit(self, chunk: bytes) -> None:
        network = self._network
        size = len(chunk)
        if size > 1 and network.random.random() < _SPLIT_SHARE:
            at = network.random.randrange(1, size)
            self._arrive_later(chunk[:at])
            chunk = chunk[at:]
        self._arrive_later(chunk)

    def _arrive_later(self, chunk: bytes, *, is_eof: bool = False) -> None:
        """Let bytes, or the end of the stream, arrive after everything that was sent before."""
        assert self._peer_host is not None
        network, scheduler = self._network, self._scheduler
        self._in_flight_bytes += len(chunk)
        self._unarrived.append((chunk, is_eof))
        arrival_ns = scheduler.now_ns + network.delay_ns(len(chunk)) + network.link(self._host, self._peer_host).extra_ns
        self._last_arrival_ns = arrival_ns = max(arrival_ns, self._last_arrival_ns + 1)
        scheduler.call_later(arrival_ns - scheduler.now_ns, self._arrive)

    def _arrive(self) -> None:
        """Let the first chunk that has not arrived reach the other end; it waits at a link that is cut."""
        target, peer = self._peer_host, self._peer
        if self._error or target is None or self._is_gone:
            return
        if not self._network.is_passable(self._host, target):
            if not self._held_ns:
                self._held_ns = self._scheduler.now_ns
                self._scheduler.call_later(RETRANSMISSION_NS, self._give_up, self._held_ns)
            self._network.link(self._host, target).waiting.append(self._arrive)
            return
        self._held_ns = 0
        chunk, is_eof = self._unarrived.popleft()
        self._in_flight_bytes -= len(chunk)
        if peer is None or peer._is_gone or peer._fd < 0:
            if chunk and self._fd >= 0:
                self._answer(self._fail, errno.ECONNRESET)
            return
        if peer._error:
            return
        scheduler = self._scheduler
        scheduler.fingerprint = crc32(chunk, scheduler.fingerprint)
        self._network.bytes_arrived += len(chunk)
        if is_eof:
            peer._has_eof = True
        else:
            peer._received += chunk
        peer._notify()

    def _give_up(self, held_ns: int) -> None:
        if self._held_ns == held_ns:
            self._fail(errno.ETIMEDOUT)

    def _check(self) -> None:
        self._scheduler.check_alive()
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._error:
            code = self._error
            raise OSError(code, os.strerror(code))

    # Ending

    def shutdown(self, how: int) -> None:
        self._check()
        if not self._is_connected:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._end()

    def _end(self) -> None:
        if self._is_shut:
            return
        self._is_shut = True
        if self._peer_host is not None and self._is_connected:
            self._arrive_later(b"", is_eof=True)

    def close(self) -> None:
        if self._fd < 0 or self.owner.is_dead:
            return
        self.shut()

    def detach(self) -> int:
        fd = self._fd
        self.close()
        return fd

    def shut(self) -> None:
        """Close. What was received and not read makes it a reset."""
        network, fd = self._network, self._fd
        if fd < 0:
            return
        if self._backlog is not None:
            network.listeners.pop(self._name, None)
            for each in self._backlog:
                each.shut()
        elif self._is_connected and not self._error:
            if self._received and self._peer is not None:
                self._peer._answer(self._peer._fail, errno.ECONNRESET)
            else:
                self._end()
        self._is_connecting = False
        for poller in list(self.pollers):
            poller.forget(fd)
        network.forget(fd)
        self._fd = -1

    def vanish(self) -> None:
        """Be gone without a packet, as a host that loses its power."""
        if self._backlog is not None:
            self._network.listeners.pop(self._name, None)
        for poller in list(self.pollers):
            poller.forget(self._fd)
        self._network.forget(self._fd)
        self._is_gone = True
        self._is_connecting = False

    def _notify(self) -> None:
        for poller in list(self.pollers):
            poller.changed(self._fd)

    # What programs ask

    def fileno(self) -> int:
        return self._fd

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def getpeername(self) -> tuple[str, int]:
        if self._peer_name is None or (self._error and not self._is_connected):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer_name

    def setblocking(self, flag: bool) -> None:
        if flag:
            raise RuntimeError("a world has no sockets that block: use asyncio or Twisted")

    def settimeout(self, value: float | None) -> None:
        if value != 0:
            raise RuntimeError("a world has no sockets that block: use asyncio or Twisted")

    def gettimeout(self) -> float:
        return 0.0

    def setsockopt(self, *_: object) -> None:
        """Accept any option: none changes the simulation."""

    def getsockopt(self, level: int, option: int, *_: object) -> Any:
        if level == socket.SOL_SOCKET and option == socket.SO_ERROR:
            return self._error
        return 0

    @override
    def __repr__(self) -> str:
        return f"<Socket {self._name} to {self._peer_name}>"
