"""Metrics, the metrics of requests, and the sensors of quotas."""

import itertools
import math
import random
import threading
from collections import Counter as Count

from tests.stress.crew import Crew
from tests.support.quotas import request_of
from twisted_kafka.metrics.instruments import Counter, Histogram, Meter, Tally, TallyMeter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.network.requests.request_metric_names import RequestMetricNames
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.quota.client_quota_callback import ClientQuotaType, QuotaEntity
from twisted_kafka.quota.client_quota_manager import ClientBandwidthQuotaManager
from twisted_kafka.quota.sensors import QuotaWindows, RateSensor, TokenSensor
from twisted_kafka.timing.clock import ManualClock, SystemClock

SERIES = 20


class Sums:
    """The sum of what threads have added, each to a cell of its own."""

    def __init__(self) -> None:
        self._cells: list[list[int]] = []
        self._own = threading.local()

    def add(self, amount: int) -> None:
        cell = getattr(self._own, "cell", None)
        if cell is None:
            cell = self._own.cell = [0]
            self._cells.append(cell)
        cell[0] += amount

    @property
    def total(self) -> int:
        return sum(cell[0] for cell in list(self._cells))


def instruments(crew: Crew) -> None:
    """Counts are exact, and never go back."""
    clock = SystemClock()
    tally = Tally(2)
    counts = [Counter(), Meter(clock), TallyMeter(clock, tally, 0), TallyMeter(clock, tally, 1)]
    histogram = Histogram()
    sums = Sums()

    def add(own: random.Random) -> None:
        amount = own.randint(1, 5)
        for each in counts:
            each.inc(amount)
        histogram.update(amount)
        histogram.update_many([0, 0])
        sums.add(amount)

    seen = [0] * (len(counts) + 1)

    def read(own: random.Random) -> None:
        if own.random() < 0.01:
            histogram.snapshot()
        now = [each.count for each in counts] + [histogram.count]
        assert all(before <= after for before, after in zip(seen, now, strict=True)), f"counts go back from {seen} to {now}"
        seen[:] = now

    crew.add(add, 3)
    crew.add(read)
    crew.run()
    assert [each.count for each in counts] == [sums.total] * len(counts)
    snapshot = histogram.snapshot()
    assert snapshot.sum == sums.total
    assert snapshot.count == histogram.count
    assert (snapshot.min, snapshot.max <= 5) == (0, True)


def registry(crew: Crew) -> None:
    """A name has one instrument, whichever thread asks for it first, while others read and remove some."""
    metrics = MetricsRegistry(SystemClock(), max_series=SERIES)
    sums = Sums()
    gauges = itertools.cycle(range(SERIES))

    def use(own: random.Random) -> None:
        metrics.counter("T", "Count", n=own.randrange(2 * SERIES)).inc()
        metrics.meter("T", "Rate", n=own.randrange(SERIES)).mark()
        metrics.histogram("T", "Size", n=own.randrange(SERIES)).update(1)
        sums.add(1)

    def change(_: random.Random) -> None:
        number = next(gauges)
        metrics.gauge("T", "Gauge", lambda: number, n=number)
        metrics.remove("T", "Gauge", n=(number + 7) % SERIES)

    def read(_: random.Random) -> None:
        metrics.tick()
        for name, instrument in metrics.items():
            if name.name == "Gauge":
                assert instrument.value == int(dict(name.tags)["n"])

    crew.add(use, 3)
    crew.add(change)
    crew.add(read)
    crew.run()
    found = Count[str]()
    for name, instrument in metrics.items():
        if name.type == "T" and name.name != "Gauge":
            found[name.name] += instrument.count
    assert found == {"Count": sums.total, "Rate": sums.total, "Size": sums.total}


def request_metrics(crew: Crew) -> None:
    """Each request is counted once by version and by error, while others read."""
    metrics = MetricsRegistry(SystemClock())
    counted = RequestMetrics(metrics, RequestMetricNames(lambda key: f"A{key}", lambda code: f"E{code}"))
    counted.register(range(3))
    sums = [Sums() for _ in range(3)]
    errors = [Sums() for _ in range(4)]
    connection = ConnectionInfo("c", "L", "PLAINTEXT", "-")

    def complete(own: random.Random) -> None:
        key = own.randrange(3)
        context = RequestContext(key, own.randrange(4), 1, None, connection)
        error = own.randrange(4)
        context.note_error(error)
        request = Request(context, b"xyz", 0, None, 1)
        request.dequeued_ns = request.local_complete_ns = request.response_ready_ns = 2
        request.response_dequeued_ns = request.sent_ns = 3
        counted.request_completed(request)
        sums[key].add(1)
        errors[error].add(1)

    def read(own: random.Random) -> None:
        counted.count(own.randrange(3))
        metrics.items()

    crew.add(complete, 3)
    crew.add(read)
    crew.run()
    assert [counted.count(key) for key in range(3)] == [each.total for each in sums]
    reading = metrics.reading()
    for code, expected in enumerate(errors):
        found = [reading.value("RequestMetrics", "ErrorsPerSec", request=f"A{key}", error=f"E{code}") or 0 for key in range(3)]
        assert sum(found) == expected.total  # type: ignore[arg-type]
    for key, expected in enumerate(sums):
        assert reading.value("RequestMetrics", "TotalTimeMs", request=f"A{key}") == expected.total


def sensors(crew: Crew) -> None:
    """A sensor misses no use, and gives no token twice."""
    windows = QuotaWindows(2, 1000)
    rate = RateSensor((), windows, 1000, 0)
    tokens = TokenSensor((), windows, 1000, 0)
    used, taken = Sums(), Sums()

    def use(own: random.Random) -> None:
        value = own.randint(1, 5)
        rate.record(value, 500)
        if own.random() < 0.3:
            rate.take_back(value, 500)
        else:
            used.add(value)
        rate.note_throttle(1, 500)
        if not tokens.take_if_any(1, 500):
            taken.add(1)

    crew.add(use, 3)
    crew.run()
    assert rate.rate(500) == used.total * 1000 / 1000
    assert rate.mean_throttle_ms(500) == 1
    assert taken.total <= 2001
    assert tokens.tokens(500) == 2000 - taken.total


def quotas(crew: Crew) -> None:
    """Clients with the same tags share one sensor, whose limit is the last one that was set."""
    clock = ManualClock()
    manager = ClientBandwidthQuotaManager(ClientQuotaType.PRODUCE, QuotaWindows(11, 1000), clock, MetricsRegistry(clock))
    manager.update_quota(QuotaEntity("user", "another"), 5.0)
    sums = Sums()

    def use(own: random.Random) -> None:
        manager.sensor_of(request_of("user", f"client-{own.randrange(SERIES)}")).record(1, 0)
        sums.add(1)

    limits: dict[int, float | None] = {}

    def change(own: random.Random) -> None:
        number = own.randrange(SERIES)
        limits[number] = own.choice((None, 10.0, 20.0))
        manager.update_quota(QuotaEntity("user", f"client-{number}"), limits[number])
        manager.expire()

    crew.add(use, 3)
    crew.add(change)
    crew.run()
    found = [manager.sensor_of(request_of("user", f"client-{number}")) for number in range(SERIES)]
    assert math.isclose(sum(each.rate(0) for each in found) * 10, sums.total), "uses are lost"
    assert len(manager) == len({id(each) for each in found})
    assert [each.limit for each in found] == [limits.get(number) or math.inf for number in range(SERIES)]
