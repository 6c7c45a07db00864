"""The threads of a plane and what it shows of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.network_fakes import Layer, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.request_plane import CONTROL_PLANE, DATA_PLANE, RequestPlane


class Setup:
    """A plane with two processors, of which one has a response that waits."""

    def __init__(self, name: str) -> None:
        self.layers = [Layer(), Layer()]
        for number, layer in enumerate(self.layers):
            layer.processor.number = number
        self.channel = self.layers[0].channel
        clock = self.layers[0].clock
        self.clock = clock
        self.metrics = MetricsRegistry(clock)
        self.plane = RequestPlane(name, self.channel, clock, self.metrics)
        self.threads: list[Any] = [SimpleNamespace(processor=layer.processor) for layer in self.layers]
        for thread in self.threads:
            self.plane.add(thread)

    def value(self, type_: str, name: str, **tags: object) -> Any:
        return self.metrics.value(type_, self.plane.metric_prefix + name, **tags)


@pytest.mark.parametrize("name", [DATA_PLANE, CONTROL_PLANE])
def test_queues_and_idle_time_of_all_threads(name: str) -> None:
    setup = Setup(name)
    for layer in setup.layers:
        layer.connect()[0].dataReceived(frame(1))
    assert setup.value("RequestChannel", "RequestQueueSize") == 1
    for layer in setup.layers:
        request = layer.take()
        assert request is not None
        layer.channel.send_response(request, [b"x"], 1)
    assert setup.value("RequestChannel", "ResponseQueueSize") == 2
    assert [setup.value("RequestChannel", "ResponseQueueSize", processor=number) for number in range(2)] == [1, 1]
    setup.value("SocketServer", "NetworkProcessorAvgIdlePercent")
    setup.clock.advance_ms(10_000)
    setup.layers[1].reactor.waited_ns = 5_000_000_000  # type: ignore[attr-defined]
    assert setup.value("SocketServer", "NetworkProcessorAvgIdlePercent") == 0.25


def test_connections_that_threads_which_are_gone_have_expired_still_count() -> None:
    setup = Setup(DATA_PLANE)
    for count, thread in zip((3, 4), setup.threads, strict=True):
        thread.processor.stats.expired_connections_killed = count
    assert setup.value("SocketServer", "ExpiredConnectionsKilledCount") == 7
    for left, thread in zip((1, 0), setup.threads, strict=True):
        setup.plane.remove(thread)
        assert len(setup.plane.processors) == left
        assert setup.value("RequestChannel", "ResponseQueueSize", processor=thread.processor.number) is None
        assert setup.value("SocketServer", "ExpiredConnectionsKilledCount") == 7


def test_a_processor_that_is_forgotten_is_not_woken_for_room() -> None:
    setup = Setup(DATA_PLANE)
    processor = setup.threads[0].processor
    assert processor in setup.channel._processors
    setup.plane.forget(setup.threads[0])
    assert processor not in setup.channel._processors
