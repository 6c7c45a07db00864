"""Splits segments with offsets that do not fit the 32-bit relative offset of an index entry.

Compactions of old brokers made such segments (KAFKA-6264). The batches go to several segments in which every offset fits. They
replace the old segment in the way that a compacted one does, so the next start after a crash undoes or completes the split.
(Kafka: LocalLog.splitOverflowedSegment, LogLoader.retryOnOffsetOverflow.)
"""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise

from twisted.logger import Logger

from twisted_kafka.log.batch_headers import BatchHeader, crc_matches, scan_batches
from twisted_kafka.log.files import SWAP_SUFFIX, remove_if_there, sync_directory
from twisted_kafka.log.segment.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from twisted_kafka.protocol.records.layout import LATEST_MAGIC

SegmentMaker = Callable[[int], LogSegment]
"""Creates an empty segment with this base offset, whose files end with ``.cleaned``."""

_log = Logger()


class OverflowedSegmentError(Exception):
    """A valid batch has an offset that does not fit the indexes: its segment must be split."""

    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment


def split_closed(segments: list[LogSegment], make: SegmentMaker) -> list[LogSegment]:
    """Return the segments, with overflowed ones split, except the last; raises OSError.

    Only segments whose successor is too far away are read. A corrupt segment is not split: recovery handles it.
    """
    found: list[LogSegment] = []
    for segment, following in pairwise(segments):
        if segment.fits(following.base_offset - 1) or not _is_overflowed(segment):
            found.append(segment)
        elif find_valid_end(segment) < segment.size_bytes:
            _log.warn("{path} has offsets that do not fit its indexes, but is corrupt: it is not split", path=str(segment.path))
            found.append(segment)
        else:
            found += split(segment, make)
    return [*found, *segments[-1:]]


def _is_overflowed(segment: LogSegment) -> bool:
    return any(not segment.fits(header.last_offset) for header in segment.headers())


def _valid_batches(segment: LogSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
    next_offset = segment.base_offset
    for header, batch in scan_batches(segment.file, 0, segment.size_bytes):
        if header.base_offset < next_offset or header.last_offset < header.base_offset or not crc_matches(batch):
            return
        yield header, batch
        next_offset = header.last_offset + 1


def find_valid_end(segment: LogSegment) -> int:
    """Return the end position of the valid batches at the front of a segment; raises OSError."""
    end = 0
    for header, _ in _valid_batches(segment):
        end = header.position + header.size_bytes
    return end


def split(segment: LogSegment, make: SegmentMaker) -> list[LogSegment]:
    """Replace a valid segment by several in which every offset fits, and return these; raises OSError."""
    _log.info("{path} has offsets that do not fit its indexes and is split", path=str(segment.path))
    pieces = [make(segment.base_offset)]
    try:
        _fill(pieces, segment, make)
        _split_aborted(pieces, segment)
        modified_ms = segment.last_modified_ms()
        for piece in pieces:
            piece.seal()
            piece.sync()
            os.utime(piece.path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    except BaseException:
        for piece in pieces:
            piece.remove()
        raise
    _replace(segment, pieces)
    return pieces


def _fill(pieces: list[LogSegment], segment: LogSegment, make: SegmentMaker) -> None:
    next_offset = segment.base_offset
    for header, batch in _valid_batches(segment):
        if not pieces[-1].fits(header.last_offset):
            # The base offset of a message of an old format is not in its header, but cannot be further from its last offset.
            first = header.base_offset
            pieces.append(make(first if header.magic == LATEST_MAGIC else max(next_offset, first - MAX_RELATIVE_OFFSET)))
        next_offset = header.last_offset + 1
        header.position = 0
        pieces[-1].append(batch, [header])


def _split_aborted(pieces: list[LogSegment], segment: LogSegment) -> None:
    ends = [piece.base_offset for piece in pieces[1:]]
    for aborted in segment.transaction_index.entries:
        pieces[sum(end <= aborted.last_offset for end in ends)].transaction_index.append(aborted)


def _replace(segment: LogSegment, pieces: list[LogSegment]) -> None:
    # The first one last: while one of its files ends with .cleaned, the next start undoes the whole split.
    for piece in reversed(pieces):
        sync_directory(segment.directory)
        piece.change_suffix(SWAP_SUFFIX)
    sync_directory(segment.directory)
    marked = segment.mark_deleted()
    sync_directory(segment.directory)
    for piece in pieces:
        piece.change_suffix("")  # after a crash, the next start completes this
    for path in marked:
        remove_if_there(path)
