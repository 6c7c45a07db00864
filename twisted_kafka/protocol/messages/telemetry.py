"""Metrics that clients push (KIP-714)."""

from twisted_kafka.protocol.compiler.message import Message, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int16, Int32, String, Uuid


class GetTelemetrySubscriptionsRequest(Message, key=71, versions=(0, 0), flexible=0):
    """A client asks which of its metrics the broker wants."""

    client_instance_id: Uuid = NO_UUID


class GetTelemetrySubscriptionsResponse(Message, key=71, versions=(0, 0), flexible=0):
    """The metrics wanted, and the interval between pushes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[String] = field(factory=list)


class PushTelemetryRequest(Message, key=72, versions=(0, 0), flexible=0):
    """A client sends its metrics."""

    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(Message, key=72, versions=(0, 0), flexible=0):
    """Whether the broker accepted them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
