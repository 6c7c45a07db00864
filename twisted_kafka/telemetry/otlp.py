"""Decodes the metrics that clients push: OpenTelemetry's MetricsData as protocol buffers (OTLP)."""

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.errors import InvalidRecordError

_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA."""


MISSING: Final = "the broker was installed without its extra client-metrics"


def is_available() -> bool:
    """Return whether OpenTelemetry's declarations are installed. Nothing is imported for it."""
    found = importlib.util.find_spec("opentelemetry")  # a namespace that other packages have too
    return found is not None and any(Path(each, "proto").is_dir() for each in found.submodule_search_locations or ())


class Sample(NamedTuple):
    """One value. Of sums and histograms it is the total, or with ``is_delta`` the change since the last push."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


def read_metrics(data: bytes) -> list[Sample]:
    """Return the samples. Raises InvalidRecordError if the bytes are not MetricsData, or cannot be read here."""
    # These imports take 50 ms and are only needed if clients push metrics.
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError:
        raise InvalidRecordError(f"Metrics cannot be read: {MISSING}") from None

    message = MetricsData()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise InvalidRecordError(f"Invalid OpenTelemetry MetricsData: {error}") from None
    return [
        sample
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for sample in _samples(metric)
    ]


def _samples(metric: Any) -> Iterator[Sample]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    is_delta = kind in ("sum", "histogram", "exponential_histogram") and data.aggregation_temporality == _DELTA
    for point in data.data_points:
        labels = _labels(point.attributes)
        if kind in ("gauge", "sum"):
            yield Sample(metric.name, labels, getattr(point, point.WhichOneof("value") or "as_int"), is_delta)
        else:
            # Distributions: count and sum, from which averages are computed.
            yield Sample(f"{metric.name}.observations", labels, point.count, is_delta)
            yield Sample(f"{metric.name}.sum", labels, point.sum, is_delta)


def _labels(attributes: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((each.key, _text(each.value)) for each in attributes))


def _text(value: Any) -> str:
    return str(getattr(value, value.WhichOneof("value") or "string_value"))
