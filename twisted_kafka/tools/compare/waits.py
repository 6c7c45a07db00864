"""Waiting for real brokers, in real time."""

import threading
from typing import Final

from twisted_kafka.timing.clock import SystemClock

_never: Final = threading.Event()


def now_s() -> float:
    """Return seconds on the system's monotonic clock."""
    return SystemClock.monotonic_ns() / 1e9


def pause(wait_s: float) -> None:
    """Wait."""
    _never.wait(wait_s)
