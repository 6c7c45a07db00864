"""The rules for single records: timestamps within the topic's range, keys on compacted topics."""

from collections.abc import Iterable

from twisted_kafka.log.validation.types import InvalidRecordsError, InvalidTimestampsError, ValidationContext
from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.protocol.records.record import NO_TIMESTAMP, Record
from twisted_kafka.protocol.records.scan_python import RecordScan
from twisted_kafka.protocol.records.varint import read_varint
from twisted_kafka.protocol.regions import Buffer

LOG_APPEND_TIME = "LogAppendTime"
_SHOWN_ERRORS = 3
MAX_RECORD_ERRORS = 10_000
"""The most record errors that are reported for a batch: a compressed one can have a million records."""


def may_break_rules(scan: RecordScan, base_timestamp_ms: int, sent_append_time_ms: int | None, context: ValidationContext) -> bool:
    """Return whether a record of a format 2 batch may break a rule, so that each must be checked."""
    config = context.config
    if scan.lacks_keys and config.compact:
        return True
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return sent_append_time_ms is not None
    if sent_append_time_ms is not None:
        if sent_append_time_ms == NO_TIMESTAMP:
            return True
        smallest = largest = sent_append_time_ms
    else:
        smallest = base_timestamp_ms + scan.smallest_timestamp_delta
        largest = base_timestamp_ms + scan.largest_timestamp_delta
    now_ms = context.now_ms
    return now_ms - smallest > config.message_timestamp_before_max_ms or largest - now_ms > config.message_timestamp_after_max_ms


def check_record_sizes(payload: Buffer, count: int, context: ValidationContext) -> None:
    """Raise InvalidRecordError if a record is larger than ``max.decompressed.message.bytes``. The payload has been scanned."""
    limit = context.config.max_decompressed_message_bytes
    position = 0
    for index in range(count):
        size, position = read_varint(payload, position)
        if size > limit:
            raise InvalidRecordError(
                f"record {index} of the batch has {size} bytes, more than max.decompressed.message.bytes, {limit}"
            )
        position += size


def check_records(records: Iterable[Record], context: ValidationContext, *, sent_append_time: bool) -> None:
    """Check each record of a batch; ``sent_append_time`` says that the batch was sent with timestamp type LogAppendTime.

    Raises InvalidTimestampsError or InvalidRecordsError, with at most MAX_RECORD_ERRORS errors.
    """
    config = context.config
    append_time = config.message_timestamp_type == LOG_APPEND_TIME
    earliest = context.now_ms - config.message_timestamp_before_max_ms
    latest = context.now_ms + config.message_timestamp_after_max_ms
    compact = config.compact
    errors = []
    keyless = 0
    bad_timestamp = False
    for index, record in enumerate(records):
        if compact and record.key is None:
            keyless += 1
            errors.append((index, f"records of the compacted topic of {context.topic_partition} must have a key"))
        elif not append_time and record.timestamp_ms != NO_TIMESTAMP:
            if not earliest <= record.timestamp_ms <= latest:
                bad_timestamp = True
                errors.append((index, f"timestamp {record.timestamp_ms} is out of range, [{earliest}, {latest}]"))
        elif sent_append_time:
            bad_timestamp = True
            errors.append((index, "a producer must not set the timestamp type to LogAppendTime"))
        if len(errors) == MAX_RECORD_ERRORS:
            break
    if bad_timestamp:
        raise InvalidTimestampsError("one or more records have been rejected due to invalid timestamps", errors, keyless)
    if errors:
        shown = "; ".join(f"{index}: {why}" for index, why in errors[:_SHOWN_ERRORS])
        raise InvalidRecordsError(f"{len(errors)} records have been rejected, the first of them: {shown}", errors, keyless)
