"""Print a broker's resident memory at rest and after each of bench.py's scenarios, which one broker runs in a row.

    python -m benchmarks.memory [--seconds 5] [--rounds 1] [--only 'req:*'] [--override KEY=VALUE]

With more rounds the whole series is repeated: the last column of figures must not grow. BROKER_PYTHON is the interpreter of the
broker, as for the tests. Requires what `python -m benchmarks` requires.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.__main__ import BUILD, HERE
from benchmarks.scratch import scratch
from tests.clients.served import ServedBroker

sys.path.insert(0, str(HERE / "beside"))

import bench

SCENARIOS = (
    *(f"req:{frame}:{load}" for frame in ("apiversions3", "metadata1") for load in ("1x1", "8x1", "32x4")),
    *(f"req:{frame}:32x4" for frame in ("produce_1x100", "produce_100x100", "produce_16k")),
    *("req:produce_1m:1x1", "req:produce_1m:8x1", "req:produce_1m:32x4"),
    *(f"req:{frame}:32x4" for frame in ("fetch_empty", "fetch_64k", "fetch_1m", "listoffsets", "heartbeat", "offsetcommit")),
    *("produce:100B:acks=1:none:1p", "produce:1000B:acks=all:lz4:8p", "consume:100B:none:1p", "consume:1000B:lz4:8p"),
    *("churn:8", "idle:1000", "join:50", "topics:1000"),
)
"""Of each family of scenarios the busiest, and what differs in how it uses memory."""

REST_S = 10


def run(broker: Any, seconds: float, only: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Run the scenarios; yield the name of each with what it measured."""
    for name in SCENARIOS:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in only.split(",")):
            yield name, bench.SCENARIOS[name][2](broker, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of load in a scenario")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="*", help="comma-separated patterns of scenario names")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    options = parser.parse_args()
    bench.prime = lambda megabytes=0: None  # rates do not matter here
    tools = bench.compile_tools(BUILD)
    with scratch() as directory:
        served = ServedBroker(directory / "broker", *options.override)
        served.start()
        try:
            assert served.process is not None
            broker = bench.Broker("broker", served.bootstrap, [served.process.pid], tools)

            def report(what: str, figure: str = "") -> None:
                used = bench.memory(broker.pids, "Rss", "VmHWM")
                print(f"{what:32} {used['Rss']:6.0f} MB, {used['VmHWM']:6.0f} at most {figure}", flush=True)

            report("started")
            time.sleep(REST_S)
            report(f"after {REST_S} s at rest")
            for number in range(options.rounds):
                for name, result in run(broker, options.seconds, options.only):
                    cost = result["cpu_broker"] / (result.get("n") or 1) * 1e6
                    report(name, f" {result['figure']:10,.0f} {bench.SCENARIOS[name][0]} {cost:8,.1f} us")
                time.sleep(REST_S)
                report(f"round {number + 1}, after {REST_S} s at rest")
        finally:
            served.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
