"""Requests and records as JSON."""

from collections.abc import Iterable
from typing import Any, Final

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.records.record import Header
from twisted_kafka.recording.batches_form import read_value, write_value
from twisted_kafka.recording.message_form import write_message
from twisted_kafka.testing.control.call import Fields
from twisted_kafka.testing.control.errors import bad
from twisted_kafka.testing.recorded.requests import RecordedRequest
from twisted_kafka.testing.recorded.subjects import Partition
from twisted_kafka.testing.records import NOW, Record

_MAX_TIMESTAMP_MS: Final = 2**63 - 1
_TITLES: Final = {key.title for key in ApiKey}


def write_partitions(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    """Return topics with partitions; the partition is null if the request names only the topic."""
    return [{"topic": topic, "partition": index} for topic, index in partitions]


def write_request(number: int, broker_id: int, request: RecordedRequest, *, is_whole: bool) -> dict[str, Any]:
    """Return an answered request; ``is_whole`` adds its fields and those of the answer, without secrets."""
    form = {
        "number": number,
        "broker": broker_id,
        "api": request.api,
        "version": request.version,
        "client_id": request.client_id,
        "principal": request.principal,
        "connection": request.connection,
        "partitions": write_partitions(request.partitions),
        "groups": list(request.groups),
        "error": request.error,
        "outcome": request.outcome,
        "fault": request.fault,
        "arrived_ms": round(request.arrived_ms, 3),
        "answered_ms": round(request.answered_ms, 3),
        "line": " ".join(str(request).split()),
    }
    if is_whole:
        form["request"] = _written(request, request.fields)
        form["response"] = _written(request, request.response)
    return form


def _written(request: RecordedRequest, message: Any) -> Any:
    return None if message is None or request.api not in _TITLES else write_message(message, request.version)


def write_record(record: Record) -> dict[str, Any]:
    """Return a record: bytes as text if they are UTF-8, else as ``{"base64": ...}``."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": write_value(record.key),
        "value": write_value(record.value),
        "headers": [[name, write_value(value)] for name, value in record.headers],
    }


def read_record(form: Any) -> Record:
    """Return a record to write: a value alone, or an object with key, value, headers and timestamp_ms. Raises ControlError."""
    if not isinstance(form, dict) or "base64" in form:
        return Record(_bytes(form))
    fields = Fields(form, "a record")
    key, value, headers = fields.any("key"), fields.any("value"), fields.any("headers")
    timestamp_ms = fields.number("timestamp_ms", NOW)
    fields.end()
    if timestamp_ms > _MAX_TIMESTAMP_MS:
        raise bad(f"timestamp_ms is {str(timestamp_ms)[:40]}: expected at most {_MAX_TIMESTAMP_MS}")
    return Record(_bytes(value), _bytes(key), tuple(_headers([] if headers is None else headers)), timestamp_ms)


def _headers(form: Any) -> list[Header]:
    pairs: list[Any] = form if isinstance(form, list) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise bad('headers of a record: expected pairs, as in [["name", "value"]]')
    return [(name, _bytes(value)) for name, value in pairs]


def _bytes(form: Any) -> bytes | None:
    try:
        return read_value(form)
    except ValueError as error:
        raise bad(str(error)) from None
