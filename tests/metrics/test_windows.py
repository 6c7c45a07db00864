import math

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.windows import WINDOW_TICKS, WindowedMax, WindowedMean, WindowedRate
from twisted_kafka.timing.clock import ManualClock


def test_rate_is_of_the_last_ticks_and_of_now() -> None:
    clock = ManualClock()
    total = [100]
    registry = MetricsRegistry(clock)
    rate = registry.add(WindowedRate(clock, lambda: total[0]), "Server", "rate")
    assert rate.value == 0
    total[0] += 10
    clock.advance_ms(2_000)
    assert rate.value == 5  # type: ignore[comparison-overlap]
    for _ in range(WINDOW_TICKS):
        registry.tick()
        clock.advance_ms(5_000)
    assert rate.value == 0, "what is longer ago counts no more"
    total[0] += 70
    assert rate.value == 2  # type: ignore[comparison-overlap]


def test_mean_and_greatest_are_of_the_last_ticks() -> None:
    sums, counts, greatest = [0.0], [0], [0.0]

    def take() -> float:
        value, greatest[0] = greatest[0], 0
        return value

    mean, most = WindowedMean(lambda: sums[0], lambda: counts[0]), WindowedMax(take)
    assert math.isnan(float(str(mean.value)))
    assert math.isnan(float(str(most.value)))
    sums[0], counts[0], greatest[0] = 30, 3, 17
    assert (mean.value, most.value) == (10, 17)
    assert most.value == 17, "reading takes nothing away"
    for _ in range(WINDOW_TICKS - 1):
        mean.tick()
        most.tick()
    greatest[0] = 4
    assert (mean.value, most.value) == (10, 17)
    mean.tick()
    most.tick()
    sums[0], counts[0] = 34, 4
    assert (mean.value, most.value) == (4, 4)


def test_collected_gauges_come_and_go() -> None:
    registry = MetricsRegistry(ManualClock())
    kinds = {"one": 1}
    registry.collector(
        "kafka.server:socket-server-metrics", "connections", lambda: [({"kind": k}, v) for k, v in kinds.items()], n=1
    )

    def found() -> list[str]:
        return [f"{name} {gauge.value}" for name, gauge in registry.items() if hasattr(gauge, "value")]

    assert found() == ["kafka.server:type=socket-server-metrics,name=connections,kind=one 1"]
    kinds.clear()
    assert found() == []
    kinds["two"] = 2
    registry.remove("kafka.server:socket-server-metrics", "connections", n=1)
    assert found() == []
