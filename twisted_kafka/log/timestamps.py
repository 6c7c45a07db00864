"""Finding records by time: the time index, then batch headers, then the records of one batch."""

import os
from collections.abc import Iterator

from twisted_kafka.log.batch_headers import BatchHeader
from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.log.segment import LogSegment
from twisted_kafka.log.segments import Segments
from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.protocol.records.batch import DefaultBatch, TimestampType, batches
from twisted_kafka.protocol.records.varint import read_varint, read_varlong


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
            for offset, time_ms in _times(segment, header):
                if time_ms >= timestamp_ms and offset >= start_offset:
                    return TimestampAndOffset(time_ms, offset, header.leader_epoch)
    return None


def find_max_timestamp(segments: Segments) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp, or None when there is none; raises OSError, CorruptRecordError."""
    latest = max(segments, key=lambda segment: segment.max_timestamp.timestamp_ms)
    timestamp_ms, offset = latest.max_timestamp
    found = latest.locate(offset) if timestamp_ms >= 0 else None
    if found is None:
        return None
    header = next(latest.headers(found[1]))
    for record_offset, time_ms in _times(latest, header):
        if time_ms == timestamp_ms:
            return TimestampAndOffset(timestamp_ms, record_offset, header.leader_epoch)
    return TimestampAndOffset(timestamp_ms, offset, header.leader_epoch)


def _times(segment: LogSegment, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of each record of a batch; raises OSError, CorruptRecordError, InvalidRecordError."""
    data = os.pread(segment.file.fileno(), header.size_bytes, header.position)
    for batch in batches(data):
        if isinstance(batch, DefaultBatch) and batch.timestamp_type == TimestampType.CREATE_TIME:
            yield from _created_times(batch)
        else:
            for record in batch.records():
                yield record.offset, record.timestamp_ms


def _created_times(batch: DefaultBatch) -> Iterator[tuple[int, int]]:
    payload, position = batch.payload(), 0
    try:
        for _ in range(batch.count):
            size, position = read_varint(payload, position)
            delta_ms, offset_at = read_varlong(payload, position + 1)
            yield batch.base_offset + read_varint(payload, offset_at)[0], batch.base_timestamp_ms + delta_ms
            position += size
    except (IndexError, ValueError) as error:
        raise InvalidRecordError(f"a record of the batch at offset {batch.base_offset} is malformed: {error}") from None
