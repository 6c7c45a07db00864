"""What only this broker knows of itself, for the console."""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.live.capture import Capture
from twisted_kafka.console.live.lag_history import LagHistory
from twisted_kafka.console.live.request_row import RequestRow, api_name
from twisted_kafka.console.live.requests import RequestDetail, RequestFilter, detail_of, rows
from twisted_kafka.console.queries.findings import Expiry
from twisted_kafka.console.queries.paging import Asked, Page, paged
from twisted_kafka.metrics.registry import MetricsRegistry, Reading
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.cluster import DescribeClusterRequest
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.diagnoses import Diagnoses
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.system.numbers import INT64_MAX, decimal
from twisted_kafka.timing.clock import IClock

MOST_CONNECTIONS: Final = 20_000
"""Most connections that a list looks at."""
MOST_IN_FLIGHT: Final = 5_000
"""Most runs of records of a share group that are listed."""
BUSIEST: Final = 8
"""The number of APIs whose times are in the counts."""

_TASKS: Final = Path("/proc/self/task")
_TICKS_PER_S: Final = 100
_CPU_FIELDS: Final = slice(11, 13)
_PHASES: Final = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
)


class Parts(NamedTuple):
    """The running parts of a broker that it asks."""

    capture: Capture
    sockets: SocketServer
    channel: RequestChannel
    metrics: MetricsRegistry
    diagnoses: Diagnoses
    readers: Callable[[str], Iterable[str]]
    """Returns the ids of the groups that have offsets of a topic."""
    in_flight: Callable[[str], list[tuple[str, int, int, int, str, int, str]]]
    """``Broker.in_flight``."""
    may_have_open: Callable[[TopicPartition], bool]
    """False if this broker leads a partition, and no transaction is open in it."""
    settings: Mapping[str, str]
    """The broker's settings as they were set."""
    clock: IClock


@dataclass(frozen=True, slots=True)
class ClientRow:
    """The connections of one client: the same principal, client id, software and address."""

    client_id: str
    principal: str
    software: str
    version: str
    address: str
    listener: str
    connections: int
    idle_s: float
    """The time since something came over one of them."""
    busy: str
    """The API of a request in progress, or empty."""
    throttled: int
    """Connections that a quota holds back."""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread of the process."""

    name: str
    cpu_s: float | None
    """The time it has used so far; None where the system does not report it."""


@dataclass(frozen=True, slots=True)
class ApiRate:
    """The requests of an API since the start, and the times of the latest ones, in milliseconds."""

    api: str
    count: int
    mean_ms: float
    p99_ms: float
    phases_ms: tuple[tuple[str, float], ...]
    """The mean of each phase."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The broker's counters at one moment. Two of them make rates."""

    at_ns: int
    requests: int
    errors: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    connections: int
    queued: int
    handler_idle: float
    """The idle part of the handlers' time, from 0 to 1."""
    network_idle: float
    apis: tuple[ApiRate, ...]

    def per_second(self, before: "Counts", name: str) -> float:
        """Return a counter's rate since an earlier moment."""
        seconds = (self.at_ns - before.at_ns) / 1e9
        return (getattr(self, name) - getattr(before, name)) / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class InFlight:
    """Records of a share group in one state."""

    topic: str
    partition: int
    first: int
    last: int
    state: str
    deliveries: int
    member_id: str


