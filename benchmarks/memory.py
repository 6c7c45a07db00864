"""Print a broker's resident memory at rest and after each of bench.py's scenarios, which one broker runs in a row.

    python -m benchmarks.memory [--seconds 5] [--rounds 1 | --minutes 60] [--only 'req:*'] [--override KEY=VALUE]

With more rounds the whole series is repeated: what is used at rest after each must not grow. With --minutes it is repeated for so
long, and prints a line for each minute instead of each scenario. BROKER_PYTHON is the interpreter of the broker, as for the tests.
Requires what `python -m benchmarks` requires.
"""

import argparse
import fnmatch
import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.__main__ import BUILD, HERE
from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker

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


class Report:
    """Prints what the broker uses: after every scenario, or every minute with the largest of the scenarios that ended in it."""

    def __init__(self, broker: Any, each_minute: bool) -> None:
        self._broker = broker
        self._each_minute = each_minute
        self._started_s = time.monotonic()
        self._minutes = 0
        self._highest = 0.0

    def line(self, what: str, figure: str = "") -> None:
        used = bench.memory(self._broker.pids, "Rss", "VmHWM")
        highest = max(self._highest, used["VmHWM"])
        print(f"{what:32} {used['Rss']:6.0f} MB, {highest:6.0f} at most {figure}", flush=True)
        self._highest = 0.0

    def ended(self, name: str, result: dict[str, float]) -> None:
        if not self._each_minute:
            cost = result["cpu_broker"] / (result.get("n") or 1) * 1e6
            self.line(name, f" {result['figure']:10,.0f} {bench.SCENARIOS[name][0]} {cost:8,.1f} us")
            return
        self._highest = max(self._highest, result.get("VmHWM", 0.0))  # a scenario resets it when it starts
        if (minutes := int(self.passed_s() / 60)) > self._minutes:
            self._minutes = minutes
            self.line(f"minute {minutes}", f" ({name})")

    def passed_s(self) -> float:
        return time.monotonic() - self._started_s


def measure(broker: Any, options: argparse.Namespace) -> None:
    """Run the series until it has been run often or long enough."""
    report = Report(broker, options.minutes is not None)
    report.line("started")
    time.sleep(REST_S)
    report.line(f"after {REST_S} s at rest")
    for number in itertools.count(1):
        for name, result in run(broker, options.seconds, options.only):
            report.ended(name, result)
        time.sleep(REST_S)
        report.line(f"round {number}, after {REST_S} s at rest")
        if (report.passed_s() >= options.minutes * 60) if options.minutes is not None else (number >= options.rounds):
            return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of load in a scenario")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="repeat the series for so long instead, to the end of its last round")
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
            measure(bench.Broker("broker", served.bootstrap, [served.process.pid], tools), options)
        except RuntimeError:
            print(f"The broker's exit status is {served.process.poll()}; its log ends:\n{served.output.read_text()[-5000:]}")
            raise
        finally:
            served.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
