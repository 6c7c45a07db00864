"""The latency of controller requests while clients flood the broker with produce requests.

    python -m benchmarks.control_plane [--seconds 8] [--flooders 2] [--connections 16] [--in-flight 4]

Sends UpdateMetadata every 5 ms to an idle broker, and then to the flooded one: with a control-plane listener, and without one,
where controller requests share the threads and the queue of the data plane.
"""

import argparse
import multiprocessing
import os
import select
import socket
import statistics
import struct
import sys
import time
from pathlib import Path

from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker
from tests.support.oracle.talk import Talk
from tests.support.ports import free_port
from tests.support.processes import end_with_parent
from twisted_kafka.protocol.messages.inter_broker import UpdateMetadataRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

PAUSE_S = 0.005
TOPIC = "flooded.x"
PARTITIONS = 4


class TwoPlanes(ServedBroker):
    """A broker with a control-plane listener."""

    def __init__(self, data: Path) -> None:
        super().__init__(
            data,
            "broker.id=1",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
            "control.plane.listener.name=CONTROL",
        )
        self.control_port = free_port()

    def command(self) -> list[str]:
        words = super().command()
        words[words.index("--listeners") + 1] += f",CONTROL://127.0.0.1:{self.control_port}"
        return words


def framed(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = struct.pack(">hhih", api_key, version, 7, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_frames() -> list[bytes]:
    frames = []
    for partition in range(PARTITIONS):
        batch = build_batch([SimpleRecord(time.time_ns() // 1_000_000, None, b"x" * 100, ())])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])
        frames.append(framed(0, 7, request.encode(7), flexible=False))
    return frames


def flood(parent: int, port: int, connections: int, in_flight: int) -> None:
    """Produce until the process ``parent`` ends."""
    end_with_parent(parent)
    frames = produce_frames()
    poll = select.epoll()
    by_fd = {}
    for number in range(connections):
        connected = socket.create_connection(("127.0.0.1", port))
        by_fd[connected.fileno()] = connected, frames[number % len(frames)]
        connected.sendall(frames[number % len(frames)] * in_flight)
        poll.register(connected, select.EPOLLIN)
    held: dict[int, bytes] = {}
    while True:
        for fd, _ in poll.poll():
            connected, frame = by_fd[fd]
            data = held.pop(fd, b"") + connected.recv(65536)
            answered, at = 0, 0
            while len(data) - at >= 4 and len(data) - at >= 4 + struct.unpack_from(">i", data, at)[0]:
                at += 4 + struct.unpack_from(">i", data, at)[0]
                answered += 1
            if at < len(data):
                held[fd] = data[at:]
            if answered:
                connected.sendall(frame * answered)


def controller_requests(port: int, epoch: int, seconds: float) -> list[float]:
    """Send controller requests for a while; return the milliseconds that each took."""
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=epoch)
    frame = framed(6, 5, request.encode(5), flexible=False)
    taken_ms = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connected:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            connected.sendall(frame)
            answer = connected.recv(4096)
            assert answer[8:10] == b"\0\0", answer
            taken_ms.append((time.monotonic() - began) * 1000)
            time.sleep(PAUSE_S)
    return taken_ms


def summary(taken_ms: list[float]) -> str:
    cuts = statistics.quantiles(taken_ms, n=1000)
    longest = max(taken_ms)
    return f"{len(taken_ms)} requests, ms: median {cuts[499]:.2f}, p99 {cuts[989]:.2f}, p99.9 {cuts[998]:.2f}, max {longest:.2f}"


def measure(own_plane: bool, directory: Path, options: argparse.Namespace) -> None:
    name = "control plane" if own_plane else "data plane only"
    broker = TwoPlanes(directory / "two") if own_plane else ServedBroker(directory / "one", "broker.id=1")
    control_port = broker.control_port if isinstance(broker, TwoPlanes) else broker.port
    flooders = []
    try:
        broker.start()
        talk = Talk(broker.port, "flooded")
        talk.create("x", PARTITIONS)
        talk.close()
        print(f"{name}, idle: {summary(controller_requests(control_port, 1, 2))}", flush=True)
        flooders = [
            multiprocessing.Process(
                target=flood, args=(os.getpid(), broker.port, options.connections, options.in_flight), daemon=True
            )
            for _ in range(options.flooders)
        ]
        for flooder in flooders:
            flooder.start()
        time.sleep(1)
        print(f"{name}, flooded: {summary(controller_requests(control_port, 1, options.seconds))}", flush=True)
    finally:
        for flooder in flooders:
            flooder.terminate()
        broker.kill()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.control_plane", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--flooders", type=int, default=2)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--in-flight", type=int, default=4)
    options = parser.parse_args()
    with scratch() as directory:
        for own_plane in (True, False):
            measure(own_plane, directory, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
