"""The cost of a request in Python, without sockets: frame, queue, handler, response, metrics and access log, on one thread.

    python -m benchmarks.request_path [--connections 32] [--traffic 'produce*'] [--profile FRAME]

Prints the fastest of many rounds, which reduces the influence of other programs, and the median, in microseconds of processor time
per frame. With several connections, a frame of each is read before they are handled. With ``--traffic``, the frames are those of
``benchmarks.traffic``, over one connection. The broker's threads take no part: the frames go through a processor, a request channel
and a handler of their own.
"""

import argparse
import cProfile
import fnmatch
import itertools
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.scratch import scratch
from benchmarks.traffic import SCENARIOS, Traffic

sys.path.insert(0, str(Path(__file__).resolve().parent / "beside"))

import frames

from twisted_kafka import Broker
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.transport import READ_BYTES
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.loop.stall_watch import StallWatch
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.system.buffers import copy_into
from twisted_kafka.timing.clock import SystemClock

ROUNDS, PER_ROUND = 600, 20
TRAFFIC_ROUNDS, TRAFFIC_PER_ROUND = 100, 5

MAX_BYTES = 1 << 30
"""The most bytes to send for one frame: large frames get fewer rounds, because produced data stays on disk until the end."""

QUEUE_SIZE = 500
ANSWER_S = 10.0
"""How long an answer that other threads give may take."""


class Wire:
    """A transport that accepts everything at once."""

    def send(self, parts: Any, size_bytes: int) -> bool:
        return True

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


CAPTURED: dict[type, Any] = {}


def capture_parts() -> None:
    """Keep what ``OneThread`` needs of the next broker that is created."""
    _capture(SocketServer)
    _capture(KafkaApis)


def _capture(kind: Any) -> None:
    initialize = kind.__init__

    def capturing(self: Any, *arguments: Any, **keywords: Any) -> None:
        initialize(self, *arguments, **keywords)
        CAPTURED[kind] = self

    kind.__init__ = capturing


class OneThread:
    """Connections to the broker that was captured last, whose loop and only handler are the calling thread."""

    def __init__(self, connections: int = 1) -> None:
        clock = SystemClock()
        server = CAPTURED[SocketServer]
        self._requests = requests = RequestChannel(QUEUE_SIZE, clock)
        # Its reactor never runs: nothing polls, and nothing wakes it.
        self._processor = processor = Processor(
            0, server.processors[0].settings, make_reactor(clock), requests, clock, server._observers
        )
        processor.after_poll()
        apis = CAPTURED[KafkaApis]
        requests.bundled = apis.bundled
        self._handler = KafkaRequestHandler(requests, apis.handle, "one-thread", bundles=apis)
        self._parker = requests.add_handler()
        self._parker.role = self._handler
        requests.release_idle(self._parker, 0)
        self._watch = StallWatch([requests], clock, "one-thread")  # not started: nobody takes over
        self.channels = [self._connect(40_000 + number) for number in range(connections)]

    def _connect(self, port: int) -> KafkaChannel:
        info = self._processor.new_connections.describe(("127.0.0.1", 9092), ("127.0.0.1", port))
        channel = KafkaChannel(info, self._processor, 100_000_000)
        channel.transport = Wire()  # type: ignore[assignment]
        self._processor.add_channel(channel)
        return channel

    def send(self, data: bytes) -> None:
        """Send a frame, or several, over each connection, and handle everything until it is answered."""
        for channel in self.channels:
            if len(data) <= READ_BYTES:
                channel.dataReceived(data)
            else:
                self._send_large(channel, data)
        self._processor.handle_requests()
        for channel in self.channels:
            if channel.in_flight is not None:
                self._finish(channel)

    def _send_large(self, channel: KafkaChannel, data: bytes) -> None:
        position = 0
        while position < len(data):
            view = channel.get_buffer()
            piece = memoryview(data)[position : position + (READ_BYTES if view is None else len(view))]
            if view is None:
                channel.dataReceived(bytes(piece))
            else:
                with view:
                    copy_into(view, piece, 0)
                channel.buffer_updated(len(piece))
            position += len(piece)

    def _finish(self, channel: KafkaChannel) -> None:
        deadline = time.monotonic() + ANSWER_S
        while channel.in_flight is not None:
            if self._requests.has_large_next:
                self._requests.claim_idle(0)
                self._handler.step(self._parker, 1.0)
                self._requests.release_idle(self._parker, 0)
            elif self._parker.park(0):  # another thread has woken this handler, and left it what is queued
                self._handler.step(self._parker, 1.0)
                self._requests.release_idle(self._parker, 0)
            self._processor.run_pending()
            self._processor.handle_requests()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {ANSWER_S} s")


def rounds_for(data: bytes, rounds: int = ROUNDS) -> int:
    """Return the number of rounds for this frame."""
    return max(20, min(rounds, MAX_BYTES // (PER_ROUND * len(data))))


def measure(name: str, path: OneThread, batches: Iterable[Sequence[bytes]], *, is_profiled: bool) -> None:
    """Print the time per request in the fastest batch and in the median one, and with `is_profiled` the profile of all batches."""
    profiler = cProfile.Profile()
    times = []
    for batch in batches:
        if is_profiled:
            profiler.enable()
        started = time.thread_time()
        for data in batch:
            path.send(data)
        times.append((time.thread_time() - started) / len(batch) / len(path.channels) * 1e6)
        if is_profiled:
            profiler.disable()
    print(f"{name:32} {min(times):8.1f} {statistics.median(times):8.1f}")
    if is_profiled:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def measure_traffic(port: int, options: argparse.Namespace) -> None:
    """Measure the scenarios whose names match."""
    traffic, path = Traffic(port), OneThread()
    print(f"{'us of processor time':32} {'fastest':>8} {'median':>8}")
    for name in SCENARIOS:
        if fnmatch.fnmatchcase(name, options.traffic):
            sent = SCENARIOS[name](traffic)
            first = next(sent)
            path.send(first)
            batches = (list(itertools.islice(sent, TRAFFIC_PER_ROUND)) for _ in range(rounds_for(first, TRAFFIC_ROUNDS)))
            measure(name, path, batches, is_profiled=options.profile is not None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_path", description=__doc__)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--profile", metavar="FRAME")
    parser.add_argument("--traffic", metavar="PATTERN", help="scenarios of many partitions instead")
    options = parser.parse_args()
    capture_parts()
    with scratch() as directory, Broker({"access.log.dir": directory / "access"}, data_dir=directory) as broker:
        if options.traffic is not None:
            measure_traffic(broker.listeners[0].port, options)
            return
        prepared = frames.prepare("127.0.0.1", broker.listeners[0].port, "bench")
        path = OneThread(options.connections)
        print(f"{'us of processor time':32} {'fastest':>8} {'median':>8}")
        names = [options.profile] if options.profile else list(prepared)
        for name in names:
            data = prepared[name]
            each = max(5, PER_ROUND // options.connections)
            batches = itertools.repeat([data] * each, rounds_for(data))
            measure(name, path, batches, is_profiled=options.profile is not None)


if __name__ == "__main__":
    main()
