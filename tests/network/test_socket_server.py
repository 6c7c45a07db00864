"""Real sockets and threads, on 127.0.0.1 and free ports; every wait is bounded."""

import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.pollreactor import PollReactor

from tests.network.socket_servers import Running, echo, is_closed, receive
from tests.support.eventually import WAIT_S, eventually
from tests.support.network_fakes import frame, lines_of
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network import socket_server
from twisted_kafka.network.accepting.acceptor import BindError
from twisted_kafka.network.connection.channel_builder import PlaintextChannelBuilder
from twisted_kafka.network.loop.processor_metrics import UNLIMITED_BYTES
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.timing.clock import IClock, SystemClock

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")


def poll_reactor(clock: IClock) -> Any:
    reactor = PollReactor()  # type: ignore[no-untyped-call]
    reactor._registerAsIOThread = False
    return reactor


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    made: list[Running] = []
    others = set(threading.enumerate())  # kafka-python leaves a thread behind when a test before this forgets a client

    def make(properties: dict[str, str] | None = None, **options: Any) -> Running:
        made.append(Running(properties or {}, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
    left = [t.name for t in threading.enumerate() if "kafka" in t.name and t not in others]
    assert not left, left


@pytest.mark.medium
@pytest.mark.parametrize("factory", [make_reactor, poll_reactor])
def test_echo_on_any_reactor(running: Callable[..., Running], factory: Any) -> None:
    server = running(reactor_factory=factory).start().enable()
    clients = [server.connect() for _ in range(5)]
    for number in range(20):
        for client in clients:
            echo(client, number, b"x" * number * 1000)
    pipelined = clients[0]
    pipelined.sendall(b"".join(frame(n, b"p") for n in range(50)))
    data = b""
    while len(data) < 50 * 9:
        data += pipelined.recv(65536)
    assert [struct.unpack_from(">i", data, n * 9 + 4)[0] for n in range(50)] == list(range(50))
    for client in clients:
        client.close()
    server.await_completed(150)
    assert server.metrics.value("RequestMetrics", "RequestsPerSec", request="Api18", version=0) == 150
    assert server.metrics.value("RequestMetrics", "TotalTimeMs", request="Api18") == 150
    names = {thread.name for thread in threading.enumerate()}
    for number in range(2):
        assert f"data-plane-kafka-network-thread-5-ListenerName(PLAINTEXT)-PLAINTEXT-{number}" in names
    assert "data-plane-kafka-request-handler-2" in names


def test_one_network_thread_accepts_by_itself_also_when_further_ones_come(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = running({"num.network.threads": "1"})
    accepted_on: list[str] = []
    record_accept = server.server.quotas.record_accept

    def note(listener_name: str) -> int:
        accepted_on.append(threading.current_thread().name)
        return record_accept(listener_name)

    monkeypatch.setattr(server.server.quotas, "record_accept", note)
    server.start().enable()
    clients = [server.connect()]
    echo(clients[0], 1)
    more = KafkaConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0", "num.network.threads": "2"})
    server.call(server.server.resize_threads, more)
    for _ in range(3):
        clients.append(server.connect())
        echo(clients[-1], 2)
    assert accepted_on == ["data-plane-kafka-network-thread-5-ListenerName(PLAINTEXT)-PLAINTEXT-0"] * 4
    assert [len(processor.channels) for processor in server.server.processors] == [3, 1]
    port = server.server.bound_port("PLAINTEXT")
    server.stop_processing()
    socket.create_server(("127.0.0.1", port)).close()
    for client in clients:
        client.close()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_nothing_goes_wrong_from_the_start_to_the_stop(running: Callable[..., Running], threads: str) -> None:
    def run() -> None:
        server = running({"num.network.threads": threads}).start().enable()
        client = server.connect()
        echo(client, 1)
        client.close()
        server.stop()

    assert lines_of(run) == ["Main loop terminated."]  # Twisted says that of each reactor that ends


@pytest.mark.parametrize("size_bytes", ["0", "-1"])
def test_without_a_limit_there_is_no_memory_pool(running: Callable[..., Running], size_bytes: str) -> None:
    server = running({"queued.max.request.bytes": size_bytes})
    assert server.metrics.value("SocketServer", "MemoryPoolAvailable") == UNLIMITED_BYTES


def test_binds_first_and_serves_when_told(running: Callable[..., Running]) -> None:
    server = running().start()
    client = server.connect()
    client.sendall(frame(1, b"early"))
    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(10)
    server.enable()
    client.settimeout(WAIT_S)
    assert receive(client) == struct.pack(">i", 1) + b"early"
    client.close()


def test_several_listeners_and_the_inter_broker_one_first(running: Callable[..., Running]) -> None:
    server = running(
        {
            "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    server.start().enable()
    assert [e.listener_name for e in server.server.bound_end_points()] == ["INSIDE", "OUTSIDE"]
    for listener in ("OUTSIDE", "INSIDE"):
        client = server.connect(listener)
        echo(client, 1)
        client.close()
    server.await_completed(2)
    seen = {r.context.listener_name: r.context for r in server.recorder.completed}
    assert seen["INSIDE"].is_privileged_listener
    assert not seen["OUTSIDE"].is_privileged_listener
    assert seen["OUTSIDE"].connection_id.startswith("127.0.0.1:")
    with pytest.raises(KeyError):
        server.server.bound_port("NOWHERE")


def test_taken_port_is_one_clear_error(running: Callable[..., Running]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = running({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        with pytest.raises(BindError, match=f"failed to bind to 127.0.0.1:{port}: Address already in use"):
            server.server.start()


def test_a_start_that_fails_leaves_nothing_open(running: Callable[..., Running]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        ports = [each.getsockname()[1] for each in (free, taken)]
        free.close()
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},OTHER://127.0.0.1:{ports[1]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
        with pytest.raises(BindError, match=f"127.0.0.1:{ports[1]}"):
            running(listeners).server.start()
        socket.create_server(("127.0.0.1", ports[0])).close()


def test_hostile_clients_are_closed_and_others_served(running: Callable[..., Running]) -> None:
    server = running({"socket.request.max.bytes": "100000"}).start().enable()
    good = server.connect()
    for bad in (
        b"\xff\xff\xff\xff",
        b"\x00\x01\x86\xa1",
        b"\x7f\xff\xff\xff" + b"x" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        frame(1, api_key=9999),
        b"\0\0\0\x02ab",
        frame(1, b"fail"),
    ):
        client = server.connect()
        client.sendall(bad)
        assert is_closed(client), bad
        client.close()
        echo(good, 3)
    half = server.connect()
    half.sendall(frame(1, b"whole")[:10])
    echo(good, 4)
    half.sendall(frame(1, b"whole")[10:])
    assert receive(half).endswith(b"whole")
    half.close()
    good.close()


def test_slow_request_does_not_stall_cheap_ones(running: Callable[..., Running]) -> None:
    server = running().start().enable()
    slow, quick = server.connect(), server.connect()
    slow.sendall(frame(1, b"slow"))
    for number in range(50):
        echo(quick, number)
    server.slow.set()
    assert receive(slow).endswith(b"slow")
    slow.close()
    quick.close()


@pytest.mark.medium
def test_client_that_never_reads_is_bounded_and_others_served(running: Callable[..., Running]) -> None:
    server = running({"num.network.threads": "1"}).start().enable()
    deaf, good = server.connect(), server.connect()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.settimeout(0.2)
    flood = b"".join(frame(number, b"x" * 90_000) for number in range(200))
    with pytest.raises(TimeoutError):
        deaf.sendall(flood)
    echo(good, 1)
    deaf.close()
    good.close()


def test_shutdown_answers_what_is_under_way(running: Callable[..., Running]) -> None:
    server = running().start().enable()
    client = server.connect()
    client.sendall(frame(7, b"slow"))
    idle = server.connect()
    echo(idle, 1)
    assert server.slow_is_handled.wait(WAIT_S), "another processor may be behind"
    server.stop_processing()
    assert is_closed(idle)
    server.slow.set()
    assert receive(client) == struct.pack(">i", 7) + b"slow"
    assert is_closed(client)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.config.listeners[0].port or 1), timeout=1)


def test_a_shutdown_stops_first(running: Callable[..., Running]) -> None:
    server = running({"num.network.threads": "1"}).start().enable()
    port = server.server.bound_port("PLAINTEXT")
    client = server.connect()
    echo(client, 1)
    server.server.shutdown()
    assert is_closed(client)
    client.close()
    socket.create_server(("127.0.0.1", port)).close()


def test_what_stops_opens_nothing_any_more(running: Callable[..., Running]) -> None:
    server = running().start().enable()
    server.stop_processing()
    two = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "num.network.threads": "4",
    }
    threads = len(server.server.processors)
    server.call(server.server.update_listeners, server.config.updated(two))
    server.call(server.server.resize_threads, server.config.updated(two))
    assert len(server.server.processors) == threads
    with pytest.raises(KeyError):
        server.server.bound_port("OTHER")


CONTROL = {
    "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "control.plane.listener.name": "CONTROL",
}


def test_the_control_plane_has_its_own_thread_queue_and_handler(running: Callable[..., Running]) -> None:
    server = running(CONTROL).start()
    control = server.server.control_plane
    assert control is not None
    pool = KafkaRequestHandlerPool(control, server.handle_on(control.request_channel), 1, SystemClock(), server.metrics)
    pool.start()
    server.enable()
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("control-plane")]
    assert sorted(names) == [
        "control-plane-kafka-network-thread-5-ListenerName(CONTROL)-PLAINTEXT-0",
        "control-plane-kafka-request-handler-0",
    ]
    assert [e.listener_name for e in server.server.bound_end_points()] == ["CONTROL", "INSIDE", "OUTSIDE"]
    blocked = [server.connect("OUTSIDE") for _ in range(3)]
    for client in blocked:
        client.sendall(frame(1, b"slow"))  # as many as the data plane has handlers
    client = server.connect("CONTROL")
    for number in range(20):
        echo(client, number)
    server.await_completed(20)
    assert all(r.context.is_privileged_listener for r in server.recorder.completed)
    value = server.metrics.value
    assert value("RequestChannel", "ControlPlaneRequestQueueSize") == 0
    assert value("RequestChannel", "ControlPlaneResponseQueueSize", processor=0) == 0
    assert value("Acceptor", "ControlPlaneAcceptorBlockedPercent", listener="CONTROL") == 0
    assert value("SocketServer", "ControlPlaneNetworkProcessorAvgIdlePercent") is not None
    server.slow.set()
    for each in blocked:
        assert receive(each).endswith(b"slow")
    echo(blocked[0], 2)
    server.await_completed(24)
    assert not any(r.context.is_privileged_listener for r in server.recorder.completed[20:])
    for each in [client, *blocked]:
        each.close()
    pool.shutdown()


def test_clients_that_empty_the_memory_pool_do_not_hold_up_the_control_plane(running: Callable[..., Running]) -> None:
    limits = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"}
    server = running({**CONTROL, **limits}).start()
    control = server.server.control_plane
    assert control is not None
    pool = KafkaRequestHandlerPool(control, server.handle_on(control.request_channel), 1, SystemClock(), server.metrics)
    pool.start()
    server.enable()
    hoarder = server.connect("OUTSIDE")
    hoarder.sendall(struct.pack(">i", 1000) + b"and no more")
    server.await_value(1000, "SocketServer", "MemoryPoolUsed")
    controller = server.connect("CONTROL")
    echo(controller, 1)
    other = server.connect("OUTSIDE")
    other.sendall(frame(2))
    hoarder.close()
    assert receive(other) == struct.pack(">i", 2)
    for each in (controller, other):
        each.close()
    pool.shutdown()


def test_more_and_fewer_network_threads_while_requests_are_under_way(running: Callable[..., Running]) -> None:
    server = running({"num.network.threads": "1"}).start().enable()
    server.call(server.server.resize_threads, server.config.updated({"num.network.threads": "2"}))
    first, second = server.connect(), server.connect()
    echo(first, 1)
    echo(second, 1)
    assert [len(p.channels) for p in server.server.processors] == [1, 1]
    for client in (first, second):
        client.sendall(frame(2, b"slow"))
    assert server.slow_is_handled.wait(WAIT_S)
    server.await_under_way(2)
    server.call(server.server.resize_threads, server.config)
    assert len(server.server.processors) == 1
    assert [check for _, check in server.server.quotas._checks] == [each.check_connections for each in server.server.processors]
    third = server.connect()
    echo(third, 1)
    server.slow.set()
    for client in (first, second):
        assert receive(client) == struct.pack(">i", 2) + b"slow"
    echo(first, 3)
    assert is_closed(second)
    server.await_counted(2)
    assert server.metrics.value("Processor", "IdlePercent", networkProcessor=1) is None
    eventually(lambda: server.channel._processors == server.server.processors, lambda: server.channel._processors)
    for client in (first, second, third):
        client.close()


def test_answers_that_come_after_their_network_thread_has_ended_are_counted_once(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "DRAIN_S", 0.05)
    server = running({"num.network.threads": "2"}).start().enable()
    clients = [server.connect() for _ in range(2)]
    for client in clients:
        client.sendall(frame(1, b"slow"))
    server.await_under_way(2)
    server.call(server.server.resize_threads, server.config.updated({"num.network.threads": "1"}))
    for retirement in server.server._retirements:
        retirement.join(WAIT_S)
    server.slow.set()
    assert [is_closed(client) for client in clients] == [False, True]
    server.await_completed(2)
    dropped = [request for request in server.recorder.completed if request.sent_ns == request.response_dequeued_ns]
    assert len(dropped) == 1
    for client in clients:
        client.close()


def test_listeners_come_and_go(running: Callable[..., Running]) -> None:
    server = running().start().enable()
    first = server.connect()
    echo(first, 1)
    two = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }
    server.call(server.server.update_listeners, server.config.updated(two))
    second = server.connect("OTHER")
    echo(second, 1)
    port = server.server.bound_port("OTHER")
    server.call(server.server.update_listeners, server.config)
    assert is_closed(second)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    echo(first, 2)
    server.await_counted(1)
    assert server.metrics.value("Acceptor", "AcceptorBlockedPercent", listener="OTHER") is None
    assert server.metrics.value("socket-server-metrics", "connection-accept-rate", listener="OTHER") is None
    assert server.metrics.value("Acceptor", "AcceptorBlockedPercent", listener="PLAINTEXT") == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bad = two["listeners"].replace("OTHER://127.0.0.1:0", f"OTHER://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(BindError):
            server.call(server.server.update_listeners, server.config.updated({**two, "listeners": bad}))
    echo(first, 3)
    first.close()
    second.close()


def test_new_security_settings_are_for_the_listeners_that_there_are(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    class Builder(PlaintextChannelBuilder):
        def __init__(self, config: KafkaConfig, end_point: EndPoint) -> None:
            self.name = end_point.listener_name

        def validate_reconfiguration(self, config: KafkaConfig) -> None:
            asked.append(("validate", self.name))

        def reconfigure(self, config: KafkaConfig) -> None:
            asked.append(("reconfigure", self.name))

    server = running()
    monkeypatch.setattr(server.server, "_builder_of", Builder)
    server.start().enable()
    two = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }
    server.call(server.server.update_listeners, server.config.updated(two))
    server.call(server.server.validate_security, server.config)
    server.call(server.server.reconfigure_security, server.config)
    names = ("PLAINTEXT", "OTHER")
    assert asked == [(what, name) for what in ("validate", "reconfigure") for name in names]
    del asked[:]
    server.call(server.server.update_listeners, server.config)
    server.call(server.server.validate_security, server.config)
    assert asked == [("validate", "PLAINTEXT")]


def test_a_listener_moves_to_another_address(running: Callable[..., Running]) -> None:
    server = running().start().enable()
    before = server.server.bound_port("PLAINTEXT")
    server.call(server.server.update_listeners, server.config.updated({"listeners": "PLAINTEXT://localhost:0"}))
    assert server.server.bound_port("PLAINTEXT") != before
    client = server.connect()
    echo(client, 1)
    client.close()


def test_the_inter_broker_listener_is_served_by_closing_another_listeners_connection(running: Callable[..., Running]) -> None:
    server = running(
        {
            "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "max.connections": "2",
            "listener.name.inside.max.connections": "10",
            "num.network.threads": "1",
        }
    )
    server.start().enable()
    old, new = server.connect("OUTSIDE"), server.connect("OUTSIDE")
    echo(old, 1)
    echo(new, 1)
    third = server.connect("OUTSIDE")
    third.sendall(frame(1, b"third"))
    inside = server.connect("INSIDE")
    echo(inside, 1)
    assert is_closed(old)
    echo(new, 2)
    new.close()
    inside.close()
    assert receive(third).endswith(b"third"), "it waited, and was not dropped"
    third.close()


@pytest.mark.medium
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the size of a backlog")
@pytest.mark.parametrize(("properties", "expected"), [({}, 1024), ({"socket.listen.backlog.size": "7"}, 7)])
def test_the_backlog_is_as_configured(running: Callable[..., Running], properties: dict[str, str], expected: int) -> None:
    here = running(properties).start()
    listening = here.server._listeners["PLAINTEXT"].acceptor._socket
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    assert struct.unpack_from("=I", info, 28)[0] == min(expected, int(SOMAXCONN.read_text()))
