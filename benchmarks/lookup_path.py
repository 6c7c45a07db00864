"""The cost of a log look-up in Python, without sockets and threads: the frames of ``log_beside_kafka`` on one thread.

    python -m benchmarks.lookup_path [--megabytes 256] [--profile NAME]

Fetches at random offsets and ListOffsets of random timestamps in a log with batches of 16 KB. Prints the fastest of many rounds of
100 requests and the median, in microseconds of processor time.
"""

import argparse
import itertools
import random

from benchmarks.beside import frames
from benchmarks.log_beside_kafka import FIRST_MS, SETTINGS, STORED_BATCH, stored_batch, time_frame
from benchmarks.request_path import OneThread, capture_parts, measure
from benchmarks.scratch import scratch
from twisted_kafka import Broker

ROUNDS, PER_ROUND = 300, 100
SEGMENT_BYTES = 32 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookup_path", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--profile", metavar="NAME")
    options = parser.parse_args()
    capture_parts()
    settings = {key: str(value) for key, value in SETTINGS.items()}
    with scratch() as directory, Broker({"access.log.dir": directory / "access", **settings}, data_dir=directory) as broker:
        connection = frames.Connection("127.0.0.1", broker.listeners[0].port)
        connection.create(["stored"], 1, segment_bytes=SEGMENT_BYTES, retention_ms=-1)
        count = (options.megabytes << 20) // len(stored_batch(0))
        for number in range(count):
            if error := connection.produce("stored", stored_batch(number)):
                raise RuntimeError(f"produce: error {error}")
        connection.close()
        path = OneThread()
        draw, end = random.Random(1), count * STORED_BATCH
        lookups = {
            "fetch at an offset": [frames.fetch("stored", draw.randrange(end), 4096) for _ in range(5000)],
            "ListOffsets of a timestamp": [time_frame("stored", FIRST_MS + draw.randrange(end)) for _ in range(5000)],
            "ListOffsets of the end": [time_frame("stored", -1)],
        }
        for name in [options.profile] if options.profile else list(lookups):
            requests = itertools.cycle(lookups[name])
            batches = (list(itertools.islice(requests, PER_ROUND)) for _ in range(ROUNDS))
            measure(name, path, batches, is_profiled=options.profile is not None)


if __name__ == "__main__":
    main()
