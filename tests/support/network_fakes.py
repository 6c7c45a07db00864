"""A processor without threads or sockets: what the tests pump by hand."""

import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher

from tests.support.fake import Fake
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.framing import NOT_NOW
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import MAX_PARK_S, RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.regions import FileRegion, Part
from twisted_kafka.timing.clock import ManualClock


def lines_of(action: Callable[[], object]) -> list[str]:
    """Return what ``action`` logs, without what is for debugging."""
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    try:
        action()
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    return [event["log_format"].format(**event) for event in events if event["log_level"].name != "debug"]


class FakeReactor(Clock):
    """Time that moves when told, and calls from threads that run when told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def callFromThread(self, function: Callable[..., Any], *args: Any) -> None:
        self.asked.append((function, args))

    def run_asked(self) -> int:
        calls, self.asked = self.asked, []
        for function, args in calls:
            function(*args)
        return len(calls)


class FakeTransport(Fake):
    """Takes what is sent, as far as ``room`` allows."""

    def __init__(self, channel: KafkaChannel) -> None:
        self.channel = channel
        self.written = b""
        self.is_stuck = False
        self.waiting = b""
        self.is_reading = False
        self.is_closed = False
        self.has_ended_sending = False
        self.has_arrived = False

    def send(self, parts: Sequence[Part], size_bytes: int) -> bool:
        data = b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts)
        assert len(data) == size_bytes
        if self.is_stuck:
            self.waiting += data
            return False
        self.written += data
        return True

    def read(self, data: bytes) -> int:
        """Read once, as KafkaTransport.doRead does, when ``data`` has arrived; return how much of it was read."""
        view = self.channel.get_buffer()
        if view is NOT_NOW:
            return 0
        if view is None:
            data = data[: self.channel.read_bytes]
            self.channel.dataReceived(data)
            return len(data)
        with view:
            count = min(len(view), len(data))
            view[:count] = data[:count]
        self.channel.buffer_updated(count)
        return count

    def unstick(self) -> None:
        self.is_stuck = False
        self.written += self.waiting
        self.waiting = b""
        self.channel.send_completed()

    def has_unread(self) -> bool:
        return self.has_arrived

    def resume_sending(self) -> None:
        raise AssertionError("it stops sending only when it is stuck")

    def end_sending(self) -> None:
        self.has_ended_sending = True

    def pauseProducing(self) -> None:
        self.is_reading = False

    def resumeProducing(self) -> None:
        self.is_reading = True

    def abortConnection(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.channel.connectionLost()


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.completed: list[Request] = []

    def request_completed(self, request: Request) -> None:
        self.completed.append(request)


class Layer:
    """One processor with its request channel and some clients."""

    def __init__(
        self,
        queue_size: int = 500,
        max_request_bytes: int = 1_000_000,
        idle_ms: int = 0,
        reactor: FakeReactor | None = None,
        pool: MemoryPool | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.reactor = reactor or FakeReactor()
        self.channel = RequestChannel(queue_size, self.clock)
        self.observer = Recorder()
        settings = ProcessorSettings("PLAINTEXT", "PLAINTEXT", max_request_bytes, idle_ms)
        settings.memory_pool = pool
        self.processor = Processor(0, settings, self.reactor, self.channel, self.clock, [self.observer])
        self.parker = self.channel.add_handler()
        self._clients = 0

    def connect(self) -> tuple[KafkaChannel, FakeTransport]:
        info = ConnectionInfo(f"127.0.0.1:9092-127.0.0.1:5000-{self._clients}", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
        self._clients += 1
        channel = KafkaChannel(info, self.processor, self.processor.settings.max_request_bytes)
        transport = FakeTransport(channel)
        channel.transport = transport
        self.processor.add_channel(channel)
        return channel, transport

    def take(self) -> Request | None:
        return self.take_on(self.parker)

    def take_on(self, parker: Parker) -> Request | None:
        # With a timeout of 0 no large request is received: those are for a handler's own thread.
        request = self.channel.receive(parker, MAX_PARK_S if self.channel.has_large_next else 0)
        assert request is None or isinstance(request, Request)
        return request

    def advance_ms(self, ms: float) -> None:
        self.clock.advance_ms(ms)
        self.reactor.advance(ms / 1000)

    def answer(self, request: Request, body: bytes = b"") -> bytes:
        data = struct.pack(">ii", 4 + len(body), request.context.correlation_id) + body
        self.channel.send_response(request, [data], len(data))
        self.reactor.run_asked()
        return data


def frame(correlation_id: int, body: bytes = b"", api_key: int = 18, version: int = 0) -> bytes:
    data = struct.pack(">hhih", api_key, version, correlation_id, 2) + b"me" + body
    return struct.pack(">i", len(data)) + data


class ReadersReactor(FakeReactor):
    def __init__(self) -> None:
        super().__init__()
        self.readers: set[object] = set()

    def addReader(self, reader: object) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: object) -> None:
        self.readers.discard(reader)


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


class EventsReactor:
    """Remembers who wants to read or write; the test says when they may."""

    def __init__(self) -> None:
        self.readers: set[object] = set()
        self.writers: set[object] = set()

    def addReader(self, reader: object) -> None:
        self.readers.add(reader)

    def addWriter(self, writer: object) -> None:
        self.writers.add(writer)

    def removeReader(self, reader: object) -> None:
        self.readers.discard(reader)

    def removeWriter(self, writer: object) -> None:
        self.writers.discard(writer)