class Live:
    """Answers for users with the right to describe the cluster: the user of the session that each method gets.

    A method raises CommandError for any other user.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.lags = LagHistory(parts.clock)
        """The lag of the groups that somebody has looked at."""

    def stop(self) -> None:
        """End the capture of requests."""
        self._parts.capture.stop()

    @property
    def access_rules(self) -> Mapping[str, str]:
        """The settings that ``access.may`` needs and that brokers do not show."""
        keys = ("super.users", "allow.everyone.if.no.acl.found")
        return {"super.users": "", **{key: self._parts.settings[key] for key in keys if key in self._parts.settings}}

    def requests(self, session: Session, wanted: RequestFilter, count: int = 100) -> tuple[RequestRow, ...]:
        """Return the latest requests, the newest first. They are captured from the first look on."""
        check(session)
        return rows(self._parts.capture.look(), wanted, count)

    def request(self, session: Session, number: int) -> RequestDetail:
        """Return a captured request with its request and response decoded.

        Raises CommandError if it is not kept any more.
        """
        check(session)
        found = self._parts.capture.find(number)
        if found is None:
            raise CommandError(f"request {number} is not kept any more: later ones have taken its place")
        return detail_of(found)

    @property
    def left_out(self) -> int:
        """How many requests were not captured, as too many came at a time."""
        return self._parts.capture.left_out

    def clients(self, session: Session, asked: Asked) -> Page[ClientRow]:
        """Return a page of clients, sorted by ``name`` (the client id), ``connections``, ``software`` or ``idle_s``."""
        check(session)
        now_ns = self._parts.clock.monotonic_ns()
        by_client: dict[tuple[str, ...], list[KafkaChannel]] = {}
        seen = 0
        for channel in self._channels():
            seen += 1
            by_client.setdefault(_client(channel), []).append(channel)
            if seen == MOST_CONNECTIONS:
                break
        found = [_client_row(key, channels, now_ns) for key, channels in by_client.items() if asked.finds(" ".join(key))]
        return paged(
            found,
            asked,
            {
                "name": lambda each: (each.client_id, each.principal, each.address),
                "connections": lambda each: (each.connections, each.client_id),
                "software": lambda each: (each.software, _version_key(each.version), each.client_id),
                "idle_s": lambda each: (each.idle_s, each.client_id),
            },
            f"after {MOST_CONNECTIONS:,} connections" if seen == MOST_CONNECTIONS else "",
        )

    def _channels(self) -> Iterable[KafkaChannel]:
        for processor in self._parts.sockets.processors:
            for _ in range(3):  # its thread may change the table meanwhile
                try:
                    channels = list(processor.channels.values())
                except RuntimeError:
                    continue
                yield from channels
                break

    def threads(self, session: Session) -> tuple[ThreadRow, ...]:
        """Return the threads of the process, by name."""
        check(session)
        found = [ThreadRow(each.name, _cpu_s(each.native_id)) for each in threading.enumerate()]
        return tuple(sorted(found, key=lambda each: each.name))

    def counts(self, session: Session) -> Counts:
        """Return the counters. ``Counts.per_second`` makes rates of two."""
        check(session)
        metrics, channel = self._parts.metrics.reading(), self._parts.channel
        totals = sorted(((_count(metrics, name), name) for name in _API_NAMES), reverse=True)
        apis = tuple(_api_rate(metrics, name, count) for count, name in totals[:BUSIEST] if count)
        messages_in, bytes_in, bytes_out = (_number(metrics.value("BrokerTopicMetrics", name)) for name in _TOPIC_COUNTERS)
        return Counts(
            self._parts.clock.monotonic_ns(),
            sum(count for count, _ in totals),
            sum(_number(metrics.value("BrokerTopicMetrics", name)) for name in _FAILED),
            messages_in,
            bytes_in,
            bytes_out,
            self._parts.sockets.connection_count,
            channel.size,
            float(_number(metrics.value("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent"))),
            float(_number(metrics.value("SocketServer", "NetworkProcessorAvgIdlePercent"))),
            apis,
        )

    def certificates(self, session: Session) -> list[Expiry]:
        """Return when the certificates of this broker's listeners expire."""
        check(session)
        found = self._parts.metrics.gauges("kafka.network:SslCertificates", "DaysUntilExpiry")
        return [Expiry(tags["listener"], tags["store"], float(str(days))) for tags, days in found]

    def diagnoses(self, session: Session) -> tuple[str, ...]:
        """Return the recent mistakes of clients, a line each with the remedy, the latest first."""
        check(session)
        return tuple(reversed(self._parts.diagnoses.lines))

    def readers(self, topic: str) -> tuple[str, ...]:
        """Return the groups that have offsets of a topic. The caller shows those of them to which its user has rights."""
        return tuple(sorted(self._parts.readers(topic)))

    def may_have_open(self, partition: TopicPartition) -> bool:
        """Return whether a transaction may be open in a partition: not if this broker leads it and knows of none.

        It only saves questions that the broker answers by the user's rights.
        """
        return self._parts.may_have_open(partition)

    def in_flight(self, session: Session, group: str) -> tuple[InFlight, ...]:
        """Return a share group's acquired and other records that are not done, in partitions that this broker leads."""
        check(session)
        return tuple(InFlight(*each) for each in self._parts.in_flight(group)[:MOST_IN_FLIGHT])


