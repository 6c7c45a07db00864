"""Whether a closed segment's index files can be its own, and building them anew when they cannot.

Kafka checks no index of a log that was closed cleanly, and a wrong one makes its readers fail. Here the last entries are compared
with the batches that they point to, when the indexes are first needed: opening a log with many segments reads none of them.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.logger import Logger

from twisted_kafka.log.batch_headers import HEADER_BYTES, SMALLEST_LEGACY_BYTES, BatchHeader, is_plausible, scan_headers
from twisted_kafka.log.files import TEMPORARY_SUFFIX
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex

if TYPE_CHECKING:
    from twisted_kafka.log.segment.log_segment import LogSegment

_log = Logger()


def check_indexes(segment: "LogSegment") -> None:
    """Build the segment's index files anew unless their last entries fit its batches; raises OSError."""
    with segment.checking:
        if not segment.is_checked:
            if not _fit(segment):
                _log.warn("{path}: its indexes do not fit it and are built anew", path=str(segment.path))
                _rebuild(segment)
            segment.is_checked = True


def _fit(segment: "LogSegment") -> bool:
    offsets, times = segment.offset_index, segment.time_index
    offset, position = offsets.last_entry()
    if not segment.size_bytes:
        return not offsets.entries
    header = _header_at(segment, position)
    if header is None or header.base_offset < segment.base_offset or (offsets.entries and header.base_offset > offset):
        return False
    if not times.entries:
        return int(header.max_timestamp_ms) < 0
    first = _header_at(segment, 0)
    last_offset, last_time_ms = times.last_entry().offset, times.last_entry().timestamp_ms
    if first is None or last_offset < segment.base_offset:
        return False
    latest_fits: bool = last_time_ms >= first.max_timestamp_ms
    return latest_fits


def _header_at(segment: "LogSegment", position: int) -> BatchHeader | None:
    data = os.pread(segment.file.fileno(), HEADER_BYTES, position)
    if len(data) < SMALLEST_LEGACY_BYTES:
        return None
    size = int.from_bytes(data[8:12], signed=True) + 12
    if not is_plausible(size, data[16]) or position + size > segment.size_bytes:
        return None
    return BatchHeader(data.ljust(HEADER_BYTES, b"\0"), 0, position)


def _temporary(index: OffsetIndex | TimeIndex) -> Path:
    return index.path.with_name(index.path.name + TEMPORARY_SUFFIX)


def _rebuild(segment: "LogSegment") -> None:
    """Index the batches into new files, which take the place of the old ones; readers meanwhile use the old ones."""
    limit = segment.offset_index.max_entries * segment.offset_index.entry.size
    offsets = OffsetIndex(_temporary(segment.offset_index), segment.base_offset, limit)
    times = TimeIndex(_temporary(segment.time_index), segment.base_offset, limit)
    offsets.reset()
    times.reset()
    largest, largest_offset, since_entry = -1, segment.base_offset, 0
    for header in scan_headers(segment.file.fileno(), 0, segment.size_bytes):
        if header.max_timestamp_ms > largest:
            largest, largest_offset = header.max_timestamp_ms, header.last_offset
        if since_entry > segment.index_interval_bytes:
            offsets.append(header.last_offset, header.position)
            times.maybe_append(largest, largest_offset)
            since_entry = 0
        since_entry += header.size_bytes
    times.maybe_append(largest, largest_offset)
    segment.offset_index.replace_file(offsets)
    segment.time_index.replace_file(times)
