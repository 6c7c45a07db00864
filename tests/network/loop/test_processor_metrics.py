"""The metrics of a processor and of the memory pool: what each name shows of what has happened."""

from typing import Any

from tests.support.network_fakes import Layer, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.loop.processor_metrics import (
    SOCKET_SERVER_METRICS,
    UNLIMITED_BYTES,
    ProcessorMetrics,
    register_memory_pool,
)
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.timing.clock import ManualClock


class Setup:
    def __init__(self) -> None:
        self.layer = Layer()
        self.registry = MetricsRegistry(self.layer.clock)
        self.stats = self.layer.processor.stats
        self.metrics = ProcessorMetrics(self.registry, self.layer.clock, self.layer.processor, "")

    def value(self, name: str) -> Any:
        return self.registry.value(SOCKET_SERVER_METRICS, name, listener="PLAINTEXT", networkProcessor=0)

    def values(self, *names: str) -> list[Any]:
        return [self.value(name) for name in names]


def test_what_comes_in_and_goes_out() -> None:
    setup = Setup()
    channel, transport = setup.layer.connect()
    requests = frame(1) + frame(2, b"larger")
    channel.dataReceived(requests)
    for body in (b"12345", b""):
        request = setup.layer.take()
        assert request is not None
        setup.layer.answer(request, body)
    setup.layer.clock.advance_ms(1000)
    assert setup.values("incoming-byte-total", "outgoing-byte-total") == [len(requests), len(transport.written)]
    assert setup.values("request-total", "response-total", "network-io-total") == [2, 2, 4]
    assert setup.values("request-rate", "response-rate", "network-io-rate") == [2, 2, 4]
    assert setup.values("request-size-avg", "request-size-max") == [10.5, 13]
    assert setup.stats.max_response_bytes == 0


def test_nothing_has_happened_yet() -> None:
    setup = Setup()
    names = [name.name for name, _ in setup.registry.items() if name.type == "socket-server-metrics"]
    totals = [name for name in names if name.endswith(("-total", "-rate", "-count")) and "io-" not in name]
    assert len(totals) > 20
    assert setup.values(*totals) == [0] * len(totals)
    assert setup.values("select-total", "io-wait-time-ns-total", "io-time-ns-total") == [0, 0, 0]
    extremes = [name for name in names if name.endswith(("-avg", "-max")) and "io-" not in name]
    assert [str(value) for value in setup.values(*extremes)] == ["nan"] * 4


def test_connections() -> None:
    setup = Setup()
    (first, _), (_, second), (_, third) = (setup.layer.connect() for _ in range(3))
    first.connection.software_name = "librdkafka"
    for transport in (second, third):
        transport.abortConnection()
    setup.stats.expired_connections_killed = 7
    assert setup.values("connection-count", "connection-creation-total", "connection-close-total") == [1, 3, 2]
    assert setup.value("expired-connections-killed-count") == 7
    software = {dict(name.tags).get("clientSoftwareName") for name, _ in setup.registry.items() if name.name == "connections"}
    assert software == {"librdkafka"}


def test_authentications() -> None:
    setup = Setup()
    stats = setup.stats
    stats.successful_authentications, stats.successful_authentications_no_reauth, stats.failed_authentications = 5, 4, 3
    stats.successful_reauthentications, stats.failed_reauthentications = 2, 1
    stats.reauthentication_ms, stats.max_reauthentication_ms = 30, 20
    assert setup.values("successful-authentication-total", "successful-authentication-no-reauth-total") == [5, 4]
    assert setup.values("failed-authentication-total", "failed-reauthentication-total") == [3, 1]
    assert setup.value("successful-reauthentication-total") == 2
    assert setup.values("reauthentication-latency-avg", "reauthentication-latency-max") == [15, 20]
    assert stats.max_reauthentication_ms == 0


def test_time_that_is_waited_and_time_that_is_worked() -> None:
    setup = Setup()
    setup.layer.clock.advance_ms(1000)
    worked_ns = 1_000_000_000 - setup.layer.processor.waited_ns()
    assert setup.values("io-time-ns-total", "iotime-total") == [worked_ns] * 2
    assert setup.values("io-wait-time-ns-total", "io-waittime-total") == [setup.layer.processor.waited_ns()] * 2
    assert setup.value("select-total") == setup.layer.processor.polls()
    assert setup.value("io-ratio") + setup.value("io-wait-ratio") == 1
    setup.layer.clock.advance_ms(1000)
    setup.layer.reactor.waited_ns = 500_000_000  # type: ignore[attr-defined]
    assert setup.registry.value("Processor", "IdlePercent", networkProcessor=0) == 0.25


def test_a_processor_that_ends_leaves_no_metric() -> None:
    setup = Setup()
    setup.layer.connect()
    assert len(setup.registry.items()) > 30
    setup.metrics.remove()
    assert setup.registry.items() == []


def test_the_memory_pool() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    pool = MemoryPool(100, clock)
    register_memory_pool(registry, clock, pool)
    pool.try_allocate(130, None)
    assert not pool.try_allocate(1, None)
    clock.advance_ms(250)
    assert registry.value("SocketServer", "MemoryPoolAvailable") == -30
    assert registry.value("SocketServer", "MemoryPoolUsed") == 130
    assert registry.value(SOCKET_SERVER_METRICS, "MemoryPoolDepletedTimeTotal") == 250
    assert registry.value(SOCKET_SERVER_METRICS, "MemoryPoolAvgDepletedPercent") == 1


def test_without_a_pool_everything_is_available() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    register_memory_pool(registry, clock, None)
    clock.advance_ms(250)
    assert registry.value("SocketServer", "MemoryPoolAvailable") == UNLIMITED_BYTES == 2**63 - 1
    assert registry.value("SocketServer", "MemoryPoolUsed") == 0
    assert registry.value(SOCKET_SERVER_METRICS, "MemoryPoolDepletedTimeTotal") == 0
