"""ReadLimits: a consistent view of where a log begins and ends for each kind of reader, and for retention."""

from collections.abc import Callable, Container
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.log.segment.log_segments import LogSegments


class ReadLimits(NamedTuple):
    """An immutable value: the log replaces it under its lock, and a reader takes it once per read.

    The first three fields are the upper bounds of each ``FetchIsolation``, in its order.
    """

    log_end: LogOffsetMetadata
    """The offset of the next record to be appended."""
    high_watermark: LogOffsetMetadata
    """The offset up to which all in-sync replicas have the log."""
    last_stable: LogOffsetMetadata
    """The offset up to which all transactions are complete; at most the high watermark."""
    log_start_offset: int
    segments: LogSegments
    first_unstable: LogOffsetMetadata | None
    """The start of the first transaction that is open, or whose marker is above the high watermark."""


read_limits_of = cast(
    Callable[
        [tuple[LogOffsetMetadata, LogOffsetMetadata, LogOffsetMetadata, int, LogSegments, LogOffsetMetadata | None]], ReadLimits
    ],
    partial(tuple.__new__, ReadLimits),
)
"""Creates ReadLimits from a plain tuple, in half the time of the class; for appends."""


def make_limits(
    log_end: LogOffsetMetadata,
    high_watermark: LogOffsetMetadata,
    log_start_offset: int,
    segments: LogSegments,
    first_unstable: LogOffsetMetadata | None,
) -> ReadLimits:
    """Return the limits, with the last stable offset derived from the others."""
    is_stable = first_unstable is None or first_unstable.message_offset >= high_watermark.message_offset
    last_stable = high_watermark if first_unstable is None or is_stable else first_unstable
    return read_limits_of((log_end, high_watermark, last_stable, log_start_offset, segments, first_unstable))


def with_segments(limits: ReadLimits, segments: LogSegments, replaced: Container[int]) -> ReadLimits:
    """Return the limits with other segments, without positions in the segments with the base offsets that were ``replaced``."""
    end, mark, _, start, _, unstable = limits
    if end.segment_base_offset in replaced:
        active = segments.active
        end = LogOffsetMetadata(end.message_offset, active.base_offset, active.size_bytes)
    if mark.segment_base_offset in replaced:
        mark = LogOffsetMetadata(mark.message_offset)
    if unstable is not None and unstable.segment_base_offset in replaced:
        unstable = LogOffsetMetadata(unstable.message_offset)
    return make_limits(end, mark, start, segments, unstable)


def exceeds_retention(limits: ReadLimits, config: LogConfig, now_ms: int) -> bool:
    """Return whether the oldest segment exceeds ``retention.ms`` or ``retention.bytes``, or is below the log start offset.

    The retention applies only if cleanup.policy includes delete. Records above the high watermark are kept.
    """
    segments = limits.segments
    oldest = segments.first
    following = segments.after(oldest)
    is_last = following is None
    end = limits.log_end.message_offset if following is None else following.base_offset
    if end > limits.high_watermark.message_offset or (is_last and not oldest.size_bytes):
        return False
    if not is_last and end <= limits.log_start_offset:
        return True
    if "delete" not in config.cleanup_policy:
        return False
    if 0 <= config.retention_bytes <= segments.size_bytes - oldest.size_bytes:
        return True
    return config.retention_ms >= 0 and oldest.largest_timestamp_ms() < now_ms - config.retention_ms
