"""Sampling: every request that fails, is slow or ends a transaction gets a line, and a fraction of the others."""

from collections.abc import Callable
from typing import Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.system import machine

_WAITS_BY_DESIGN: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH})
"""APIs that wait for records or for group members: their remote time does not count as slow."""


class Sampler:
    """Samples one in ``one_in`` of the other requests (access.log.sample.rate, access.log.sample.slow.ms)."""

    def __init__(self, one_in: int, slow_ms: int, draw: Callable[[], float] | None = None) -> None:
        self._one_in = one_in
        self._slow_ns = slow_ms * 1_000_000
        self._draw = draw if draw is not None else machine.chance.random

    def weight(self, request: Request) -> int:
        """Return how many requests the line of this one represents; 0 if it gets none."""
        context = request.context
        if context.error or (context.transaction is not None and context.transaction.outcome is not None):
            return 1
        took_ns = request.sent_ns - request.received_ns
        if context.api_key in _WAITS_BY_DESIGN:
            took_ns -= request.response_ready_ns - request.local_complete_ns
        if took_ns >= self._slow_ns:
            return 1
        return self._one_in if self._draw() * self._one_in < 1 else 0
