"""Checks that the indexes of a closed segment match its batches, and rebuilds them if not.

Kafka does not check the indexes of a log that was closed cleanly, and readers fail on wrong ones. Here the last entries are
compared with the batches that they point to, on the first use of the indexes: opening a log does not read them.
"""

from pathlib import Path
from typing import NamedTuple

from twisted_kafka.log.batch_headers import SMALLEST_LEGACY_BYTES, BatchHeader, is_plausible, scan_headers
from twisted_kafka.log.files import TEMPORARY_SUFFIX
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.protocol.records.layout import HEADER_SIZE
from twisted_kafka.system.files.file_io import OpenFile, read_at


class BatchFile(NamedTuple):
    """The open file of a segment."""

    file: OpenFile
    base_offset: int
    size_bytes: int


def indexes_fit(batches: BatchFile, offsets: OffsetIndex, times: TimeIndex) -> bool:
    """Return whether the last entries of the indexes point to batches of the file; raises OSError."""
    offset, position = offsets.last_entry()
    if not batches.size_bytes:
        return not offsets.entries
    header = _header_at(batches, position)
    if header is None or header.base_offset < batches.base_offset or (offsets.entries and header.base_offset > offset):
        return False
    if not times.entries:
        return int(header.max_timestamp_ms) < 0
    first = _header_at(batches, 0)
    if first is None:
        return False
    latest_fits: bool = times.last_entry().timestamp_ms >= first.max_timestamp_ms
    return latest_fits


def rebuild_indexes(batches: BatchFile, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int) -> None:
    """Build new index files from the batches, and replace the old ones, which readers use until then. Raises OSError."""
    limit = offsets.max_entries * offsets.entry.size
    new_offsets = OffsetIndex(_temporary(offsets), batches.base_offset, limit)
    new_times = TimeIndex(_temporary(times), batches.base_offset, limit)
    new_offsets.reset()
    new_times.reset()
    largest, largest_offset, since_entry = -1, batches.base_offset, 0
    for header in scan_headers(batches.file, 0, batches.size_bytes):
        if header.max_timestamp_ms > largest:
            largest, largest_offset = header.max_timestamp_ms, header.last_offset
        if since_entry > interval_bytes:
            new_offsets.append(header.last_offset, header.position)
            new_times.maybe_append(largest, largest_offset)
            since_entry = 0
        since_entry += header.size_bytes
    new_times.maybe_append(largest, largest_offset)
    offsets.replace_file(new_offsets)
    times.replace_file(new_times)


def _header_at(batches: BatchFile, position: int) -> BatchHeader | None:
    available = batches.size_bytes - position
    if available < SMALLEST_LEGACY_BYTES:
        return None
    data = read_at(batches.file, min(HEADER_SIZE, available), position)
    size = int.from_bytes(data[8:12]) + 12
    if not is_plausible(size, data[16]) or position + size > batches.size_bytes:
        return None
    return BatchHeader(data.ljust(HEADER_SIZE, b"\0"), 0, position)


def _temporary(index: OffsetIndex | TimeIndex) -> Path:
    return index.path.with_name(index.path.name + TEMPORARY_SUFFIX)
