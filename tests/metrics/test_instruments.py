import threading
from threading import get_ident

from twisted_kafka.metrics.instruments import Counter, Histogram, Meter, Tally, TallyMeter
from twisted_kafka.timing.clock import ManualClock


def test_counter_is_exact_among_threads() -> None:
    counter = Counter()
    histogram = Histogram()

    def work() -> None:
        for i in range(20_000):
            counter.inc()
            histogram.update(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counter.count == 80_000
    assert histogram.count == histogram.snapshot().count == 80_000
    assert histogram.snapshot().sum == 4 * sum(range(20_000))


def test_meter_rates_follow_the_clock() -> None:
    clock = ManualClock()
    meter = Meter(clock)
    assert meter.rates() == (0, 0, 0)
    for _ in range(12):
        meter.mark(50)
        clock.advance_ms(5_000)
        meter.tick()
    assert [round(rate, 6) for rate in meter.rates()] == [10, 10, 10]
    assert meter.mean_rate() == 10
    clock.advance_ms(60_000)
    one, five, fifteen = meter.rates()
    assert 3.5 < one < 3.8
    assert one < five < fifteen < 10
    assert meter.count == 600


def test_meters_of_a_tally_are_exact_among_threads() -> None:
    clock = ManualClock()
    tally = Tally(2)
    requests, sizes = TallyMeter(clock, tally, 0), TallyMeter(clock, tally, 1)

    def work() -> None:
        for size in range(20_000):
            cell = tally.cell(get_ident())
            cell[0] += 1
            cell[1] += size

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    requests.mark()
    sizes.inc(5)
    assert (requests.count, sizes.count) == (80_001, 4 * sum(range(20_000)) + 5)
    clock.advance_ms(5_000)
    assert requests.one_minute_rate() == 80_001 / 5


def test_histogram_percentiles() -> None:
    histogram = Histogram()
    assert histogram.snapshot().percentile(0.99) == histogram.snapshot().mean == histogram.snapshot().max == 0
    for value in range(1, 1001):
        histogram.update(value)
    snapshot = histogram.snapshot()
    assert (snapshot.count, snapshot.min, snapshot.max, snapshot.mean) == (1000, 1, 1000, 500.5)
    assert 498 < snapshot.percentile(0.5) < 502
    assert 988 < snapshot.percentile(0.99) < 992
    assert 288 < snapshot.std_dev < 290


def test_percentiles_are_of_the_latest_values() -> None:
    histogram = Histogram()
    histogram.update_many([1] * 5000)
    histogram.update_many([7] * 2000)
    snapshot = histogram.snapshot()
    assert snapshot.percentile(0.01) == 7
    assert snapshot.count == 7000
