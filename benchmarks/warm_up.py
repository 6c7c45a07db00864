"""Print how many requests per second a broker answers in the first minute after its start, which compilers of both kinds need.

    python -m benchmarks.warm_up [--frame produce_1x100] [--load 8x1] [--seconds 60] [--no-kafka]

BROKER_PYTHON is the interpreter of the broker, as for the tests. Apache Kafka (one node in KRaft mode) is measured after it if Java
and Maven are installed. Each broker is new and has had no request but those that create the topic. Requires gcc.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.__main__ import BUILD, HERE
from benchmarks.scratch import scratch
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka

sys.path.insert(0, str(HERE / "beside"))

import bench
import frames

TOPIC = "warm-up"
FRAMES = ("apiversions3", "metadata1", "produce_1x100", "produce_100x100", "produce_16k", "fetch_empty")
"""Of bench.py's requests those that need no data and no group."""
MARKS_S = (1, 2, 5, 10, 20, 40, 60)


def rates(broker: Any, options: argparse.Namespace) -> list[float]:
    """Return the requests that were answered in each second, beginning with the first request after the topic's creation."""
    connection = broker.connect()
    connection.create([TOPIC])
    connection.close()
    path = broker.file(options.frame, frames.build(TOPIC, produce_to=TOPIC)[options.frame])
    connections, depth = options.load.split("x")
    return [broker.measure("kload", broker.port, connections, depth, 1, path)["req/s"] for _ in range(options.seconds)]


def ours(directory: Path) -> tuple[str, list[int], Callable[[], None]]:
    broker = ServedBroker(directory / "ours")
    broker.start()
    assert broker.process is not None
    return broker.bootstrap, [broker.process.pid], broker.kill


def kafka(directory: Path) -> tuple[str, list[int], Callable[[], None]]:
    broker = ApacheKafka(directory / "kafka", kraft=True)
    broker.start()
    return broker.bootstrap, [broker.broker_pid], broker.kill


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.warm_up", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frame", choices=FRAMES, default="produce_1x100")
    parser.add_argument("--load", default="8x1", help="connections x requests in flight")
    parser.add_argument("--seconds", type=int, default=MARKS_S[-1])
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=java_class_path() is not None)
    options = parser.parse_args()
    tools = bench.compile_tools(BUILD)
    measured = {}
    with scratch() as directory:
        for name, start in {"here": ours, "kafka": kafka}.items():
            if name == "kafka" and not options.kafka:
                continue
            bench.prime()
            with contextlib.ExitStack() as stack:
                began_s = time.monotonic()
                address, pids, stop = start(directory)
                stack.callback(stop)
                print(f"{name} started in {time.monotonic() - began_s:.1f} s", file=sys.stderr, flush=True)
                measured[name] = rates(bench.Broker(name, address, pids, tools), options)
    marks = [mark for mark in MARKS_S if mark <= options.seconds]
    print("| requests/s in second | " + " | ".join(map(str, marks)) + " |\n|" + "---|" * (len(marks) + 1))
    for name, values in measured.items():
        print(f"| {name} | " + " | ".join(f"{values[mark - 1]:,.0f}" for mark in marks) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
