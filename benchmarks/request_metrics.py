"""The cost of request metrics: a request's row, and its share of folding rows, on one thread.

    python -m benchmarks.request_metrics

Prints the nanoseconds per request in the fastest of many rounds, and the number of bytecode instructions, which does not depend on
other programs on the machine.
"""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.connection_stats import ConnectionStats
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.timing.clock import SystemClock

ROUNDS, PER_ROUND = 40, 5_120


def make_request(api_key: int, version: int) -> Request:
    """Return a completed request without a channel."""
    info = ConnectionInfo("127.0.0.1:9092-127.0.0.1:40000-0", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
    nobody: Any = None
    request = Request(RequestContext(api_key, version, 1, "bench", info), b"x" * 100, 10, nobody, 1_000)
    request.dequeued_ns, request.local_complete_ns, request.response_ready_ns = 2_000, 5_000, 5_500
    request.response_dequeued_ns, request.sent_ns, request.response_bytes = 7_000, 9_000, 60
    return request


def count_bytecodes(call: Callable[[], object]) -> int:
    """Count the bytecode instructions of a call, including those of nested calls."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


def measure(name: str, call: Callable[[], object]) -> None:
    """Print the cost of a call, measured over ``PER_ROUND`` calls."""

    def loop() -> None:
        for _ in range(PER_ROUND):
            call()

    best = min(timed(loop) for _ in range(ROUNDS)) - min(timed(empty) for _ in range(ROUNDS))
    print(f"{name:32} {best / PER_ROUND:8.0f} ns {count_bytecodes(loop) / PER_ROUND:8.1f} bytecodes")


def empty() -> None:
    """Run an empty loop, whose cost is subtracted."""
    for _ in range(PER_ROUND):
        pass


def timed(call: Callable[[], object]) -> int:
    """Return the nanoseconds that a call takes."""
    started = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - started


def main() -> None:
    metrics = RequestMetrics(MetricsRegistry(SystemClock()))
    for name, api_key, version in (
        ("Heartbeat", 12, 4),
        ("Produce", 0, 9),
        ("Fetch (under two names)", 1, 12),
        ("Fetch v2, deprecated", 1, 2),
    ):
        request = make_request(api_key, version)
        measure(name, lambda request=request: metrics.request_completed(request))  # type: ignore[misc]
    stats = ConnectionStats()
    request = make_request(12, 4)

    def count() -> None:
        stats.request_bytes += request.request_bytes
        size = request.response_bytes
        stats.responses += 1
        stats.response_bytes += size
        if size > stats.max_response_bytes:
            stats.max_response_bytes = size

    measure("counters of a processor", count)


if __name__ == "__main__":
    main()
