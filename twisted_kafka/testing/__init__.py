"""Kafka for tests: a broker whose time, faults and records a test controls."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from twisted_kafka.testing.clock import Clock

if TYPE_CHECKING:
    from twisted_kafka.recording.recording_proxy import RecordingProxy
    from twisted_kafka.schema_registry.errors import RegistryError
    from twisted_kafka.schema_registry.stored import StoredSchema
    from twisted_kafka.testing.broker import Broker
    from twisted_kafka.testing.cluster import Cluster
    from twisted_kafka.testing.control.server import ControlServer
    from twisted_kafka.testing.fault_rules.faults import Arrival, Faults, Rule
    from twisted_kafka.testing.fault_rules.injection import Fault
    from twisted_kafka.testing.fault_rules.rules_file import RulesError, load_rules
    from twisted_kafka.testing.groups import (
        DescribedGroup,
        DescribedShareGroup,
        DescribedStreamsGroup,
        GroupMember,
        InFlightRecords,
        StreamsMember,
    )
    from twisted_kafka.testing.kafka import BrokerError, Kafka
    from twisted_kafka.testing.recorded.requests import RecordedRequest, Requests, Selection
    from twisted_kafka.testing.records import Record
    from twisted_kafka.testing.registry.requests import RegistryRequest, RegistryRequests, RegistrySelection
    from twisted_kafka.testing.registry.rules import RegistryAnswer, RegistryArrival, RegistryFaults, RegistryRule
    from twisted_kafka.testing.registry.schema_registry import SchemaRegistry
    from twisted_kafka.testing.snapshot import Snapshot, SnapshotError
    from twisted_kafka.testing.waiting import Aio

__all__ = [
    "Aio",
    "Arrival",
    "Broker",
    "BrokerError",
    "Clock",
    "Cluster",
    "ControlServer",
    "DescribedGroup",
    "DescribedShareGroup",
    "DescribedStreamsGroup",
    "Fault",
    "Faults",
    "GroupMember",
    "InFlightRecords",
    "Kafka",
    "Record",
    "RecordedRequest",
    "RecordingProxy",
    "RegistryAnswer",
    "RegistryArrival",
    "RegistryError",
    "RegistryFaults",
    "RegistryRequest",
    "RegistryRequests",
    "RegistryRule",
    "RegistrySelection",
    "Requests",
    "Rule",
    "RulesError",
    "SchemaRegistry",
    "Selection",
    "Snapshot",
    "SnapshotError",
    "StoredSchema",
    "StreamsMember",
    "load_rules",
]

_MODULES = {
    "Aio": "testing.waiting",
    "Arrival": "testing.fault_rules.faults",
    "Broker": "testing.broker",
    "BrokerError": "testing.kafka",
    "Cluster": "testing.cluster",
    "ControlServer": "testing.control.server",
    "DescribedGroup": "testing.groups",
    "DescribedShareGroup": "testing.groups",
    "DescribedStreamsGroup": "testing.groups",
    "Fault": "testing.fault_rules.injection",
    "Faults": "testing.fault_rules.faults",
    "GroupMember": "testing.groups",
    "InFlightRecords": "testing.groups",
    "Kafka": "testing.kafka",
    "Record": "testing.records",
    "RecordedRequest": "testing.recorded.requests",
    "RecordingProxy": "recording.recording_proxy",
    "RegistryAnswer": "testing.registry.rules",
    "RegistryArrival": "testing.registry.rules",
    "RegistryError": "schema_registry.errors",
    "RegistryFaults": "testing.registry.rules",
    "RegistryRequest": "testing.registry.requests",
    "RegistryRequests": "testing.registry.requests",
    "RegistryRule": "testing.registry.rules",
    "RegistrySelection": "testing.registry.requests",
    "Requests": "testing.recorded.requests",
    "Rule": "testing.fault_rules.faults",
    "RulesError": "testing.fault_rules.rules_file",
    "SchemaRegistry": "testing.registry.schema_registry",
    "Selection": "testing.recorded.requests",
    "Snapshot": "testing.snapshot",
    "SnapshotError": "testing.snapshot",
    "StoredSchema": "schema_registry.stored",
    "StreamsMember": "testing.groups",
    "load_rules": "testing.fault_rules.rules_file",
}


def __getattr__(name: str) -> Any:
    # On first use: a broker takes a third of a second to import.
    if name in _MODULES:
        return getattr(import_module(f"twisted_kafka.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
