"""The cost of a request in Python, without sockets and threads: frame, handler and response on one thread.

    python -m benchmarks.request_path [--profile FRAME]

Prints the fastest of many rounds, in microseconds, which reduces the influence of other programs.
"""

import argparse
import cProfile
import itertools
import pstats
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.scratch import scratch

sys.path.insert(0, str(Path(__file__).resolve().parent / "beside"))

import frames

from twisted_kafka import Broker
from twisted_kafka.broker import kafka_server
from twisted_kafka.network.connection.channel import KafkaChannel

ROUNDS, PER_ROUND = 600, 20

MAX_BYTES = 1 << 30
"""The most bytes to send for one frame: large frames get fewer rounds, because produced data stays on disk until the end."""


class Wire:
    """A transport that accepts everything at once."""

    def send(self, parts: Any, size_bytes: int) -> bool:
        return True

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


CAPTURED: dict[str, Any] = {}


def capture(name: str) -> None:
    """Keep the instance of this class that the broker creates."""
    kind = getattr(kafka_server, name)
    initialize = kind.__init__

    def capturing(self: Any, *arguments: Any, **keywords: Any) -> None:
        initialize(self, *arguments, **keywords)
        CAPTURED[name] = self

    kind.__init__ = capturing


def one_thread() -> tuple[KafkaChannel, Callable[[], None]]:
    """Return a channel of the broker's first processor, and a function that handles all queued requests."""
    processor = CAPTURED["SocketServer"].processors[0]
    requests = processor._request_channel
    info = processor.new_connections.describe(("127.0.0.1", 9092), ("127.0.0.1", 40000))
    channel = KafkaChannel(info, processor, 100_000_000)
    channel.transport = Wire()  # type: ignore[assignment]
    processor.add_channel(channel)
    processor._wake_pending = True  # its own thread sleeps on
    queue, handle = requests._queue, CAPTURED["KafkaApis"].handle

    def pump() -> None:
        while queue:
            while queue:
                handle(queue.popleft())
            processor.process_new_responses()

    return channel, pump


def rounds_for(data: bytes, rounds: int = ROUNDS) -> int:
    """Return the number of rounds for this frame."""
    return max(20, min(rounds, MAX_BYTES // (PER_ROUND * len(data))))


def measure(
    name: str, channel: KafkaChannel, pump: Callable[[], None], batches: Iterable[Sequence[bytes]], *, is_profiled: bool
) -> None:
    """Print the time per request in the fastest batch, and with `is_profiled` the profile of all batches."""
    profiler = cProfile.Profile()
    best = 1e9
    for batch in batches:
        if is_profiled:
            profiler.enable()
        started = time.perf_counter()
        for data in batch:
            channel.dataReceived(data)
            pump()
        best = min(best, (time.perf_counter() - started) / len(batch))
        if is_profiled:
            profiler.disable()
    print(f"{name:24} {best * 1e6:8.1f} us")
    if is_profiled:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_path", description=__doc__)
    parser.add_argument("--profile", metavar="FRAME")
    options = parser.parse_args()
    capture("SocketServer")
    capture("KafkaApis")
    with scratch() as directory, Broker({"access.log.dir": directory / "access"}, data_dir=directory) as broker:
        port = broker.listeners[0].port
        prepared = frames.prepare("127.0.0.1", port, "bench")
        channel, pump = one_thread()
        names = [options.profile] if options.profile else list(prepared)
        for name in names:
            data = prepared[name]
            batches = itertools.repeat([data] * PER_ROUND, rounds_for(data))
            measure(name, channel, pump, batches, is_profiled=options.profile is not None)


if __name__ == "__main__":
    main()
