"""Kafka's RequestMetrics: for each API its requests by version, its errors, its sizes and the times of its phases.

One row per request is appended to its API's list (one atomic step), and folded into the instruments some hundred rows
at a time. Reading folds what is left first, so nothing is ever missing.
"""

import threading
from collections.abc import Callable, Sequence
from operator import sub

from zope.interface import implementer

from twisted_kafka.metrics.instruments import FOLD_SIZE, Histogram, HistogramSnapshot, Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.request import Request
from twisted_kafka.timing.clock import IClock

TYPE = "RequestMetrics"

MS_PER_NS = 1e-6

TIMES = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
    "TotalTimeMs",
)
"""The histograms of the phases, in the order of ``Request.phases_ns``."""

_Row = tuple[int, int, int, int, int, int, int, int, int, int]
"""Version, error code, bytes of the request; nanoseconds throttled; the marks from received to sent."""


class _Histogram(Histogram):
    """A histogram that takes its API's rows in before it is read."""

    __slots__ = ("_before_reading",)

    def __init__(self, before_reading: Callable[[], None], unit: float) -> None:
        super().__init__(unit)
        self._before_reading = before_reading

    def snapshot(self) -> HistogramSnapshot:
        """Everything about it, at one moment."""
        self._before_reading()
        return super().snapshot()

    @property
    def count(self) -> int:
        """How many values were added."""
        self._before_reading()
        return self._count


class _Meter(Meter):
    """A meter that takes its API's rows in before it is read."""

    __slots__ = ("_before_reading",)

    def __init__(self, clock: IClock, before_reading: Callable[[], None]) -> None:
        self._before_reading = before_reading
        super().__init__(clock)

    @property
    def count(self) -> int:
        """How many there were."""
        self._before_reading()
        return sum(list(self._cells.values()))


class _ApiMetrics:
    """The instruments of one API."""

    __slots__ = ("_error_name", "_lock", "_name", "_registry", "_request_bytes", "_times", "errors", "rows", "versions")

    def __init__(self, registry: MetricsRegistry, name: str, error_name: Callable[[int], str]) -> None:
        self._registry = registry
        self._name = name
        self._error_name = error_name
        self._lock = threading.RLock()
        self.rows: list[_Row] = []
        self.versions: dict[int, Meter] = {}
        self.errors: dict[int, Meter] = {}
        self._times = [self._histogram(metric, MS_PER_NS) for metric in TIMES]
        self._request_bytes = self._histogram("RequestBytes", 1)

    def _histogram(self, metric: str, unit: float) -> Histogram:
        return self._registry.add(_Histogram(self.fold, unit), TYPE, metric, request=self._name)

    def count(self) -> int:
        """Say how many requests there were."""
        self.fold()
        return sum(meter.count for meter in list(self.versions.values()))

    def fold(self) -> None:
        """Put the rows so far into the instruments."""
        with self._lock:
            rows = self.rows
            size = len(rows)
            if not size:
                return
            taken = rows[:size]
            del rows[:size]  # what others append meanwhile stays: it is behind these
            versions, errors, sizes, throttled, received, dequeued, local, ready, queued, sent = zip(*taken, strict=True)
            self._mark(self.versions, "RequestsPerSec", versions, "version", str)
            self._mark(self.errors, "ErrorsPerSec", errors, "error", self._error_name)
            self._request_bytes.update_many(sizes)
            phases = (
                map(sub, dequeued, received),
                map(sub, local, dequeued),
                map(sub, ready, local),
                throttled,
                map(sub, queued, ready),
                map(sub, sent, queued),
                map(sub, sent, received),
            )
            for histogram, phase in zip(self._times, phases, strict=True):
                histogram.update_many(tuple(phase))

    def _mark(self, meters: dict[int, Meter], metric: str, column: Sequence[int], tag: str, text: Callable[[int], object]) -> None:
        for value in set(column):
            meter = meters.get(value)
            if meter is None:
                tags = {"request": self._name, tag: text(value)}
                meter = meters[value] = self._registry.add(_Meter(self._registry.clock, self.fold), TYPE, metric, **tags)
            meter.mark(column.count(value))


@implementer(IRequestObserver)
class RequestMetrics:
    """Counts every completed request exactly once; ``api_name`` and ``error_name`` tell Kafka's names of the codes."""

    def __init__(self, registry: MetricsRegistry, api_name: Callable[[int], str], error_name: Callable[[int], str]) -> None:
        self._registry = registry
        self._api_name = api_name
        self._error_name = error_name
        self._lock = threading.Lock()
        self._apis: dict[int, _ApiMetrics] = {}

    def request_completed(self, request: Request) -> None:
        """Count a request."""
        context = request.context
        api = self._apis.get(context.api_key)
        if api is None:
            api = self._add(context.api_key)
        rows = api.rows
        version = context.api_version
        rows.append(
            (
                version,
                context.error,
                request.request_bytes,
                request.throttle_ns,
                request.received_ns,
                request.dequeued_ns,
                request.local_complete_ns,
                request.response_ready_ns,
                request.response_dequeued_ns,
                request.sent_ns,
            )
        )
        # What comes for the first time is folded at once, so that its meter can be found by name from then on.
        if len(rows) >= FOLD_SIZE or version not in api.versions or context.error not in api.errors:
            api.fold()

    def count(self, api_key: int) -> int:
        """Say how many requests of an API were completed."""
        api = self._apis.get(api_key)
        return api.count() if api else 0

    def _add(self, api_key: int) -> _ApiMetrics:
        with self._lock:
            api = self._apis.get(api_key)
            if api is None:
                api = self._apis[api_key] = _ApiMetrics(self._registry, self._api_name(api_key), self._error_name)
            return api
