"""Threads for work that a request begins and must not do itself."""

from collections.abc import Callable
from typing import NamedTuple

from twisted_kafka.timing.timer import Timer


class OtherThreads(NamedTuple):
    """Run functions on threads that may read from logs and append: ``timer`` after a delay, ``later`` at once."""

    timer: Timer
    later: Callable[[Callable[[], None]], None]
