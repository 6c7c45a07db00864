"""What quotas cost per request: none, of bytes, and of bytes and request time, in turn in one process; nobody is throttled.

    python -m benchmarks.quotas [--frames produce_1x100,fetch_empty] [--rounds 300]

Prints the processor time of one thread per request, the fastest of many rounds and the median, as ``benchmarks.acls`` does.
"""

import argparse
import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.acls import TOPIC, Measured, measure, show
from benchmarks.request_path import CAPTURED, OneThread, capture_parts, frames
from benchmarks.scratch import scratch
from tests.oracle.scenarios_quotas import change
from tests.support.oracle.talk import Talk
from twisted_kafka import Broker
from twisted_kafka.protocol.messages.administration.quotas import OpData

LARGE = 1e12
APPLIED_S = 0.5
BYTES = {"producer_byte_rate": LARGE, "consumer_byte_rate": LARGE}
SETTINGS: Mapping[str, Mapping[str, float]] = {
    "no quotas": {},
    "bytes": BYTES,
    "bytes and time": BYTES | {"request_percentage": 1e9},
}


@contextlib.contextmanager
def started(name: str, directory: Path, names: list[str]) -> Iterator[Measured]:
    with Broker({"access.log.dir": str(directory / "access")}, data_dir=directory) as broker:
        port = broker.listeners[0].port
        prepared = frames.prepare("127.0.0.1", port, TOPIC)
        if SETTINGS[name]:
            talk = Talk(port, "quotas")
            change(talk, 1, [("user", None)], *(OpData(key=key, value=value) for key, value in SETTINGS[name].items()))
            talk.close()
            time.sleep(APPLIED_S)
        yield Measured(name, OneThread(), prepared, {each: [] for each in names})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quotas", description=__doc__)
    parser.add_argument("--frames", default="produce_1x100,fetch_empty,metadata1")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    names = options.frames.split(",")
    capture_parts()
    with scratch() as directory, contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(started(name, directory / str(at), names)) for at, name in enumerate(SETTINGS)]
        measure(brokers, names, options.rounds)
        show(brokers, names)
    CAPTURED.clear()


if __name__ == "__main__":
    main()
