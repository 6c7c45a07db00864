"""Which connections of a processor are to be closed for doing nothing, and for sending no more. (Kafka: IdleExpiryManager.)

A channel notes when it was last active; that is all that it costs a request. Who was active least recently is looked for when
somebody asks: every tenth of ``connections.max.idle.ms``, and when there are more connections than ``max.connections``.
"""

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request import Request

IDLE_CHECKS = 10
"""Idle connections are looked for so many times within the time that they may be idle ..."""

MAX_IDLE_CHECK_S = 60.0
"""... but at least this often."""

PATIENCE_S = 10.0
"""While others wait for memory, a client that has announced a request may be silent for so long before it has sent it."""

HOLD_CHECK_S = 1.0

HALF_CLOSED_S = 1.0
"""A client that has shut down its sending side, or has gone, waits so long for the answer to its last request."""

_log = Logger()


def idle_channels(channels: Collection[KafkaChannel], limit_ns: int) -> list[KafkaChannel]:
    """Return those that were not active since ``limit_ns``, the least recently active first, but for those a handler works for."""
    idle = []
    for channel in channels:
        request = channel.in_flight
        if channel.last_active_ns <= limit_ns and (request is None or request.response_dequeued_ns):
            idle.append(channel)
    idle.sort(key=_last_active)
    return idle


def least_recently_used(channels: Collection[KafkaChannel]) -> KafkaChannel:
    """Return the one that was not active for the longest time, of one at least (Kafka: lowestPriorityChannel)."""
    return min(channels, key=_last_active)


def silent_holders(channels: Collection[KafkaChannel], limit_ns: int) -> list[KafkaChannel]:
    """Return those that hold memory for a request of which nothing has come since ``limit_ns``."""
    return [channel for channel in channels if channel.holds_memory and channel.last_active_ns <= limit_ns]


def idle_check_s(idle_ms: int) -> float:
    """Return how often to look for connections that may be idle for ``idle_ms``."""
    return min(idle_ms / 1000 / IDLE_CHECKS, MAX_IDLE_CHECK_S)


def start_check(check: Callable[[], object], every_s: float, reactor: Any) -> LoopingCall:
    """Have ``check`` called so often, on ``reactor``'s thread, also after it failed."""

    def run() -> None:
        try:
            check()
        except Exception:  # noqa: BLE001 it would be called no more
            _log.failure("Looking after connections failed")

    call = LoopingCall(run)
    call.clock = reactor
    call.start(every_s, now=False)
    return call


def close_after_last_answer(channel: KafkaChannel, reactor: Any) -> None:
    """Close a channel whose client sends no more ``HALF_CLOSED_S`` after it took its last answer, or was to take it.

    Most that send no more have gone, and nobody is to wait for theirs.
    """
    reactor.callLater(HALF_CLOSED_S, _give_up, channel, channel.in_flight, reactor)


def _give_up(channel: KafkaChannel, request: Request | None, reactor: Any) -> None:
    if not channel.is_open:
        return
    if channel.in_flight is request and not channel.has_waiting_requests:
        channel.close()
    else:
        close_after_last_answer(channel, reactor)


def _last_active(channel: KafkaChannel) -> int:
    return channel.last_active_ns
