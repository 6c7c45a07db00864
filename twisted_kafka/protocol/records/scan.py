"""Validate the records of a batch of format 2 without creating objects for them.

Every length must fit, every record must end where it declares, the number of records must be the declared one, and no byte may
remain. On CPython, large batches whose records differ in length are checked with numpy where it is installed (the extra
``fast``); it is imported with the first such batch.
"""

from collections.abc import Callable

from twisted_kafka.protocol.errors import InvalidRecordError, RecordTooLargeError
from twisted_kafka.protocol.records.scan_python import RecordScan, scan_in_steps
from twisted_kafka.system.interpreter import NUMPY_PAYS

NUMPY_THRESHOLD = 256
"""Batches with more records than this are worth numpy's overhead, unless all records have the same length."""

MAX_RECORDS = 1_000_000
"""The most records in a batch. A compressed one of 100 KB can declare ten million, which took a minute to check."""

MAX_PLAIN_STEPS = 16
"""Steps of the plain scan before numpy takes over; one step checks any number of records of the same length."""

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, including its length."""


def scan_records(payload: bytes | memoryview, count: int) -> RecordScan:
    """Check the ``count`` records, at least one, in the decompressed ``payload``.

    Raises InvalidRecordError when a record is malformed, RecordTooLargeError for more than MAX_RECORDS.
    """
    if count * SMALLEST_RECORD > len(payload):
        raise InvalidRecordError(f"{count} records do not fit into {len(payload)} bytes")
    if count > NUMPY_THRESHOLD:
        if count > MAX_RECORDS:
            raise RecordTooLargeError(f"a batch of {count} records exceeds the maximum of {MAX_RECORDS}")
        vectorised = _vectorised()
        if vectorised is not None:
            return scan_in_steps(payload, count, MAX_PLAIN_STEPS) or vectorised(bytes(payload), count)
    scan = scan_in_steps(payload, count, count)
    assert scan is not None, "each step checks at least one record"
    return scan


_Scanner = Callable[[bytes, int], RecordScan]
_choice: list[_Scanner | None] = []


def _vectorised() -> _Scanner | None:
    if not _choice:
        _choice.append(_load() if NUMPY_PAYS else None)
    return _choice[0]


def _load() -> _Scanner | None:
    try:
        from twisted_kafka.protocol.records.scan_numpy import scan_with_numpy
    except ImportError:
        return None
    return scan_with_numpy
