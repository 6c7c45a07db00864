"""Decodes the metrics that clients push: OpenTelemetry's MetricsData as protocol buffers (OTLP)."""

import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.errors import InvalidRecordError

_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA."""


MAX_TEXT_LENGTH: Final = 255
"""Maximum number of characters of a metric name, of a label name and of a label value."""

MAX_LABELS: Final = 16
"""Maximum number of labels of a sample; one with more is not exposed."""

MAX_POINTS: Final = 20_000
"""Maximum number of values in a push: in compressed form, a small one may have millions."""

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
    """Return the samples. Raises InvalidRecordError if the bytes are not MetricsData, too many, or cannot be read here.

    Texts are cut to ``MAX_TEXT_LENGTH``, and of the labels of a sample the first ones, ``MAX_LABELS`` and one, are kept.
    """
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
    samples: list[Sample] = []
    left = MAX_POINTS
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                left -= 1 if kind is None else max(1, len(getattr(metric, kind).data_points))
                if left < 0:
                    raise InvalidRecordError(f"The push has more than {MAX_POINTS} values")
                if kind is not None:
                    samples += _samples(metric, kind)
    return samples


def _samples(metric: Any, kind: str) -> Iterator[Sample]:
    name = metric.name[:MAX_TEXT_LENGTH]  # each access makes a copy of the name
    data = getattr(metric, kind)
    is_delta = kind in ("sum", "histogram", "exponential_histogram") and data.aggregation_temporality == _DELTA
    for point in data.data_points:
        labels = _labels(point.attributes)
        if kind in ("gauge", "sum"):
            yield Sample(name, labels, getattr(point, point.WhichOneof("value") or "as_int"), is_delta)
        else:
            # Distributions: count and sum, from which averages are computed.
            yield Sample(f"{name}.observations", labels, point.count, is_delta)
            yield Sample(f"{name}.sum", labels, point.sum, is_delta)


def _labels(attributes: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    some = itertools.islice(attributes, MAX_LABELS + 1)
    return tuple(sorted((each.key[:MAX_TEXT_LENGTH], _text(each.value)) for each in some))


def _text(value: Any) -> str:
    kind = value.WhichOneof("value") or "string_value"
    if kind in ("array_value", "kvlist_value") and value.ByteSize() > MAX_TEXT_LENGTH:
        return f"({kind})"  # as a text, lists within lists are far longer than their bytes
    content = getattr(value, kind)
    return str(content[:MAX_TEXT_LENGTH] if isinstance(content, str | bytes) else content)[:MAX_TEXT_LENGTH]
