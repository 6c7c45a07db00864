"""A socket server with threads, and its clients."""

import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from twisted.internet.selectreactor import SelectReactor

from tests.support.eventually import WAIT_S, eventually
from tests.support.network_fakes import Recorder, frame
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.request_plane import DATA_PLANE, RequestPlane
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_metric_names import RequestMetricNames
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.timing.clock import IClock, SystemClock


class Running:
    """A socket server that echoes bodies, on a main reactor of its own."""

    def __init__(self, properties: dict[str, str], reactor_factory: Callable[[IClock], Any] = make_reactor) -> None:
        clock = SystemClock()
        self.metrics = MetricsRegistry(clock)
        self.recorder = Recorder()
        self.channel = RequestChannel(500, clock)
        self.config = KafkaConfig.from_properties(
            {"listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "5", "num.network.threads": "2", **properties}
        )
        observers: list[IRequestObserver] = [
            RequestMetrics(self.metrics, RequestMetricNames(lambda key: f"Api{key}", str)),
            self.recorder,
        ]
        self.reactor: Any = SelectReactor()
        plane = RequestPlane(DATA_PLANE, self.channel, clock, self.metrics)
        self.server = SocketServer(self.config, self.reactor, plane, observers, reactor_factory)
        self.slow = threading.Event()
        self.slow_is_handled = threading.Event()
        self.under_way = 0
        self.pool = KafkaRequestHandlerPool(plane, self.handle, 3, clock, self.metrics)
        self.main = threading.Thread(target=lambda: self.reactor.run(installSignalHandlers=False), daemon=True)

    def handle(self, request: Request) -> None:
        self.answer(self.channel, request)

    def handle_on(self, channel: RequestChannel) -> Callable[[Request], None]:
        return lambda request: self.answer(channel, request)

    def answer(self, channel: RequestChannel, request: Request) -> None:
        body = bytes(request.frame[request.body_offset :])
        if body == b"slow":
            self.under_way += 1
            self.slow_is_handled.set()
            self.slow.wait(WAIT_S)
        if body == b"fail":
            raise ValueError("a handler's fault")
        data = struct.pack(">ii", 4 + len(body), request.context.correlation_id) + body
        channel.send_response(request, [data], len(data))

    def start(self) -> "Running":
        self.server.start()
        self.pool.start()
        self.main.start()
        return self

    def enable(self) -> "Running":
        self.reactor.callFromThread(self.server.enable_request_processing)
        return self

    def connect(self, listener: str = "PLAINTEXT") -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self.server.bound_port(listener)), timeout=WAIT_S)
        connected.settimeout(WAIT_S)
        return connected

    def stop_processing(self) -> None:
        done = threading.Event()
        self.reactor.callFromThread(self.server.stop_processing_requests)
        self.reactor.callFromThread(done.set)
        assert done.wait(WAIT_S)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call something on the main reactor's thread."""
        done: Future[Any] = Future()

        def call() -> None:
            try:
                done.set_result(function(*args))
            except Exception as error:  # noqa: BLE001 it is raised to the caller
                done.set_exception(error)

        self.reactor.callFromThread(call)
        done.result(WAIT_S)

    def await_value(self, value: float, *name: str) -> None:
        eventually(lambda: self.metrics.value(*name) == value, lambda: (name, self.metrics.value(*name)))

    def await_under_way(self, count: int) -> None:
        eventually(lambda: self.under_way >= count, lambda: f"{self.under_way} of {count} requests are under way")

    def await_counted(self, count: int) -> None:
        """A connection's socket is closed before it is counted out."""
        eventually(lambda: self.server.quotas.total == count, lambda: f"{self.server.quotas.total} are counted, not {count}")

    def await_completed(self, count: int) -> None:
        """A client may have its response before the observers know."""
        eventually(lambda: len(self.recorder.completed) >= count, lambda: f"{len(self.recorder.completed)} of {count}")

    def stop(self) -> None:
        self.slow.set()
        if not self.main.is_alive():
            return
        self.stop_processing()
        self.pool.shutdown()
        self.server.shutdown()
        self.reactor.callFromThread(self.reactor.stop)
        self.main.join(WAIT_S)


def receive(connected: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        chunk = connected.recv(65536)
        if not chunk:
            raise EOFError(data)
        data += chunk
    return data[4:]


def echo(connected: socket.socket, correlation_id: int, body: bytes = b"hello") -> None:
    connected.sendall(frame(correlation_id, body))
    assert receive(connected) == struct.pack(">i", correlation_id) + body


def is_closed(connected: socket.socket) -> bool:
    try:
        return connected.recv(100) == b""
    except ConnectionResetError:
        return True