_TOPIC_COUNTERS: Final = ("MessagesInPerSec", "BytesInPerSec", "BytesOutPerSec")
_FAILED: Final = ("FailedProduceRequestsPerSec", "FailedFetchRequestsPerSec")
_API_NAMES: Final = tuple(each.title for each in ApiKey)


def check(session: Session) -> None:
    """Raise CommandError unless the user of the session may describe the cluster (Describe on Cluster)."""
    response = session.retrying(lambda: session.ask(DescribeClusterRequest(include_cluster_authorized_operations=True)))
    if response.error_code or not response.cluster_authorized_operations >> AclOperation.DESCRIBE & 1:
        error = CommandError("you may not see the broker's clients and requests: this needs Describe on Cluster")
        error.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise error


def _client(channel: KafkaChannel) -> tuple[str, ...]:
    connection, request = channel.connection, channel.in_flight
    client_id = connection.client_id if request is None else request.context.client_id
    return (
        bounded_text(client_id or ""),
        bounded_text(str(connection.principal)),
        connection.software_name,
        connection.software_version,
        connection.client_address,
        connection.listener_name,
    )


def _client_row(key: Sequence[str], channels: Sequence[KafkaChannel], now_ns: int) -> ClientRow:
    last_ns = max(each.last_active_ns for each in channels)
    busy = next((each.in_flight.context.api_key for each in channels if each.in_flight is not None), None)
    throttled = sum(each.is_throttled for each in channels)
    client_id, principal, software, version, address, listener = key
    return ClientRow(
        client_id,
        principal,
        software,
        version,
        address,
        listener,
        len(channels),
        max(0, now_ns - last_ns) / 1e9,
        "" if busy is None else api_name(busy),
        throttled,
    )


def _version_key(text: str) -> tuple[int, ...]:
    return tuple(decimal(re.sub("[^0-9]", "", each), INT64_MAX) or 0 for each in text.split("."))


def _cpu_s(native_id: int | None) -> float | None:
    """Return the time of a thread, from Linux's ``/proc``; None elsewhere."""
    if native_id is None or not sys.platform.startswith("linux"):
        return None
    with suppress(OSError, ValueError, IndexError):
        fields = (_TASKS / str(native_id) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_CPU_FIELDS])) / _TICKS_PER_S
    return None


def _number(value: object) -> int:
    return value if isinstance(value, int | float) else 0  # type: ignore[return-value]


def _count(metrics: Reading, api: str) -> int:
    return _number(metrics.value("RequestMetrics", "TotalTimeMs", request=api))


def _api_rate(metrics: Reading, api: str, count: int) -> ApiRate:
    total = metrics.histogram_snapshot("RequestMetrics", "TotalTimeMs", request=api)
    phases = []
    for name in _PHASES:
        phase = metrics.histogram_snapshot("RequestMetrics", name, request=api)
        phases.append((name.removesuffix("TimeMs"), 0.0 if phase is None else phase.mean))
    if total is None:
        return ApiRate(api, count, 0.0, 0.0, tuple(phases))
    return ApiRate(api, count, total.mean, total.percentile(0.99), tuple(phases))
