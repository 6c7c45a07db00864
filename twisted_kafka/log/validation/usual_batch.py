"""Recognizes the usual batch of a client, which needs no more than an offset.

It is one valid batch of format 2, neither compressed nor to be rewritten, with its records in order, and its header states their
largest timestamp.

``log_validator`` handles all other batches, and only it refuses a batch.
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.config.keys.declare import MAX_LONG
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.validation.records import LOG_APPEND_TIME
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.layout import CRC_START, HEADER, HEADER_SIZE, LATEST_MAGIC, LOG_OVERHEAD
from twisted_kafka.protocol.records.record import TRANSACTIONAL_FLAG
from twisted_kafka.protocol.records.scan import scan_records
from twisted_kafka.system.buffers import to_read

_MAX_SEQUENCE: Final = 2**31 - 1
_UNUSUAL_FLAGS: Final = ~TRANSACTIONAL_FLAG
_unpack_header: Final = HEADER.unpack_from


def usual_header(view: memoryview, config: LogConfig, wall_ms: Callable[[], int]) -> tuple[int, ...] | None:
    """Return the fields of the header (``layout.HEADER``) if it is a usual batch; None for any other bytes.

    A batch without a producer id is not transactional, and sequence numbers do not wrap around. Raises InvalidRecordError and
    RecordTooLargeError for malformed records, as ``validate_and_assign_offsets`` would.
    """
    size = len(view)
    if size < HEADER_SIZE or size > config.max_message_bytes:
        return None
    header = _unpack_header(view)
    base_offset, stated, _, magic, crc, attributes, last_delta, base_ms, max_ms, producer_id, _, sequence, count = header
    if (
        stated != size - LOG_OVERHEAD
        or magic != LATEST_MAGIC
        or base_offset
        or attributes & _UNUSUAL_FLAGS
        or last_delta != count - 1
        or count <= 0
        or (not 0 <= sequence <= _MAX_SEQUENCE - last_delta if producer_id >= 0 else producer_id != -1 or attributes)
        or config.compression_type != "producer"
        or config.message_timestamp_type == LOG_APPEND_TIME
        or crc32c(view[CRC_START:]) != crc
    ):
        return None
    is_sequential, _, smallest_delta, largest_delta, lacks_keys = scan_records(to_read(view[HEADER_SIZE:]), count)
    if not is_sequential or base_ms + largest_delta != max_ms or (lacks_keys and config.compact):
        return None
    return header if _is_in_range(base_ms + smallest_delta, max_ms, config, wall_ms) else None


def _is_in_range(smallest_ms: int, largest_ms: int, config: LogConfig, wall_ms: Callable[[], int]) -> bool:
    """Return whether no timestamp is negative or outside the topic's range."""
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if smallest_ms < 0 or before_ms == after_ms == MAX_LONG:
        return smallest_ms >= 0  # most topics have no limits, so most appends do not ask for the time
    now_ms = wall_ms()
    return now_ms - smallest_ms <= before_ms and largest_ms - now_ms <= after_ms
