"""Records that a test writes and reads, and the check of its input."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.protocol.records.record import Header, SimpleRecord
from twisted_kafka.testing.arguments import check_whole

__tracebackhide__ = True

NOW: Final = -1
"""The timestamp of a record that gets the time of the broker's clock."""
MAX_BATCH_BYTES: Final = 900_000
"""Records are sent in batches of at most this size; a larger record has a batch of its own. Kafka's default limit is 1,048,588."""
_OVERHEAD_BYTES: Final = 64
"""At most what a record without headers adds to its key and value."""


@dataclass(frozen=True)
class Record:
    """A record: of ``records``, with its topic, partition and offset, or for ``produce``, which ignores those three.

    A text is encoded as UTF-8. ``headers`` takes pairs or a mapping. Raises TypeError, one line, for other types.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOW
    topic: str = ""
    partition: int = 0
    offset: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _bytes(self.value, "value"))
        object.__setattr__(self, "key", _bytes(self.key, "key"))
        object.__setattr__(self, "headers", _headers(self.headers))
        check_whole("timestamp_ms", self.timestamp_ms)

    @property
    def size_bytes(self) -> int:
        """About how much room the record takes in a batch."""
        of_headers = sum(len(name) + len(value or b"") + _OVERHEAD_BYTES for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + of_headers + _OVERHEAD_BYTES


Value = bytes | str | None
Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Values = Value | Record | Iterable[Value | Record]
"""What ``produce`` takes: one value or record, or several."""


def records_of(values: Values, key: Value, headers: Headers) -> list[Record]:
    """Return the records to write; ``key`` and ``headers`` are for values that are not Records.

    Raises TypeError and ValueError, one line, for values that cannot be written.
    """
    each: Iterable[Any] = (values,) if values is None or isinstance(values, str | bytes | Record) else values
    if isinstance(each, Mapping) or not isinstance(each, Iterable):
        _bytes(each, "value")
    pairs = _headers(headers)
    found = [_record_of(value, key, pairs) for value in each]
    if not found:
        raise ValueError("there are no values to produce")
    return found


def _record_of(value: Any, key: Any, headers: tuple[Header, ...]) -> Record:
    if isinstance(value, Record):
        return value
    if isinstance(value, SimpleRecord):
        return Record(value.value, value.key, tuple(value.headers), value.timestamp_ms)
    return Record(value, key, headers)


def batches_of(records: Sequence[Record], now_ms: int) -> Iterator[list[SimpleRecord]]:
    """Yield the records in batches of at most ``MAX_BATCH_BYTES``."""
    batch: list[SimpleRecord] = []
    size_bytes = 0
    for record in records:
        if batch and size_bytes + record.size_bytes > MAX_BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        at_ms = now_ms if record.timestamp_ms == NOW else record.timestamp_ms
        batch.append(SimpleRecord(at_ms, record.key, record.value, record.headers))
        size_bytes += record.size_bytes
    yield batch


def _bytes(value: Any, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    advice = "; json.dumps() makes a text of it" if isinstance(value, dict | list | int | float) else ""
    raise TypeError(f"the {what} {value!r:.80} is of type {type(value).__name__}: expected bytes, a text or None{advice}")


def _headers(headers: Any) -> tuple[Header, ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found: list[Header] = []
    for pair in () if pairs is None else pairs:
        if not (isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"the header {pair!r:.80}: expected a name and a value, as in headers={{'trace': b'1'}}")
        found.append((pair[0], _bytes(pair[1], f"value of header {pair[0]!r}")))
    return tuple(found)
