"""Kafka for tests: a broker whose time, faults and records a test controls."""

from typing import TYPE_CHECKING, Any

from twisted_kafka.testing.clock import Clock

if TYPE_CHECKING:
    from twisted_kafka.recording.recording_proxy import RecordingProxy
    from twisted_kafka.testing.broker import Broker
    from twisted_kafka.testing.cluster import Cluster
    from twisted_kafka.testing.control.server import ControlServer
    from twisted_kafka.testing.faults import Rule

__all__ = ["Broker", "Clock", "Cluster", "ControlServer", "RecordingProxy", "Rule"]


def __getattr__(name: str) -> Any:
    # On first use: a broker takes a third of a second to import.
    if name == "Broker":
        from twisted_kafka.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from twisted_kafka.testing.cluster import Cluster

        return Cluster
    if name == "ControlServer":
        from twisted_kafka.testing.control.server import ControlServer

        return ControlServer
    if name == "Rule":
        from twisted_kafka.testing.faults import Rule

        return Rule
    if name == "RecordingProxy":
        from twisted_kafka.recording.recording_proxy import RecordingProxy

        return RecordingProxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
