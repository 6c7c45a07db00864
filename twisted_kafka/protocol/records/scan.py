"""Check that the records of a batch of format 2 parse, without making objects of them.

Every length must fit, every record end where it says, the count be as declared and no byte be left. Larger batches whose records
differ in length are checked with numpy where it is installed (the extra ``fast``); it is imported with the first such batch.
"""

from collections.abc import Callable

from twisted_kafka.protocol.errors import InvalidRecordError, RecordTooLargeError
from twisted_kafka.protocol.records.scan_python import RecordScan, scan_in_steps

NUMPY_THRESHOLD = 256
"""Batches of more records than this are worth numpy's overhead, unless their records are of one length."""

MOST_RECORDS = 1_000_000
"""The most records in a batch. A compressed one of 100 KB can declare ten million, which took a minute to check."""

PATIENCE = 16
"""After so many steps of the plain scan, which checks any number of records of one length in one step, numpy takes over."""

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, its length included."""


def scan_records(payload: bytes, count: int) -> RecordScan:
    """Check the ``count`` (at least one) records in ``payload``, which is decompressed.

    Raises InvalidRecordError where they don't parse, RecordTooLargeError for more than MOST_RECORDS.
    """
    if count * SMALLEST_RECORD > len(payload):
        raise InvalidRecordError(f"{count} records cannot be in {len(payload)} bytes")
    if count > NUMPY_THRESHOLD:
        if count > MOST_RECORDS:
            raise RecordTooLargeError(f"a batch of {count} records, more than {MOST_RECORDS}")
        vectorised = _vectorised()
        if vectorised is not None:
            return scan_in_steps(payload, count, PATIENCE) or vectorised(payload, count)
    scan = scan_in_steps(payload, count, count)
    assert scan is not None, "each step checks one record at least"
    return scan


_Scanner = Callable[[bytes, int], RecordScan]
_choice: list[_Scanner | None] = []


def _vectorised() -> _Scanner | None:
    if not _choice:
        try:
            from twisted_kafka.protocol.records.scan_numpy import scan_with_numpy
        except ImportError:
            _choice.append(None)
        else:
            _choice.append(scan_with_numpy)
    return _choice[0]
