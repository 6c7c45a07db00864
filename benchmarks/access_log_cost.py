"""The cost of the access log per request: the same requests through two brokers in turn, one with the log and one without.

    python -m benchmarks.access_log_cost [--rounds 400]

On one thread, as in `request_path`. Prints the fastest of many rounds of each broker, in microseconds of processor time. The
writer's thread is not included.
"""

import argparse
import contextlib
import time

from benchmarks import request_path
from benchmarks.request_path import PER_ROUND, OneThread, capture_parts, frames, rounds_for
from benchmarks.scratch import scratch
from twisted_kafka import Broker


def time_round(path: OneThread, data: bytes) -> float:
    """Return the seconds of processor time per request in one round."""
    started = time.thread_time()
    for _ in range(PER_ROUND):
        path.send(data)
    return (time.thread_time() - started) / PER_ROUND


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access_log_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=request_path.ROUNDS)
    options = parser.parse_args()
    capture_parts()
    with contextlib.ExitStack() as stack:
        sides = []
        directory = stack.enter_context(scratch())
        for name, config in ("without", {}), ("with", {"access.log.dir": directory / "access"}):
            broker = stack.enter_context(Broker(config, data_dir=directory / name))
            prepared = frames.prepare("127.0.0.1", broker.listeners[0].port, "bench")
            sides.append((prepared, OneThread()))
        print(f"{'request':24} {'without':>10} {'with':>10} {'cost':>10}   (us)")
        for name in sides[0][0]:
            fastest = [1e9, 1e9]
            for _ in range(rounds_for(sides[0][0][name], options.rounds)):
                for at, (prepared, path) in enumerate(sides):
                    fastest[at] = min(fastest[at], time_round(path, prepared[name]))
            without, with_log = (each * 1e6 for each in fastest)
            print(f"{name:24} {without:10.1f} {with_log:10.1f} {with_log - without:10.2f}")


if __name__ == "__main__":
    main()
