"""The cost of validating a batch on append, including its checksum: ``python benchmarks/record_validation.py``.

Prints the CPU time in the fastest of several rounds. The batch is patched in place each time, as in the log.
"""

import random
import time
import timeit
from collections.abc import Callable

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.validation.log_validator import AppendOrigin, ValidationContext, validate_and_assign_offsets
from twisted_kafka.protocol.records.batch import SimpleRecord, parse_batch
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.scan_python import scan_in_python
from twisted_kafka.protocol.topic_partition import TopicPartition

REPEATS = 9
SECONDS_PER_REPEAT = 0.1
NOW = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)
CONFIG = LogConfig()


def best_us(action: Callable[[], object]) -> float:
    """Return the best time of one call over several rounds, in microseconds."""
    timer = timeit.Timer(action, timer=time.process_time)
    number = max(1, int(SECONDS_PER_REPEAT / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(REPEATS, number)) / number * 1e6


def records(count: int, sizes: tuple[int, int], *, text: bool = False, headers: bool = False) -> list[SimpleRecord]:
    """Return records whose values have lengths between the two ``sizes``."""
    generator = random.Random(1)
    line = b'10.0.0.%d - - "GET /page/%d HTTP/1.1" 200 %d "https://example.org/" '
    made = []
    for index in range(count):
        size = generator.randint(*sizes)
        value = generator.randbytes(size)
        if text:
            value = (line % (generator.randrange(256), generator.randrange(999), generator.randrange(99999)) * 2)[:size]
        made.append(SimpleRecord(NOW + index // 50, None, value, [("trace", b"0123"), ("h", None)] if headers else ()))
    return made


def validating(batch: bytes) -> Callable[[], object]:
    """Return a function that resets the base offset of the batch to the client's 0 and validates the batch."""
    memory = memoryview(bytearray(batch))
    client_offset = bytes(8)

    def run() -> None:
        memory[:8] = client_offset
        context = ValidationContext(PARTITION, 1000, 3, NOW, AppendOrigin.CLIENT, CONFIG, time.perf_counter_ns)
        validate_and_assign_offsets(memory, context)

    return run


def show(name: str, batch: bytes, count: int) -> None:
    run = validating(batch)
    run()
    taken = best_us(run)
    print(f"{name:44} {len(batch):9} bytes {taken:10.1f} us {taken / count:8.3f} us/record {len(batch) / taken:8.0f} MB/s")


def main() -> None:
    show("1 record of 100 B", build_batch(records(1, (100, 100))), 1)
    show("10 records of 100 B", build_batch(records(10, (100, 100))), 10)
    show("100 records of 100 B", build_batch(records(100, (100, 100))), 100)
    show("256 records of 60-140 B", build_batch(records(256, (60, 140))), 256)
    show("1,000 records of 60-140 B", build_batch(records(1000, (60, 140))), 1000)
    show("10,000 records of 100 B", build_batch(records(10_000, (92, 92))), 10_000)
    show("10,000 records of 60-140 B", build_batch(records(10_000, (52, 132))), 10_000)
    show("10,000 records of 60-140 B with two headers", build_batch(records(10_000, (42, 112), headers=True)), 10_000)
    show("1,000 records of 1,000 B", build_batch(records(1000, (1000, 1000))), 1000)
    lines = records(8000, (100, 130), text=True)
    for codec in list(Compression)[1:]:
        show(f"8,000 lines of text, {codec.text}", build_batch(lines, compression=codec), 8000)
    batch = parse_batch(memoryview(build_batch(records(10_000, (52, 132)))))
    assert batch is not None
    payload = bytes(batch.data[61:])
    taken = best_us(lambda: scan_in_python(payload, 10_000))
    print(
        f"{'10,000 records of 60-140 B without numpy':44} {len(payload):9} bytes {taken:10.1f} us {taken / 10_000:8.3f} us/record"
    )


if __name__ == "__main__":
    main()
