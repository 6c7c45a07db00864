import threading
from typing import Any

from twisted_kafka.broker.peers.replication_parts import BrokerParts, Replication
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock


class Nothing:
    """Takes whatever it is called with."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self


def test_a_leadership_that_comes_after_the_stop_starts_no_thread() -> None:
    clock = ManualClock()
    nothing: Any = Nothing()
    replicas: Any = nothing
    parts = BrokerParts(nothing, nothing, clock, MetricsRegistry(clock), nothing, lambda: 1)
    replication = Replication(KafkaConfig({}), replicas, parts)
    before = set(threading.enumerate())
    replication.shutdown()
    replication.watch(nothing)
    assert set(threading.enumerate()) <= before
