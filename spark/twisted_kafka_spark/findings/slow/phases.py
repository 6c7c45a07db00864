"""The phases of a request that may be slow, what each means, and a time in which one is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Span

ALL = "all"
"""Stands for all APIs together."""
OF_CLIENTS = ("local_us", "remote_us", "send_us")
"""The phases that may be slow because of a client."""
LONG_MINUTES = 10
"""The least length of a long span: a few slow requests do not explain it."""
SHARE = 0.6
"""The share of the additional time that names a broker, a client or a service."""
_ABOVE_NOISE, _NOISE = 1.5, 0.98
"""How many times as slow the middle of a short span is as all but a few of the minutes outside of spans."""


class Slow(NamedTuple):
    """The meaning of a slow phase."""

    finding: str
    phase: str
    title: str
    paused: str
    advice: str
    impact: str


SLOW_PHASES: tuple[Slow, ...] = (
    Slow(
        "slow-disk",
        "local_us",
        "Local processing{whose} in {place} was slow",
        "Local processing paused in",
        "Check the disks of log.dirs (iostat: await, util) and what else uses them: local time is spent on appends and reads.",
        "requests took longer in the broker itself",
    ),
    Slow(
        "slow-follower",
        "remote_us",
        "Requests{whose} to {place} waited for other replicas",
        "Requests paused for other replicas in",
        "Check for a lagging follower (UnderReplicatedPartitions, its network and disk): acks=all waits for the followers.",
        "producers with acks=all waited",
    ),
    Slow(
        "busy-threads",
        "request_queue_us",
        "Requests{whose} to {place} waited for a request handler",
        "Requests were not handled by",
        "Increase num.io.threads if RequestHandlerAvgIdlePercent is low; if local time has also increased, that is the cause.",
        "requests of all clients waited in the queue",
    ),
    Slow(
        "busy-network",
        "response_queue_us",
        "Responses{whose} of {place} waited for a network thread",
        "Responses were not sent by",
        "Increase num.network.threads if NetworkProcessorAvgIdlePercent is low.",
        "responses to all clients waited in the queue",
    ),
    Slow(
        "slow-readers",
        "send_us",
        "Sending responses {place}{whose} was slow",
        "Sending responses paused",
        "Check the network, and clients that read slowly: the broker cannot send faster than they read.",
        "responses left the broker late",
    ),
)


class Slowness(NamedTuple):
    """A span in which a phase was slow: for an API or ALL, and for one broker, one client, or neither. Times in microseconds."""

    api: str
    span: Span
    worst_us: float
    limit_us: float
    usual_us: float
    node: int | None = None
    client: tuple[Any, ...] | None = None

    @property
    def weight(self) -> float:
        """How bad it is, compared to others."""
        return self.worst_us * self.span.unusual_minutes


def floor_us(usual_us: float) -> float:
    """Return the least mean time of a phase that may be slow."""
    return min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * usual_us))


def noise_us(means_us: Any) -> float:
    """Return what half of the minutes of a short span must exceed, given the mean times of the minutes outside of it."""
    return _ABOVE_NOISE * float(np.quantile(means_us, _NOISE)) if len(means_us) else 0.0


def is_inside(one: Span, other: Span, share: float = 0.7) -> bool:
    """Return whether another span has this share of the minutes of a span, too."""
    return one.common_minutes(other) >= share * one.length_minutes


def place_of(slow: Slow, node: int | None, client: tuple[Any, ...] | None = None, brokers: int = 1) -> str:
    """Return the words for where a phase was slow."""
    if slow.phase != "send_us":
        return f"broker {node}" if node is not None else "the broker" if brokers < 2 else "several brokers"
    if client is not None:
        return "to a client without a client id" if client[0] is None else f"to client {client[0]}"
    return "" if node is None else f"from broker {node}"
