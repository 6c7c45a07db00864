"""The request rate of the network layer and the dispatch alone: ApiVersions requests, without the rest of a broker.

python benchmarks/network_topology.py                      # a closed loop in Python, in separate processes
python benchmarks/network_topology.py --kload ./kload      # the load generator in C, which uses less CPU
"""

import argparse
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.selectreactor import SelectReactor

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.request_plane import DATA_PLANE, RequestPlane
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.dispatch import ApiRegistry
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.timing.clock import SystemClock

SHAPES = ((1, 1), (8, 1), (32, 4))
SUPPORTED_APIS = 60


def request_frame(client_id: str = "bench") -> bytes:
    body = ApiVersionsRequest(client_software_name="bench", client_software_version="1.0").encode(3)
    frame = encode_request_header(ApiKey.API_VERSIONS, 3, 1, client_id) + body
    return len(frame).to_bytes(4, "big") + frame


class Server:
    """The network layer and the dispatch, in this process."""

    def __init__(self, network_threads: int, io_threads: int, before: Callable[[Request], object] = lambda request: None) -> None:
        """``before`` is called by a request's handler first."""
        self.clock = SystemClock()
        self.metrics = MetricsRegistry(self.clock)
        config = KafkaConfig.from_properties(
            {"listeners": "PLAINTEXT://127.0.0.1:0", "num.network.threads": str(network_threads), "broker.id": "0"}
        )
        self.channel = RequestChannel(500, self.clock)
        supported = dict.fromkeys(range(SUPPORTED_APIS), (0, 9))
        registry = ApiRegistry([VersionsApis(lambda: supported, FeatureCache(store=None))])
        apis = KafkaApis(registry, self.channel, self.clock)
        self.observer = RequestMetrics(self.metrics)
        plane = RequestPlane(DATA_PLANE, self.channel, self.clock, self.metrics)

        def handle(request: Request) -> None:
            before(request)
            apis.handle(request)

        self.pool = KafkaRequestHandlerPool(plane, handle, io_threads, self.clock, self.metrics)
        self.reactor = SelectReactor()
        self.server = SocketServer(config, self.reactor, plane, [self.observer])
        self.server.start()
        self.server.enable_request_processing()
        self.pool.start()
        self.thread = threading.Thread(target=lambda: self.reactor.run(installSignalHandlers=False), daemon=True)
        self.thread.start()
        self.port = self.server.bound_port("PLAINTEXT")

    def stop(self) -> None:
        self.reactor.callFromThread(self.server.stop_processing_requests)
        self.pool.shutdown()
        self.server.shutdown()
        self.reactor.callFromThread(self.reactor.stop)
        self.thread.join(5)


def python_load(port: int, connections: int, depth: int, seconds: float) -> None:
    """Run a closed loop with ``depth`` requests in flight per connection. Prints requests/s and the median latency."""
    frame = request_frame()
    sockets: dict[int, list[Any]] = {}
    poller = select.epoll()
    for _ in range(connections):
        connected = socket.create_connection(("127.0.0.1", port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[connected.fileno()] = [connected, 0, 0.0]
        poller.register(connected, select.EPOLLIN)
        connected.sendall(frame)
    response_size = len(_receive_one(next(iter(sockets.values()))[0])) if sockets else 0
    first = next(iter(sockets.values()))[0]
    first.sendall(frame)
    start = time.perf_counter()
    for state in sockets.values():
        state[0].sendall(frame * (depth - 1))
        state[2] = start
    done, latencies = 0, []
    while (now := time.perf_counter()) < start + seconds:
        for fd, _event in poller.poll(0.1):
            state = sockets[fd]
            state[1] += len(state[0].recv(1 << 20))
            count, state[1] = divmod(state[1], response_size)
            if count:
                done += count
                now = time.perf_counter()
                latencies.append((now - state[2]) / depth)
                state[2] = now
                state[0].sendall(frame * count)
    elapsed = time.perf_counter() - start
    print(f"req/s={done / elapsed:.0f} p50={statistics.median(latencies) * 1e6:.0f}us (per request in flight)")


def _receive_one(connected: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        data += connected.recv(65536)
    return data


def run_load(port: int, connections: int, depth: int, seconds: float, kload: str | None) -> str:
    if kload:
        with tempfile.NamedTemporaryFile(suffix=".frame") as file:
            Path(file.name).write_bytes(request_frame())
            command = [kload, str(port), str(connections), str(depth), str(seconds), file.name]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 30).stdout.strip()
    command = [sys.executable, __file__, "--load", f"{port},{connections},{depth},{seconds}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 30).stdout.strip()


def cpu_seconds() -> tuple[float, float]:
    times = os.times()
    return times.user, times.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kload", help="path of the C load generator")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--network-threads", type=int, default=1)
    parser.add_argument("--io-threads", type=int, default=4)
    parser.add_argument("--shape", help="only this shape: CONNECTIONSxDEPTH")
    parser.add_argument("--profile", action="store_true", help="leave the server running under py-spy until it is done")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        port, connections, depth, seconds = options.load.split(",")
        python_load(int(port), int(connections), int(depth), float(seconds))
        return
    server = Server(options.network_threads, options.io_threads)
    print(
        f"{options.network_threads} network threads, {options.io_threads} handlers, ApiVersions v3, {SUPPORTED_APIS} supported APIs"
    )
    shapes = [tuple(map(int, options.shape.split("x")))] if options.shape else SHAPES
    for connections, depth in shapes:
        before, cpu_before = server.observer.count(ApiKey.API_VERSIONS), cpu_seconds()
        line = run_load(server.port, connections, depth, options.seconds, options.kload)
        count = server.observer.count(ApiKey.API_VERSIONS) - before
        user, system = ((now - then) / max(1, count) * 1e6 for now, then in zip(cpu_seconds(), cpu_before, strict=True))
        print(f"{connections:3} x {depth}: {line}  server CPU {user + system:.1f} us/request ({system:.1f} in the kernel)")
    server.stop()


if __name__ == "__main__":
    main()
