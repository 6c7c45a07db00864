"""Which requests get a line when not all do: every failed and every slow one, and of the others one in so many."""

import random
from collections.abc import Callable
from typing import Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.api import ApiKey

_WAITS_BY_DESIGN: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH})
"""APIs that wait for records or for the members of a group: their remote time makes no request slow."""


class Sampler:
    """Keeps one request in `one_in` of those that are neither failed nor slow (access.log.sample.rate, .slow.ms)."""

    def __init__(self, one_in: int, slow_ms: int, draw: Callable[[], float] = random.random) -> None:
        self._one_in = one_in
        self._slow_ns = slow_ms * 1_000_000
        self._draw = draw

    def weight(self, request: Request) -> int:
        """Return how many requests the line of this one stands for; 0: it gets none."""
        if request.context.error:
            return 1
        took_ns = request.sent_ns - request.received_ns
        if request.context.api_key in _WAITS_BY_DESIGN:
            took_ns -= request.response_ready_ns - request.local_complete_ns
        if took_ns >= self._slow_ns:
            return 1
        return self._one_in if self._draw() * self._one_in < 1 else 0
