"""Finds records by timestamp: in the time index, then in batch headers, then in the records of one batch."""

from twisted_kafka.log.batch_headers import PROBE_BYTES, SMALLEST_LEGACY_BYTES, BatchHeader, is_plausible
from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.log.segment.log_segment import Located, LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.protocol.records.batch import DefaultBatch, batches
from twisted_kafka.protocol.records.layout import ATTRIBUTES_AT, BASE_TIMESTAMP_AT, HEADER_SIZE, INT64, LATEST_MAGIC
from twisted_kafka.protocol.records.record import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK
from twisted_kafka.protocol.records.varint import read_varint, read_varlong
from twisted_kafka.system.files.file_io import read_at


def find_timestamp(segments: LogSegments, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    """Return the first record from ``start_offset`` on that is not older, or None; raises OSError, CorruptRecordError."""
    for segment in segments.reaching(timestamp_ms, start_offset):
        least_offset = max(segment.first_later(timestamp_ms - 1), start_offset)
        located = segment.locate(least_offset)
        found = located and _find_in(segment, located, least_offset, timestamp_ms)
        if found is not None:
            return found
    return None


def find_max_timestamp(segments: LogSegments) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp, or None; raises OSError, CorruptRecordError."""
    latest = max(segments, key=lambda segment: segment.max_timestamp.timestamp_ms)
    timestamp_ms, offset = latest.max_timestamp
    located = latest.locate(offset) if timestamp_ms >= 0 else None
    if located is None:
        return None
    # Any record of that batch: the base offset of a compressed message of an old format is not in its header.
    found = _find_in(latest, located, latest.base_offset, timestamp_ms)
    return found or TimestampAndOffset(timestamp_ms, offset, -1)


def _find_in(segment: LogSegment, located: Located, start_offset: int, timestamp_ms: int) -> TimestampAndOffset | None:
    _, position, batch_end, _ = located
    file, end = segment.file, segment.size_bytes
    # The first batch is most likely the one.
    read_bytes = max(batch_end - position, PROBE_BYTES)
    data, start = b"", position
    while end - position >= SMALLEST_LEGACY_BYTES:
        at = position - start
        if at + HEADER_SIZE > len(data):
            data = read_at(file, min(read_bytes, end - position), position).ljust(HEADER_SIZE, b"\0")
            start, at, read_bytes = position, 0, PROBE_BYTES
        header = BatchHeader(data, at, position)
        size = header.size_bytes
        if position + size > end or not is_plausible(size, header.magic):
            return None
        if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= start_offset:
            if at + size > len(data):
                data, start, at = read_at(file, size, position), position, 0
            found = _find_record(data, at, header, (timestamp_ms, start_offset))
            if found is not None:
                return TimestampAndOffset(found[0], found[1], header.leader_epoch)
        position += size
    return None


def _find_record(data: bytes, at: int, header: BatchHeader, wanted: tuple[int, int]) -> tuple[int, int] | None:
    """Return time and offset of the first record of the batch at ``at`` with at least the time and the offset in ``wanted``.

    Raises CorruptRecordError, InvalidRecordError.
    """
    size = header.size_bytes
    if header.magic == LATEST_MAGIC and not data[at + ATTRIBUTES_AT] & TIMESTAMP_TYPE_MASK:
        if data[at + ATTRIBUTES_AT] & COMPRESSION_MASK:
            payload, first = DefaultBatch(memoryview(data)[at : at + size]).payload(), 0
        else:
            payload, first = data, at + HEADER_SIZE
        return _find_created(payload, first, header, INT64.unpack_from(data, at + BASE_TIMESTAMP_AT)[0], wanted)
    timestamp_ms, start_offset = wanted
    for batch in batches(data[at : at + size]):
        for record in batch.records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.timestamp_ms, record.offset
    return None


def _find_created(
    payload: bytes, position: int, header: BatchHeader, base_timestamp_ms: int, wanted: tuple[int, int]
) -> tuple[int, int] | None:
    least_delta_ms, start_offset = wanted[0] - base_timestamp_ms, wanted[1]
    base_offset = header.base_offset
    try:
        for _ in range(header.count):
            # Integers of one or two bytes are decoded inline: a call would take twice the time.
            size, start = payload[position], position + 1
            if size >= 0x80:
                byte = payload[start]
                size, start = ((size & 0x7F | byte << 7) >> 1, start + 1) if byte < 0x80 else read_varint(payload, position)
            else:
                size >>= 1
            delta_ms, offset_at = payload[start + 1], start + 2
            if delta_ms >= 0x80:
                delta_ms, offset_at = read_varlong(payload, start + 1)
            else:
                delta_ms = (delta_ms >> 1) ^ -(delta_ms & 1)
            if delta_ms >= least_delta_ms:
                offset = base_offset + read_varint(payload, offset_at)[0]
                if offset >= start_offset:
                    return base_timestamp_ms + delta_ms, offset
            position = start + size
            if position <= start:
                raise ValueError(f"the size of a record is {size} bytes")
    except (IndexError, ValueError) as error:
        raise InvalidRecordError(f"a record of the batch at offset {base_offset} is malformed: {error}") from None
    return None
