"""Finds the connections of a processor that should be closed because nothing happens on them. (Kafka: IdleExpiryManager.)

A channel records when it was last active, which is all that a request pays for this. The least recently active channels are
searched for on demand: every tenth of ``connections.max.idle.ms``, and when there are more connections than ``max.connections``.
"""

from collections.abc import Callable, Collection
from typing import Any

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request import Request

IDLE_CHECKS = 10
"""How many checks there are within ``connections.max.idle.ms`` ..."""

MAX_IDLE_CHECK_S = 60.0
"""... but the time between two checks is at most this."""

GRACE_S = 10.0
"""How long a client may send as slowly as it likes a request that it has begun ..."""

SLOW_BYTES_PER_S = 16 * 1024
"""... and how fast it has to send it after that, while other connections wait for memory ..."""

WHOLE_REQUEST_S = 60
"""... or faster, so that the whole request takes no longer than this: the largest one leaves no memory for others. Kafka's
producers wait 30 s for an answer (request.timeout.ms)."""

HOLDERS_CHECK_S = 1.0

HALF_CLOSED_S = 1.0
"""How long a connection waits for the response to its last request after its client has stopped sending."""

_log = Logger()


def idle_channels(channels: Collection[KafkaChannel], limit_ns: int) -> list[KafkaChannel]:
    """Return the channels inactive since ``limit_ns``, oldest first, except those whose request is being handled."""
    idle = []
    for channel in channels:
        request = channel.in_flight
        if channel.last_active_ns <= limit_ns and (request is None or request.response_dequeued_ns):
            idle.append(channel)
    idle.sort(key=_last_active)
    return idle


def least_recently_used(channels: Collection[KafkaChannel]) -> KafkaChannel:
    """Return the least recently active channel; there must be at least one (Kafka: lowestPriorityChannel)."""
    return min(channels, key=_last_active)


def slow_holders(channels: Collection[KafkaChannel]) -> list[KafkaChannel]:
    """Return the channels that hold memory for a request which they receive too slowly."""
    return [channel for channel in channels if channel.is_slower_than(SLOW_BYTES_PER_S, WHOLE_REQUEST_S, int(GRACE_S * 1e9))]


def idle_check_s(idle_ms: int) -> float:
    """Return the time between two checks for connections idle for ``idle_ms``."""
    return min(idle_ms / 1000 / IDLE_CHECKS, MAX_IDLE_CHECK_S)


class PeriodicCheck:
    """Calls ``check`` periodically on a reactor's thread. An exception is logged and does not end the calls.

    Twisted's LoopingCall would install the default reactor of the process, which is the application's to choose.
    """

    def __init__(self, check: Callable[[], object], interval_s: float, reactor: Any) -> None:
        self._check = check
        self._interval_s = interval_s
        self._reactor = reactor
        self._next: Any = None

    def start(self) -> None:
        """Call ``check`` after the first interval."""
        self._next = self._reactor.callLater(self._interval_s, self._run)

    def stop(self) -> None:
        """End the calls."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def _run(self) -> None:
        self.start()  # first: the check may stop the calls
        try:
            self._check()
        except Exception:  # noqa: BLE001 the next check may succeed
            _log.failure("Checking connections failed")


def start_check(check: Callable[[], object], interval_s: float, reactor: Any) -> PeriodicCheck:
    """Start a PeriodicCheck and return it."""
    periodic = PeriodicCheck(check, interval_s, reactor)
    periodic.start()
    return periodic


def close_after_last_response(channel: KafkaChannel, reactor: Any) -> None:
    """Close a channel whose client sends no more when no request has been completed for ``HALF_CLOSED_S``.

    Most such clients have disconnected, and a connection must not stay open for them.
    """
    reactor.callLater(HALF_CLOSED_S, _close_if_unchanged, channel, channel.in_flight, reactor)


def _close_if_unchanged(channel: KafkaChannel, request: Request | None, reactor: Any) -> None:
    if not channel.is_open:
        return
    if channel.in_flight is request and not channel.has_waiting_requests:
        channel.close()
    else:
        close_after_last_response(channel, reactor)


def _last_active(channel: KafkaChannel) -> int:
    return channel.last_active_ns
