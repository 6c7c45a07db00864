"""Twisted's reactor on a world's network and time."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet import tcp
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver, IHostResolution
from twisted.internet.posixbase import PosixReactorBase
from twisted.python import log
from typing_extensions import override
from zope.interface import implementer

from twisted_kafka.network.loop.reactors import HookedLoop
from twisted_kafka.timing.clock import IClock
from twisted_kafka.world.machine.network import READ, WRITE, Network, Poller


class _Sleeps:
    """``BusyPoll`` that polls never: in a world, time stands still while a thread polls."""

    is_due = False

    def note_wait(self, waited_ns: int) -> None: ...


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None: ...


@implementer(IHostnameResolver)
class _Resolver:
    """Knows the hosts of the world, at once."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: object = None,
        transportSemantics: str = "TCP",
    ) -> _Resolution:
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        try:
            address = self._network.resolve(hostName)
        except OSError:
            pass  # an unknown name has no addresses
        else:
            resolutionReceiver.addressResolved(IPv4Address("TCP", address, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


class _Client(tcp.Client):
    reactor: Any

    @override
    def createInternetSocket(self) -> Any:
        return self.reactor.network.make_socket()


class _Connector(tcp.Connector):
    @override
    def _makeTransport(self) -> Any:
        # The base class sets the reactor only after the socket is made.
        client = _Client.__new__(_Client)
        client.reactor = self.reactor
        client.__init__(self.host, self.port, self.bindAddress, self, self.reactor)  # type: ignore[misc]
        return client


class WorldReactor(HookedLoop, PosixReactorBase):
    """One loop of one process."""

    def __init__(self, network: Network, clock: IClock) -> None:
        self.network = network
        self.poller = Poller(network.scheduler)
        self._selectables: dict[int, Any] = {}
        self._reading: dict[int, Any] = {}
        self._writing: dict[int, Any] = {}
        super().__init__(clock)
        self._busy_poll: Any = _Sleeps()
        self.installNameResolver(_Resolver(network))

    @override
    def installWaker(self) -> None:
        pass  # ``wakeUp`` needs none

    @override
    def wakeUp(self) -> None:
        self.poller.wake()

    @override
    def _make_poll(self) -> Callable[[float, int], Iterable[tuple[int, Any]]]:
        poll = self.poller.poll
        return lambda timeout, _: poll(None if timeout < 0 else -int(-timeout * 1e9 // 1))

    @override
    def _doReadOrWrite(self, selectable: Any, fd: int, event: int) -> None:
        why: Any = None
        try:
            if event & READ and fd in self._reading:
                why = selectable.doRead()
            if not why and event & WRITE and fd in self._writing:
                why = selectable.doWrite()
        except Exception:  # noqa: BLE001 the connection is closed for it
            log.err()  # type: ignore[no-untyped-call]
            why = sys.exc_info()[1]
        if why:
            self._disconnectSelectable(selectable, why, bool(event & READ))  # type: ignore[no-untyped-call]

    def _watch(self, selectable: Any, fd: int) -> None:
        events = (READ if fd in self._reading else 0) | (WRITE if fd in self._writing else 0)
        if events:
            self._selectables[fd] = selectable
            self.poller.watch(_socket_of(selectable), events)
        else:
            self._selectables.pop(fd, None)
            self.poller.forget(fd)

    @override
    def addReader(self, reader: Any) -> None:
        fd = reader.fileno()
        self._reading[fd] = reader
        self._watch(reader, fd)

    @override
    def addWriter(self, writer: Any) -> None:
        fd = writer.fileno()
        self._writing[fd] = writer
        self._watch(writer, fd)

    @override
    def removeReader(self, reader: Any) -> None:
        self._remove(reader, self._reading)

    @override
    def removeWriter(self, writer: Any) -> None:
        self._remove(writer, self._writing)

    def _remove(self, selectable: Any, watched: dict[int, Any]) -> None:
        fd = selectable.fileno()
        if fd == -1:
            fd = next((each for each, known in self._selectables.items() if known is selectable), -1)
        if watched.pop(fd, None) is not None:
            self._watch(selectable, fd)

    @override
    def removeAll(self) -> list[Any]:
        removed = list(self._selectables.values())
        for fd in list(self._selectables):
            self.poller.forget(fd)
        self._selectables.clear()
        self._reading.clear()
        self._writing.clear()
        return removed

    @override
    def getReaders(self) -> list[Any]:
        return list(self._reading.values())

    @override
    def getWriters(self) -> list[Any]:
        return list(self._writing.values())

    @override
    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None) -> Any:
        connector = _Connector(host, port, factory, timeout, bindAddress, self)
        connector.connect()
        return connector


def _socket_of(selectable: Any) -> Any:
    found = getattr(selectable, "socket", None)
    return found if found is not None else selectable._socket
