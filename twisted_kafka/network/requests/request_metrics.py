"""Kafka's RequestMetrics: for each API its requests by version, its errors, its sizes and the times of its phases.

Each request appends one row to its API's list, one atomic step, and the rows are folded into the instruments some hundred at a
time. The registry calls ``RequestMetrics.flush`` before it reads instruments, so nothing is ever missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import sub
from typing import NamedTuple

from twisted_kafka.metrics.instruments import FOLD_SIZE, Histogram, Meter, Summed
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.network.requests.request_metric_names import KAFKA_NAMES, RequestMetricNames
from twisted_kafka.system import machine

TYPE = "RequestMetrics"

MS_PER_NS = 1e-6

MAX_DEPRECATED = 100
"""Most combinations of version and client software counted for deprecated versions; further ones count as ``other``."""

MAX_VERSION = 50
"""Higher versions, which no API has, and negative ones count as the version ``other``."""

OTHER_VERSION = 1 << 15
"""Stands for ``other``; no request can have this version."""

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

_Row = tuple[int, int | None, int, int, int, int, int, int, int, int, bool]
"""Version, error code (None: counted separately), bytes of the request, nanoseconds throttled, the timestamps from received to
sent, and whether the request is special."""


class _Columns(NamedTuple):
    """Some rows, transposed."""

    versions: Sequence[int]
    errors: Sequence[int | None]
    sizes: Summed
    specials: Sequence[bool]
    phases: Sequence[Summed]


def _columns(rows: Sequence[_Row]) -> _Columns:
    versions, errors, sizes, throttled, received, dequeued, local, ready, queued, sent, specials = zip(*rows, strict=True)
    phases = (
        _summed(tuple(map(sub, dequeued, received))),
        _summed(tuple(map(sub, local, dequeued))),
        _summed(tuple(map(sub, ready, local))),
        _summed(throttled),
        _summed(tuple(map(sub, queued, ready))),
        _summed(tuple(map(sub, sent, queued))),
        _summed(tuple(map(sub, sent, received))),
    )
    return _Columns(versions, errors, _summed(sizes), specials, phases)


def _summed(values: Sequence[int]) -> Summed:
    return values, sum(values), min(values), max(values)


def _version_text(version: int) -> str:
    return "other" if version == OTHER_VERSION else str(version)


class _NamedMetrics:
    """The instruments of one name: those of an API, or of a part of its requests."""

    __slots__ = ("_deprecated", "_errors", "_name", "_registry", "_request_bytes", "_times", "_versions")

    def __init__(self, registry: MetricsRegistry, name: str) -> None:
        self._registry = registry
        self._name = name
        self._versions: dict[int, Meter] = {}
        self._errors: dict[int, Meter] = {}
        self._deprecated: dict[tuple[int, str, str], Meter] = {}
        self._times = [self._histogram(metric, MS_PER_NS) for metric in TIMES]
        self._request_bytes = self._histogram("RequestBytes", 1)

    def _histogram(self, metric: str, unit: float) -> Histogram:
        return self._registry.add(Histogram(unit), TYPE, metric, request=self._name)

    def count(self) -> int:
        """Return how many requests there were."""
        return sum(meter.count for meter in list(self._versions.values()))

    def add(self, columns: "_Columns") -> None:
        """Add requests to the instruments, except for their errors."""
        for version in set(columns.versions):
            meter = self._versions.get(version)
            if meter is None:
                meter = self._versions[version] = self._meter("RequestsPerSec", version=_version_text(version))
            meter.mark(columns.versions.count(version))
        self._request_bytes.update_summed(columns.sizes)
        for histogram, phase in zip(self._times, columns.phases, strict=True):
            histogram.update_summed(phase)

    def add_errors(self, counts: Mapping[int, int], error_name: Callable[[int], str]) -> None:
        """Count the error codes of responses, including NONE."""
        for code, count in counts.items():
            meter = self._errors.get(code)
            if meter is None:
                meter = self._errors[code] = self._meter("ErrorsPerSec", error=error_name(code))
            meter.mark(count)

    def _meter(self, metric: str, **tags: object) -> Meter:
        return self._registry.meter(TYPE, metric, request=self._name, **tags)

    def mark_deprecated(self, version: int, connection: ConnectionInfo) -> None:
        """Count a request of a version that the next major Kafka version removes, by client software."""
        key = (version, connection.software_name, connection.software_version)
        meter = self._deprecated.get(key)
        if meter is None:
            if len(self._deprecated) >= MAX_DEPRECATED:  # clients choose these names
                key = (version, "other", "other")
            meter = self._registry.meter(
                TYPE,
                "DeprecatedRequestsPerSec",
                request=self._name,
                version=version,
                clientSoftwareName=key[1],
                clientSoftwareVersion=key[2],
            )
            self._deprecated[key] = meter
        meter.mark()


class _ConversionMetrics:
    """Time and memory of record conversion: one value per request, 0 for most."""

    __slots__ = ("_bytes", "_times", "rows")

    def __init__(self, registry: MetricsRegistry, name: str) -> None:
        self.rows: list[tuple[int, int]] = []
        """Nanoseconds and bytes of the requests that converted records."""
        self._times = registry.add(Histogram(MS_PER_NS), TYPE, "MessageConversionsTimeMs", request=name)
        self._bytes = registry.add(Histogram(), TYPE, "TemporaryMemoryBytes", request=name)

    def fold(self, requests: int) -> None:
        """Add the rows to the instruments, and zeros for the other requests."""
        rows = self.rows[:requests]
        del self.rows[: len(rows)]
        others = [0] * (requests - len(rows))
        self._times.update_many([time_ns for time_ns, _ in rows] + others)
        self._bytes.update_many([size_bytes for _, size_bytes in rows] + others)


class _ApiMetrics:
    """The requests of one API: their rows, and the names under which they count."""

    __slots__ = (
        "_counted",
        "_error_name",
        "_lock",
        "_named",
        "_of_errors",
        "conversions",
        "errors",
        "last_deprecated",
        "rows",
        "versions",
    )

    def __init__(self, registry: MetricsRegistry, api_key: int, names: RequestMetricNames) -> None:
        self._error_name = names.error_name
        self._lock = machine.RLock()
        self.rows: list[_Row] = []
        self._counted: list[Mapping[int, int]] = []
        """The error counts of responses that do not have exactly one error code."""
        self.versions: set[int] = set()
        self.errors: set[int | None] = set()
        self.last_deprecated = names.last_deprecated(api_key)
        # For each name, which requests count under it: the special ones (True), the others (False), or all (None).
        self._named = [(which, _NamedMetrics(registry, name)) for which, name in names.of(api_key)]
        name = names.of(api_key)[0][1]
        self.conversions = _ConversionMetrics(registry, name) if api_key in names.converting else None
        self._of_errors = next(named for which, named in self._named if which is not True)

    def count(self) -> int:
        """Return how many requests there were."""
        self.fold()
        counts = {which: named.count() for which, named in self._named}
        return counts[None] if None in counts else sum(counts.values())

    def fold(self) -> None:
        """Add the rows so far to the instruments."""
        with self._lock:
            rows = self.rows
            size = len(rows)
            if not size:
                return
            taken = rows[:size]
            del rows[:size]  # rows that other threads have appended since come after these and stay
            whole = _columns(taken)
            first = taken[0][-1]
            is_mixed = (not first) in whole.specials
            if self.conversions is not None:
                self.conversions.fold(size)
            self._of_errors.add_errors(self._error_counts(whole.errors), self._error_name)
            for which, named in self._named:
                if which is None or (which is first and not is_mixed):
                    named.add(whole)
                elif is_mixed:
                    named.add(_columns([row for row in taken if row[-1] is which]))

    def count_errors(self, counts: Mapping[int, int]) -> bool:
        """Count a response that does not have exactly one error code; return whether one of its codes is new."""
        self._counted.append(counts)
        if self.errors.issuperset(counts):
            return False
        self.errors.update(counts)
        return True

    def _error_counts(self, errors: Sequence[int | None]) -> Mapping[int, int]:
        counts = {code: errors.count(code) for code in set(errors) if code is not None}
        counted = self._counted
        size = len(counted)
        for response in counted[:size]:
            for code, count in response.items():
                counts[code] = counts.get(code, 0) + count
        del counted[:size]
        return counts

    def mark_deprecated(self, request: Request) -> None:
        """Count a request of a deprecated version."""
        context = request.context
        with self._lock:
            for which, named in self._named:
                if which is None or which is context.is_special:
                    named.mark_deprecated(context.api_version, context.connection)


class RequestMetrics:
    """Counts every completed request exactly once."""

    def __init__(self, registry: MetricsRegistry, names: RequestMetricNames = KAFKA_NAMES) -> None:
        self._registry = registry
        self._names = names
        self._lock = machine.Lock()
        self._apis: dict[int, _ApiMetrics] = {}
        self._unused: tuple[int, ...] = ()
        registry.flush_before_reading(self.flush)

    def register(self, api_keys: Iterable[int]) -> None:
        """Register the metrics of these APIs before their first request, as Kafka does, at the first reading of metrics.

        There are a thousand, a quarter of a broker's start.
        """
        self._unused = tuple(api_keys)

    def flush(self) -> None:
        """Bring the instruments up to date with all requests counted so far."""
        unused, self._unused = self._unused, ()
        for api_key in unused:
            self._add(api_key)
        for api in list(self._apis.values()):
            api.fold()

    def request_completed(self, request: Request) -> None:
        """Count a request."""
        context = request.context
        api = self._apis.get(context.api_key)
        if api is None:
            api = self._add(context.api_key)
        rows = api.rows
        version = context.api_version
        if not 0 <= version <= MAX_VERSION:  # clients choose the number, and a metric once registered stays
            version = OTHER_VERSION
        if context.conversion is not None and api.conversions is not None:
            api.conversions.rows.append(context.conversion)
        counts = context.error_counts
        error = context.error if counts is None else None
        is_new = error not in api.errors if counts is None else api.count_errors(counts)  # before the row: fold() takes both
        rows.append(
            (
                version,
                error,
                request.request_bytes,
                request.throttle_ns,
                request.received_ns,
                request.dequeued_ns,
                request.local_complete_ns,
                request.response_ready_ns,
                request.response_dequeued_ns,
                request.sent_ns,
                context.is_special,
            )
        )
        # The first request with a version or error is folded at once, so that its meter is registered from then on.
        if len(rows) >= FOLD_SIZE or is_new or version not in api.versions:
            api.versions.add(version)
            api.errors.add(error)
            api.fold()
        if version <= api.last_deprecated:
            api.mark_deprecated(request)

    def count(self, api_key: int) -> int:
        """Return how many requests of an API were completed."""
        api = self._apis.get(api_key)
        return api.count() if api else 0

    def _add(self, api_key: int) -> _ApiMetrics:
        with self._lock:
            api = self._apis.get(api_key)
            if api is None:
                api = self._apis[api_key] = _ApiMetrics(self._registry, api_key, self._names)
            return api
