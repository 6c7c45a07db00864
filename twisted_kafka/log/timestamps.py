"""Finding records by time: the time index, then batch headers, then the records of one batch."""

import os

from twisted_kafka.log.batch_headers import BatchHeader
from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.log.segment import LogSegment
from twisted_kafka.log.segments import Segments
from twisted_kafka.protocol.records.batch import Record, batches


def find_timestamp(segments: Segments, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    """Return the first record from ``start_offset`` on not older than ``timestamp_ms``; raises OSError, CorruptRecordError."""
    for segment in segments.since(start_offset):
        if segment.max_timestamp.timestamp_ms < timestamp_ms:
            continue
        at = segment.offset_before(timestamp_ms - 1)
        found = segment.locate(max(at, start_offset))
        if found is None:
            continue
        for header in segment.headers(found[1]):
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
                continue
            for record in _records(segment, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return TimestampAndOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def find_max_timestamp(segments: Segments) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp, or None when there is none; raises OSError, CorruptRecordError."""
    latest = max(segments, key=lambda segment: segment.max_timestamp.timestamp_ms)
    timestamp_ms, offset = latest.max_timestamp
    found = latest.locate(offset) if timestamp_ms >= 0 else None
    if found is None:
        return None
    header = next(latest.headers(found[1]))
    for record in _records(latest, header):
        if record.timestamp_ms == timestamp_ms:
            return TimestampAndOffset(timestamp_ms, record.offset, header.leader_epoch)
    return TimestampAndOffset(timestamp_ms, offset, header.leader_epoch)


def _records(segment: LogSegment, header: BatchHeader) -> list[Record]:
    data = os.pread(segment.file.fileno(), header.size_bytes, header.position)
    return [record for batch in batches(data) for record in batch.records()]
