"""Which of a processor's connections are to be closed for doing nothing. (Kafka: Selector's IdleExpiryManager.)

A channel notes when it was last active; that is all that it costs a request. Who was active least recently is looked for when
somebody asks: every tenth of ``connections.max.idle.ms``, and when there are more connections than ``max.connections``.
"""

from collections.abc import Collection
from typing import Any

from twisted.internet.task import LoopingCall

from twisted_kafka.network.channel import KafkaChannel

IDLE_CHECKS = 10
"""Idle connections are looked for so many times within the time that they may be idle ..."""

MAX_IDLE_CHECK_S = 60.0
"""... but at least this often."""


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


def start_idle_check(check: Any, idle_ms: int, reactor: Any) -> LoopingCall | None:
    """Have ``check`` called often enough for ``idle_ms``, on ``reactor``'s thread; a limit below 0 is none."""
    if idle_ms <= 0:
        return None
    call = LoopingCall(check)
    call.clock = reactor
    call.start(min(idle_ms / 1000 / IDLE_CHECKS, MAX_IDLE_CHECK_S), now=False)
    return call


def _last_active(channel: KafkaChannel) -> int:
    return channel.last_active_ns
