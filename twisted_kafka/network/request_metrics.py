"""Kafka's RequestMetrics: for each API its requests by version, its errors, its sizes and the times of its phases.

One row per request is appended to its API's list (one atomic step), and folded into the histograms some hundred rows
at a time. Reading folds what is left first, so nothing is ever missing.
"""

import threading
from collections.abc import Callable

from zope.interface import implementer

from twisted_kafka.metrics.instruments import FOLD_SIZE, Histogram, HistogramSnapshot, Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.request import Request

TYPE = "RequestMetrics"

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

_Row = tuple[int, int, int, int, int, int, int]


class _PhaseHistogram(Histogram):
    """A histogram that takes its API's rows in before it is read."""

    __slots__ = ("before_reading",)

    def __init__(self) -> None:
        super().__init__()
        self.before_reading: Callable[[], None] = lambda: None

    def snapshot(self) -> HistogramSnapshot:
        """Everything about it, at one moment."""
        self.before_reading()
        return super().snapshot()

    @property
    def count(self) -> int:
        """How many values were added."""
        self.before_reading()
        return self._count


class _ApiMetrics:
    """The instruments of one API."""

    __slots__ = ("_lock", "_name", "_registry", "errors", "request_bytes", "rows", "sizes", "times", "versions")

    def __init__(self, registry: MetricsRegistry, name: str) -> None:
        self._registry = registry
        self._name = name
        self._lock = threading.Lock()
        self.rows: list[_Row] = []
        self.sizes: list[int] = []
        self.versions: dict[int, Meter] = {}
        self.errors: dict[int, Meter] = {}
        self.times = [self._histogram(metric) for metric in TIMES]
        self.request_bytes = self._histogram("RequestBytes")

    def _histogram(self, metric: str) -> _PhaseHistogram:
        histogram = self._registry.add(_PhaseHistogram(), TYPE, metric, request=self._name)
        histogram.before_reading = self.fold
        return histogram

    def version_meter(self, version: int) -> Meter:
        """Make the meter of one version."""
        meter = self.versions[version] = self._registry.meter(TYPE, "RequestsPerSec", request=self._name, version=version)
        return meter

    def error_meter(self, error: int, error_name: str) -> Meter:
        """Make the meter of one error code."""
        meter = self.errors[error] = self._registry.meter(TYPE, "ErrorsPerSec", request=self._name, error=error_name)
        return meter

    def fold(self) -> None:
        """Put the rows so far into the histograms."""
        with self._lock:
            size = len(self.sizes)
            sizes = self.sizes[:size]
            del self.sizes[:size]
            rows = self.rows[:size]
            del self.rows[:size]
        self.request_bytes.update_many(sizes)
        for histogram, column in zip(self.times, zip(*rows, strict=True), strict=False):
            histogram.update_many([nanoseconds / 1_000_000 for nanoseconds in column])


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
        api = self._apis.get(context.api_key) or self._add(context.api_key)
        version = context.api_version
        (api.versions.get(version) or api.version_meter(version)).mark()
        error = context.error
        (api.errors.get(error) or api.error_meter(error, self._error_name(error))).mark()
        # The row first: whoever folds takes as many rows as there are sizes.
        api.rows.append(request.phases_ns())
        api.sizes.append(request.request_bytes)
        if len(api.sizes) >= FOLD_SIZE:
            api.fold()

    def count(self, api_key: int) -> int:
        """Say how many requests of an API were completed."""
        api = self._apis.get(api_key)
        return sum(meter.count for meter in list(api.versions.values())) if api else 0

    def _add(self, api_key: int) -> _ApiMetrics:
        with self._lock:
            return self._apis.setdefault(api_key, _ApiMetrics(self._registry, self._api_name(api_key)))
